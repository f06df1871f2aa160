// Replays recorded cases of the real server against ours.
//   npx node test/conformance/golden/replay.ts [--group infer-json]… [--case part-of-a-name] [--update-pending]
// Prints a difference for each case that fails, then a table of groups.

import { writeFileSync, readFileSync, existsSync } from 'node:fs'
import path from 'node:path'
import { parseArgs, inspect } from 'node:util'
import { comparable, isSameAnswer } from './compare-answers.ts'
import { bySetup, goldenFolder, loadCases, type RecordedCase } from './recorded-case.ts'
import { runStep } from './run-step.ts'
import { ServerUnderReplay } from './server-under-replay.ts'

/** `problem` is null when the case passes. */
export type Outcome = { readonly recorded: RecordedCase; readonly problem: string | null }

const pendingFile = path.join(goldenFolder, 'not-yet-passing.json')

/** Names of cases that are known not to pass yet. The list may only shrink. */
export const pendingCases = (): Set<string> =>
  new Set(existsSync(pendingFile) ? (JSON.parse(readFileSync(pendingFile, 'utf8')) as string[]) : [])

async function replayCase(recorded: RecordedCase, server: ServerUnderReplay): Promise<Outcome> {
  for (const [index, step] of recorded.steps.entries()) {
    let answer: Record<string, unknown>
    try {
      answer = await runStep(step, server)
    } catch (reason) {
      return { recorded, problem: `step ${index}: ${String(reason)}` }
    }
    const { expect } = step
    // Where Python's own import machinery stands differs from one patch release to the next.
    const volatile = [...(step.volatile ?? []), 're:(?<=<frozen importlib[^>]*>)\\(\\d+\\)']
    if (expect === undefined || isSameAnswer(expect, answer, volatile)) continue
    const show = (document: Record<string, unknown>): string =>
      inspect(comparable(document, volatile), { depth: 12, breakLength: 160, maxStringLength: 2000 })
    const asked = JSON.stringify(step.request).slice(0, 600)
    return { recorded, problem: `step ${index} ${asked}\nexpected ${show(expect)}\ngot ${show(answer)}` }
  }
  return { recorded, problem: null }
}

/** Cases of one setup, on one server; a case that takes the server down gets a new one for the rest. */
async function replaySetup(cases: readonly RecordedCase[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  const waiting = [...cases]
  while (waiting.length > 0) {
    const { setup } = waiting[0] as RecordedCase
    const server = await ServerUnderReplay.start(setup)
    try {
      const until = setup.wait ?? 'ready'
      if (!(await server.wait(until))) {
        const log = readFileSync(server.logPath, 'utf8').slice(-3000)
        return [...outcomes, ...waiting.map((recorded) => ({ recorded, problem: `the server did not start:\n${log}` }))]
      }
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        outcomes.push(await replayCase(next, server))
        if (server.hasExited && until !== 'exit') break
      }
    } finally {
      await server.stop()
    }
  }
  return outcomes
}

export async function replay(cases: readonly RecordedCase[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  for (const setup of bySetup(cases)) outcomes.push(...(await replaySetup(setup)))
  return outcomes
}

/** What can be replayed: everything. */
export const replayableCases = (): RecordedCase[] => loadCases()

export function summary(outcomes: readonly Outcome[]): string {
  const groups = new Map<string, { passed: number; total: number }>()
  for (const { recorded, problem } of outcomes) {
    const row = groups.get(recorded.group) ?? { passed: 0, total: 0 }
    row.total++
    if (problem === null) row.passed++
    groups.set(recorded.group, row)
  }
  const rows = [...groups]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { passed, total }]) => `${name} ${passed}/${total}`)
  const passed = outcomes.filter((outcome) => outcome.problem === null).length
  return [...rows, `total ${passed}/${outcomes.length}`].join('\n')
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      group: { type: 'string', multiple: true },
      case: { type: 'string' },
      'update-pending': { type: 'boolean' },
    },
  })
  const cases = replayableCases().filter(
    ({ group, name }) =>
      (values.group === undefined || values.group.some((glob) => path.matchesGlob(group, glob))) &&
      (values.case === undefined || name.includes(values.case)),
  )
  const outcomes = await replay(cases)
  for (const { recorded, problem } of outcomes) {
    if (problem !== null) console.log(`--- ${recorded.group}/${recorded.name}\n${problem}\n`)
  }
  console.log(summary(outcomes))
  if (values['update-pending'] === true) {
    const failing = outcomes.filter((outcome) => outcome.problem !== null).map(({ recorded }) => recorded.name)
    writeFileSync(pendingFile, `${JSON.stringify(failing.sort(), null, 1)}\n`)
  }
}

if (import.meta.main) await main()
