// Views of the recorded cases for tests that replay a part of them without a server: against the HTTP front end, against
// a codec, against the rules of configurations. The corpus in `cases` and `repositories` is the only copy.

import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import type { HttpAnswer, RecordedHttpRequest } from './http-exchange.ts'
import { goldenFolder, loadCases, type RecordedStep } from './recorded-case.ts'

/** One request over HTTP, and what the recorded server answered. */
type HttpView = {
  readonly name: string
  readonly group: string
  readonly repository: string
  readonly request: RecordedHttpRequest
  readonly expect: HttpAnswer
}

/** The cases of these groups that are one HTTP request, but for some by name; each of those must exist. */
export function httpViews(groups: readonly string[], without: readonly string[] = []): HttpView[] {
  const views = loadCases().flatMap(({ name, group, setup, steps: [step, ...rest] }) =>
    groups.includes(group) && step?.kind === 'http' && rest.length === 0 && step.expect !== undefined
      ? [{ name, group, repository: setup.repository, request: step.request, expect: step.expect as HttpAnswer }]
      : [],
  )
  const missing = without.filter((name) => !views.some((view) => view.name === name))
  assert.deepEqual(missing, [], 'a case that is left out is one of those that there are')
  return views.filter(({ name }) => !without.includes(name))
}

/** One configuration, and what the recorded server said about it while it polled and while it loaded. */
export type ConfigView = {
  readonly name: string
  readonly model: string
  readonly config: string
  readonly isAutoCompleteDisabled: boolean
  readonly when: 'accepted' | 'poll' | 'load'
  readonly message: string
  readonly code?: string
}

const unavailable = /^load failed for model '[^']*': version \d+ is at UNAVAILABLE state: ([A-Za-z ]+): (.*);\n$/s

export function configViews(): ConfigView[] {
  return loadCases()
    .filter(({ group }) => group === 'config-validation')
    .map(({ name, setup, steps }) => {
      const [load] = steps
      const model = /models\/([^/]+)\/load$/.exec(load?.request.path ?? '')?.[1] ?? ''
      return {
        name,
        model,
        config: configText(setup.repository, model) ?? '',
        isAutoCompleteDisabled: setup.flags?.includes('--disable-auto-complete-config') ?? false,
        ...verdictOf(steps),
      }
    })
}

function verdictOf(steps: readonly RecordedStep[]): Pick<ConfigView, 'when' | 'message' | 'code'> {
  const logged = steps.flatMap(({ kind, expect }) => (kind === 'log' ? (expect?.['lines'] as string[]) : []))
  const failure = /^Poll failed for model directory '[^']*': (.*)$/s.exec(logged[0] ?? '')?.[1]
  if (failure !== undefined) return { when: 'poll', message: failure }
  const { status, body = '' } = (steps[0] as RecordedStep).expect as HttpAnswer
  if (status === 200) return { when: 'accepted', message: '' }
  const { error } = JSON.parse(body) as { error: string }
  const [, code = '', message = error] = unavailable.exec(error) ?? []
  return { when: 'load', message, code }
}

/** A configuration that was loaded, and the JSON that the recorded server gave out of it. */
export type LoadedConfigView = { readonly model: string; readonly config: string; readonly json: string }

export function loadedConfigViews(): LoadedConfigView[] {
  const views = new Map<string, LoadedConfigView>()
  for (const { setup, steps } of loadCases()) {
    for (const { kind, request, expect } of steps) {
      const model =
        kind === 'http' ? /^\/v2\/models\/([^/]+)\/(?:.*\/)?config$/.exec(request.path ?? '')?.[1] : undefined
      const config = model === undefined ? null : configText(setup.repository, model)
      if (model === undefined || config === null || expect?.['status'] !== 200) continue
      views.set(`${setup.repository}/${model}`, { model, config, json: String(expect['body']) })
    }
  }
  return [...views.values()]
}

function configText(repository: string, model: string): string | null {
  const file = path.join(goldenFolder, 'repositories', repository, model, 'config.pbtxt')
  return existsSync(file) ? readFileSync(file, 'utf8') : null
}
