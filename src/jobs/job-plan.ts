// What a job is asked to do: the body of POST /v2/jobs, read and checked.

import { PlanProblems, type PlanValue } from '../base/plan-reader.ts'
import { ServerError } from '../base/server-error.ts'
import { isCloudAddress } from './cloud-files.ts'
import { CronSchedule } from './cron-schedule.ts'

export type QueueKind = 'redis' | 'rabbitmq' | 'kafka'

/** Where lines come from. */
type InputPlan =
  /** Files below `--jobs-dir`; `*` stands for any characters of a file's name. */
  | { readonly kind: 'files'; readonly pattern: string }
  /** Lines that came with the body. */
  | { readonly kind: 'lines' }
  /** A Redis stream, a queue of RabbitMQ, a topic of Kafka. */
  | { readonly kind: QueueKind; readonly name: string; readonly group: string }

/** Where answers go. `kept`: a file of the job's own, which GET /v2/jobs/{id}/output sends. */
type OutputPlan =
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'kept' }
  | { readonly kind: QueueKind; readonly name: string }

export type JobPlan = {
  readonly model: string
  /** '' for the version that the server chooses. */
  readonly version: string
  readonly input: InputPlan
  readonly output: OutputPlan
  /** 0: as many as the instances of the model take. */
  readonly concurrency: number
  readonly maxAttempts: number
  /** Five fields of cron in UTC; '' for once. */
  readonly schedule: string
  /** New lines begin only while the pressure of the model by other callers is below this number. */
  readonly whilePressureBelow: number
}

export const mostJobConcurrency = 1024
const mostAttempts = 100
const longestName = 256
export const mostInlineLines = 100_000
const keys = ['model', 'version', 'input', 'output', 'concurrency', 'max_attempts', 'schedule', 'while_pressure_below'] as const // prettier-ignore
const queueKinds: readonly QueueKind[] = ['redis', 'rabbitmq', 'kafka']

export const isQueueKind = (kind: string): kind is QueueKind => (queueKinds as readonly string[]).includes(kind)

const example = 'as {"model": "digits", "input": {"files": "in/*.jsonl"}, "output": {"file": "out.jsonl"}}'

/** A plan, and the lines that came with it. Throws INVALID_ARG with every problem. */
export function readJobPlan(body: unknown): { readonly plan: JobPlan; readonly lines: readonly string[] } {
  const problems = new PlanProblems(() => null)
  const root = problems.root(body)
  const lines: string[] = []
  const plan = readPlan(root, lines)
  const found = problems.list()
  if (plan !== null && found.length === 0) return { plan, lines }
  const texts = found.map(({ message, fix }) => (fix === '' ? message : `${message}: ${fix}`))
  throw new ServerError('INVALID_ARG', texts.join('\n').replaceAll('the file', 'the job'))
}

function readPlan(root: PlanValue, lines: string[]): JobPlan | null {
  const fields = root.fields(keys, example)
  if (fields === null) return null
  const model = fields.model.isThere ? fields.model.text('the name of a model') : fields.model.mustBe('the name of a model', example) // prettier-ignore
  const version = fields.version.isThere ? readVersion(fields.version) : ''
  const input = readInput(fields.input, lines)
  const output = fields.output.isThere ? readOutput(fields.output) : ({ kind: 'kept' } as const)
  const concurrency = fields.concurrency.isThere ? fields.concurrency.integer(1, mostJobConcurrency) : 0
  const maxAttempts = fields.max_attempts.isThere ? fields.max_attempts.integer(1, mostAttempts) : 3
  const schedule = fields.schedule.isThere ? readSchedule(fields.schedule) : ''
  const below = fields.while_pressure_below.isThere ? fields.while_pressure_below.number(0.01, 100) : defaultPressure
  if (model === null || version === null || input === null || output === null) return null
  if (concurrency === null || maxAttempts === null || schedule === null || below === null) return null
  if (schedule !== '' && input.kind !== 'files') fields.schedule.fail('is for jobs that read files', 'a queue is read without end') // prettier-ignore
  if (output.kind === 'file' && isCloudAddress(output.path) && isQueueKind(input.kind)) fields.output.fail('is a file in a cloud, which appears at the end of the job', 'a queue has no end: name a file of --jobs-dir or a queue') // prettier-ignore
  return { model, version, input, output, concurrency, maxAttempts, schedule, whilePressureBelow: below }
}

/** Other callers have room then: above it their requests begin to wait for each other. */
const defaultPressure = 0.6

function readVersion(value: PlanValue): string | null {
  const version = typeof value.value === 'number' ? String(value.value) : value.text('the number of a version')
  if (version === null) return null
  return /^[0-9]{1,18}$/.test(version) ? version : value.mustBe('the number of a version')
}

function readInput(value: PlanValue, lines: string[]): InputPlan | null {
  if (!value.isThere) return value.mustBe('where the lines come from', 'as {"files": "in/*.jsonl"}')
  const chosen = readOneOf(value, ['files', 'lines', ...queueKinds])
  if (chosen === null) return null
  const [kind, of] = chosen
  if (kind === 'files') {
    const pattern = of.text('a path with at most one *, as in/*.jsonl')
    if (pattern === '') return of.mustBe('a path with at most one *, as in/*.jsonl')
    return pattern === null ? null : { kind, pattern }
  }
  if (kind === 'lines') {
    const items = of.items(mostInlineLines, 'one v2 inference body each')
    if (items === null) return null
    for (const item of items) lines.push(item.isText ? (item.value as string) : JSON.stringify(item.value))
    return { kind }
  }
  const fields = of.fields([nameKeys[kind], 'group'])
  const name = fields === null ? null : readName(fields[nameKeys[kind]])
  const group = fields?.group.isThere ? readName(fields.group) : 'galatea'
  return name === null || group === null ? null : { kind, name, group }
}

function readOutput(value: PlanValue): OutputPlan | null {
  const chosen = readOneOf(value, ['file', ...queueKinds])
  if (chosen === null) return null
  const [kind, of] = chosen
  if (kind === 'file') {
    const path = of.text('the path of a file')
    if (path === '') return of.mustBe('the path of a file')
    return path === null ? null : { kind, path }
  }
  const fields = of.fields([nameKeys[kind]])
  const name = fields === null ? null : readName(fields[nameKeys[kind]])
  return name === null ? null : { kind, name }
}

/** What each system calls the thing that messages go through. */
const nameKeys = { redis: 'stream', rabbitmq: 'queue', kafka: 'topic' } as const

function readOneOf<Kind extends string>(value: PlanValue, kinds: readonly Kind[]): [Kind, PlanValue] | null {
  const fields = value.fields(kinds)
  if (fields === null) return null
  const given = kinds.filter((kind) => fields[kind].isThere)
  const [kind] = given
  if (kind === undefined || given.length > 1) return value.fail(`must have one of the keys ${kinds.join(', ')}`)
  return [kind, fields[kind]]
}

function readName(value: PlanValue): string | null {
  const name = value.isThere ? value.text('a name') : value.mustBe('a name')
  if (name === null) return null
  return name !== '' && name.length <= longestName && !/\p{Cc}/u.test(name) ? name : value.mustBe(`a name of 1 to ${longestName} characters`) // prettier-ignore
}

function readSchedule(value: PlanValue): string | null {
  const text = value.text('five fields of cron, as 0 2 * * *')
  if (text === null) return null
  const schedule = CronSchedule.parse(text)
  return typeof schedule === 'string' ? value.fail(schedule) : text
}
