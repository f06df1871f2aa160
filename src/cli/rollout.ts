// `galatea rollout …`: sees and steers the rollouts of a running server, over its HTTP port.

import { parseArgs } from 'node:util'
import { SystemClock } from '../base/clock.ts'
import { nearestWord } from '../base/nearest-word.ts'
import { messageOf } from '../base/server-error.ts'
import { startHint } from '../base/start-hint.ts'
import { bucketOf } from '../rollouts/assignment.ts'
import type { CommandIo } from './command-io.ts'
import { printable } from './printable.ts'
import { textTable } from './text-table.ts'

const usage = `Usage: galatea rollout list [--model M] [--state S]
       galatea rollout show NAME [--wait SECONDS]
       galatea rollout start MODEL [--candidate VERSION] [--name NAME] [--file rollout.json] [--retry]
       galatea rollout pause|resume|approve|advance|promote|rollback NAME [--reason TEXT] [--arm ARM]
       galatea rollout note NAME TEXT
       galatea rollout report NAME
       galatea rollout bucket SALT KEY     the bucket of a key, 0 to 9999: below 100 × weight it gets the candidate

  --url URL            the HTTP port of the server (http://localhost:8000, or $GALATEA_URL)
  --header NAME:VALUE  sent with every call, as for --http-restricted-api; may be repeated
  --arm ARM            promote: the arm of an experiment that becomes the default version; absent: the winner
  --wait SECONDS       show: wait for the end of the rollout, for at most so long; for pipelines
  --json               the answer as it came
  --help

Exit status: 0 done, 1 the server refused or the rollout that was waited for did not succeed, 2 the command line is wrong or the server cannot be reached.
`

const options = {
  url: { type: 'string' },
  header: { type: 'string', multiple: true },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  model: { type: 'string' },
  state: { type: 'string' },
  candidate: { type: 'string' },
  name: { type: 'string' },
  file: { type: 'string' },
  retry: { type: 'boolean' },
  reason: { type: 'string' },
  arm: { type: 'string' },
  wait: { type: 'string' },
} as const

type Values = { readonly [Name in keyof typeof options]?: string | boolean | string[] | undefined }

type Call = { readonly target: string; readonly body?: object; readonly accept?: string }

const actions = ['pause', 'resume', 'approve', 'advance', 'promote', 'rollback']
const verbs = ['list', 'show', 'start', ...actions, 'note', 'report', 'bucket']

class UsageError extends Error {}

/** Resolves with the exit status. */
export async function runRollout(args: readonly string[], io: CommandIo): Promise<number> {
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
    if (values.help === true || positionals.length === 0) {
      ;(values.help === true ? io.stdout : io.stderr)(usage)
      return values.help === true ? 0 : 2
    }
    const [verb = '', ...words] = positionals
    if (!verbs.includes(verb)) {
      const near = nearestWord(verb, verbs)
      throw new UsageError(`there is no '${verb}'${near === null ? '' : `, did you mean '${near}'?`}`)
    }
    if (verb === 'bucket') {
      const [salt, key] = required(words, 'bucket', ['SALT', 'KEY'])
      io.stdout(`${bucketOf(salt as string, key as string)}\n`)
      return 0
    }
    const call = await callOf(verb, words, values)
    if (verb === 'show' && values.wait !== undefined) return await waitForEnd(call, values, io)
    return await askServer(verb, call, values, io)
  } catch (reason) {
    const isUsage = reason instanceof UsageError || (reason as NodeJS.ErrnoException).code?.startsWith('ERR_PARSE_ARGS')
    io.stderr(
      `galatea rollout: ${messageOf(reason)}\n${isUsage === true ? "Run 'galatea rollout --help' for its options.\n" : ''}`,
    )
    return 2
  }
}

function required(words: readonly string[], verb: string, names: readonly string[]): readonly string[] {
  if (words.length === names.length) return words
  throw new UsageError(`'${verb}' takes ${names.join(' ')}`)
}

async function callOf(verb: string, words: readonly string[], values: Values): Promise<Call> {
  const named = (name: string): string => `/v2/rollouts/${encodeURIComponent(name)}`
  if (verb === 'list') {
    required(words, verb, [])
    const query = new URLSearchParams()
    for (const key of ['model', 'state'] as const) if (values[key] !== undefined) query.set(key, String(values[key]))
    return { target: `/v2/rollouts${query.size === 0 ? '' : `?${query.toString()}`}` }
  }
  if (verb === 'start') {
    const [model] = required(words, verb, ['MODEL'])
    return { target: '/v2/rollouts', body: { ...(await fileBody(values)), model, ...startFields(values) } }
  }
  if (verb === 'note') {
    const [name = '', text] = required(words, verb, ['NAME', 'TEXT'])
    return { target: `${named(name)}/notes`, body: { text } }
  }
  const [name = ''] = required(words, verb, ['NAME'])
  if (verb === 'show') return { target: named(name) }
  if (verb === 'report') return { target: `${named(name)}/report`, accept: values.json === true ? 'application/json' : 'text/markdown' } // prettier-ignore
  const { reason, arm } = values
  return {
    target: `${named(name)}/${verb}`,
    body: { ...(reason === undefined ? {} : { reason }), ...(arm === undefined ? {} : { arm }) },
  }
}

function startFields({ candidate, name, retry }: Values): object {
  return {
    ...(candidate === undefined ? {} : { candidate }),
    ...(name === undefined ? {} : { name }),
    ...(retry === true ? { retry: true } : {}),
  }
}

async function fileBody({ file }: Values): Promise<object> {
  if (typeof file !== 'string') return {}
  const { readFile } = await import('node:fs/promises')
  const { parseFileText } = await import('../base/file-text.ts')
  const text = await readFile(file, 'utf8')
  const { value } = parseFileText(text, file.endsWith('.json') ? 'json' : 'yaml')
  return typeof value === 'object' && value !== null ? value : {}
}

const ends = ['SUCCEEDED', 'ROLLED_BACK', 'FAILED']
const lookEveryNs = 1e9
const longestWaitSecs = 7 * 86_400

/** 0: the candidate serves everybody now. 1: it does not, or the time is over. */
async function waitForEnd(call: Call, values: Values, io: CommandIo): Promise<number> {
  const seconds = Number(values.wait)
  if (!(seconds > 0 && seconds <= longestWaitSecs)) throw new UsageError(`--wait takes a number of seconds above 0 and up to ${longestWaitSecs}, got '${String(values.wait)}'`) // prettier-ignore
  const clock = new SystemClock()
  const untilNs = clock.nowNs() + seconds * 1e9
  for (;;) {
    const { isOk, text } = await fetchText(call, values)
    const state = isOk ? (JSON.parse(text) as Shown).state : ''
    if (!isOk || ends.includes(state) || clock.nowNs() >= untilNs) {
      const status = await askServer('show', call, values, io)
      if (isOk && !ends.includes(state)) io.stderr(`galatea rollout: it is ${state} after ${seconds} s\n`)
      return state === 'SUCCEEDED' ? status : 1
    }
    await new Promise<void>((resolve) => void clock.after(lookEveryNs, resolve))
  }
}

type Answered = { readonly isOk: boolean; readonly status: number; readonly text: string }

async function fetchText({ target, body, accept }: Call, values: Values): Promise<Answered> {
  const base = String(values.url ?? process.env['GALATEA_URL'] ?? 'http://localhost:8000').replace(/\/+$/, '')
  const headers = { ...headersOf(values), ...(accept === undefined ? {} : { accept }) }
  const post = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
  const answer = await fetch(`${base}${target}`, { headers, ...post }).catch((reason: unknown) => {
    const { cause } = reason as Error
    const why = messageOf(cause ?? reason)
    const hint = startHint(why, '--url') || '; --url names the HTTP port of the server'
    throw new Error(`${base} cannot be reached: ${why}${hint}`)
  })
  return { isOk: answer.ok, status: answer.status, text: await answer.text() }
}

async function askServer(verb: string, call: Call, values: Values, io: CommandIo): Promise<number> {
  const { accept } = call
  const { isOk, status, text } = await fetchText(call, values)
  if (!isOk) {
    const hint = status === 401 ? "\n--header 'x-api-key: KEY' sends a key" : ''
    io.stderr(`galatea rollout: ${errorText(text)}${hint}\n`)
    return 1
  }
  if (values.json === true || accept !== undefined) io.stdout(`${text.trimEnd()}\n`)
  else if (verb === 'list') io.stdout(listText(JSON.parse(text) as readonly Shown[]))
  else io.stdout(showText(JSON.parse(text) as Shown))
  return 0
}

function headersOf({ header }: Values): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const line of (header ?? []) as string[]) {
    const at = line.indexOf(':')
    if (at < 1) throw new UsageError(`--header takes NAME:VALUE, got '${line}'`)
    headers[line.slice(0, at).trim()] = line.slice(at + 1).trim()
  }
  return headers
}

function errorText(text: string): string {
  try {
    return (JSON.parse(text) as { error: string }).error
  } catch {
    return text.slice(0, 500)
  }
}

type Shown = {
  readonly name: string
  readonly model: string
  readonly state: string
  readonly reason: string
  readonly step: number
  readonly steps: number
  readonly weight: number
  readonly stable: string
  readonly candidate: string
  readonly since: string
  /** Of an experiment, which has no steps. */
  readonly kind?: string
  readonly winner?: string | null
  readonly arms?: readonly { readonly arm: string; readonly version: string; readonly weight?: number }[]
  readonly goals?: readonly { readonly goal: string; readonly arms: readonly ShownGoal[] }[]
  readonly next?: string
  readonly metrics?: readonly { readonly metric: string; readonly verdict: string; readonly why: string }[]
  readonly history?: readonly {
    readonly at: string
    readonly state: string
    readonly by: string
    readonly why: string
  }[]
  readonly notes?: readonly { readonly at: string; readonly by: string; readonly text: string }[]
}

type ShownGoal = {
  readonly arm: string
  readonly users: number
  readonly mean: number
  readonly difference: { readonly value: number; readonly low: number | null; readonly high: number | null } | null
}

const armsText = ({ arms = [] }: Shown): string =>
  arms.map(({ arm, version, weight = 0 }) => `${arm} = ${version} (${weight} %)`).join(', ')

const listRow = (shown: Shown): string[] => {
  const { name, model, state, step, steps, weight, stable, candidate, reason } = shown
  return shown.kind === 'experiment'
    ? [name, model, state, '', '', armsText(shown), reason]
    : [name, model, state, `${step}/${steps}`, `${weight} %`, `${stable} -> ${candidate}`, reason]
}

function goalLine(goal: string, { arm, users, mean, difference }: ShownGoal): string {
  const end = (value: number | null): string => (value === null ? '?' : value.toPrecision(3))
  const against = difference === null ? '' : `, ${difference.value.toPrecision(3)} more than the first arm (${end(difference.low)} to ${end(difference.high)})` // prettier-ignore
  return `  ${goal}, ${arm}: ${mean.toPrecision(3)} of ${users} users${against}`
}

const listText = (all: readonly Shown[]): string =>
  all.length === 0
    ? 'There is no rollout.\n'
    : textTable(
        ['Rollout', 'Model', 'State', 'Step', 'Weight', 'Versions', 'Reason'],
        all.map((shown) => listRow(shown).map(printable)),
      )

function showText(shown: Shown): string {
  const { name, model, state, reason, stable, candidate, step, steps, weight, next = '' } = shown
  const lines = [
    `${name}: ${state}`,
    shown.kind === 'experiment'
      ? `  model ${model}, ${armsText(shown)}, winner: ${shown.winner ?? 'none yet'}`
      : `  model ${model}, version ${stable} -> ${candidate}, step ${step} of ${steps}, weight ${weight} %`,
    `  why: ${reason}`,
    ...(next === '' ? [] : [`  next: ${next}`]),
    ...(shown.metrics ?? []).map(
      ({ metric, verdict, why }) => `  ${metric}: ${verdict}${why === '' ? '' : `, ${why}`}`,
    ),
    ...(shown.goals ?? []).flatMap(({ goal, arms }) => arms.map((arm) => goalLine(goal, arm))),
    ...(shown.history ?? []).map((entry) => `  ${entry.at} ${entry.state}${entry.by === '' ? '' : ` by ${entry.by}`}: ${entry.why}`), // prettier-ignore
    ...(shown.notes ?? []).map(({ at, by, text }) => `  note ${at}${by === '' ? '' : ` by ${by}`}: ${text}`),
  ]
  return `${lines.map(printable).join('\n')}\n`
}
