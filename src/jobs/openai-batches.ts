// Batches of the OpenAI API: an uploaded file whose lines are calls becomes a job, and the answers of the job are a file again.

import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Caller } from '../access/caller.ts'
import { requireRight } from '../access/require-right.ts'
import type { Clock } from '../base/clock.ts'
import { inSlices } from '../base/run-in-slices.ts'
import { ServerError } from '../base/server-error.ts'
import { Turnstile } from '../base/turnstile.ts'
import type { BatchFile, BatchFiles, BatchRecord } from './batch-files.ts'
import type { JobControl } from './job-control.ts'
import { isBlankLine, mostCallContainers, readLine } from './job-line.ts'
import { mostInlineLines, readJobPlan } from './job-plan.ts'
import { batchPrefix, isJobOver, type JobRecord } from './job-record.ts'

type BatchPlan = {
  readonly inputFile: string
  readonly endpoint: string
  readonly window: string
  readonly metadata: Readonly<Record<string, string>> | null
}
export type BatchView = { readonly batch: BatchRecord; readonly job: JobRecord | null }

type BatchParts = {
  readonly clock: Clock
  readonly control: JobControl
  readonly files: BatchFiles
  readonly outputFile: (job: string) => string
  /** Of one line: `--openai-max-request-bytes`. */
  readonly mostCallBytes: number
}

/** Batches that wait to be checked: the lines of one at a time are in memory. */
const mostWaitingBatches = 256
/** The file of a batch's answers is named after the batch. */
const outputPrefix = 'file-output-'

export class OpenAiBatches {
  readonly #parts: BatchParts
  readonly #checks = new Turnstile(1)
  #waitingCount = 0

  constructor(parts: BatchParts) {
    this.#parts = parts
  }

  addFile(caller: Caller, name: string, purpose: string, bytes: Buffer): Promise<BatchFile> {
    if (purpose !== 'batch') throw refusal(`'purpose' must be batch, got '${purpose.slice(0, 60)}'`)
    return this.#parts.files.add(ownerOf(caller), name, purpose, bytes)
  }

  listFiles(caller: Caller): BatchFile[] {
    return this.#parts.files.files(ownerOf(caller))
  }

  file(caller: Caller, id: string): BatchFile {
    if (!id.startsWith(outputPrefix)) return this.#parts.files.file(id, ownerOf(caller))
    const { batch, job } = this.view(caller, id.slice(outputPrefix.length))
    const createdMs = job?.endedMs || batch.createdMs
    return { id, owner: batch.owner, name: `${batch.id}_output.jsonl`, purpose: 'batch_output', bytes: 0, createdMs }
  }

  /** Where the bytes of a file lie. */
  contentOf(caller: Caller, id: string): string {
    if (!id.startsWith(outputPrefix)) return this.#parts.files.pathOf(this.file(caller, id).id)
    return this.#parts.outputFile(this.view(caller, id.slice(outputPrefix.length)).batch.id)
  }

  async removeFile(caller: Caller, id: string): Promise<void> {
    await this.#parts.files.remove(this.#parts.files.file(id, ownerOf(caller)).id)
  }

  /** One at a time, in the order of the calls. */
  async create(caller: Caller, plan: BatchPlan): Promise<BatchView> {
    if (this.#waitingCount >= mostWaitingBatches) throw ServerError.withoutStack('UNAVAILABLE', `${mostWaitingBatches} batches wait to be checked: try again later`) // prettier-ignore
    this.#waitingCount++
    return this.#checks.pass(() => this.#create(caller, plan)).finally(() => this.#waitingCount--)
  }

  async #create(caller: Caller, plan: BatchPlan): Promise<BatchView> {
    const { clock, control, files } = this.#parts
    const file = files.pathOf(files.file(plan.inputFile, ownerOf(caller)).id)
    const { model, total } = await this.#checked(await readFile(file), plan.endpoint, caller)
    const jobs = new Map(control.list().map((job) => [job.id, job]))
    // A batch whose job is forgotten is over.
    await files.makeRoomForBatch((one) => !jobs.has(one) || isJobOver(jobs.get(one) as JobRecord))
    const id = `${batchPrefix}${randomBytes(12).toString('hex')}`
    const { plan: jobPlan } = readJobPlan({ model, input: { lines: [] } })
    const job = await control.create(jobPlan, file, caller, id)
    const batch: BatchRecord = {
      id,
      owner: ownerOf(caller),
      ...plan,
      total,
      createdMs: clock.wallMs(),
    }
    try {
      await files.addBatch(batch)
    } catch (reason) {
      // Nobody would find its answers.
      await control.cancel(id).catch(() => undefined)
      throw reason
    }
    return { batch, job }
  }

  /** A file may have megabytes: others are served while its lines are looked at. */
  #checked(lines: Buffer, endpoint: string, caller: Caller): Promise<{ model: string; total: number }> {
    const { clock, mostCallBytes } = this.#parts
    return inSlices(clock, requireCalls(lines, endpoint, caller, mostCallBytes))
  }

  list(caller: Caller): BatchView[] {
    const jobs = new Map(this.#parts.control.list().map((job) => [job.id, job]))
    return this.#parts.files.batches(ownerOf(caller)).map((batch) => ({ batch, job: jobs.get(batch.id) ?? null }))
  }

  view(caller: Caller, id: string): BatchView {
    const batch = this.#parts.files.batch(id, ownerOf(caller))
    return { batch, job: this.#parts.control.list().find((job) => job.id === id) ?? null }
  }

  async cancel(caller: Caller, id: string): Promise<BatchView> {
    const { batch, job } = this.view(caller, id)
    if (job === null || isJobOver(job)) throw refusal(`batch '${id}' is over already`)
    return { batch, job: await this.#parts.control.cancel(id) }
  }

  outputFileOf({ batch, job }: BatchView): string | null {
    return job !== null && isJobOver(job) ? outputPrefix + batch.id : null
  }
}

const refusal = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)
const ownerOf = ({ tenant, principal }: Caller): string => `${tenant}/${principal}`

/** Every line is checked before the first one runs. The model of the first line says how many lines run at a time. */
function* requireCalls(
  file: Buffer,
  endpoint: string,
  caller: Caller,
  mostCallBytes: number,
): Generator<void, { model: string; total: number }> {
  const ids = new Set<string>()
  const models = new Set<string>()
  let place = 0
  for (const line of linesOf(file)) {
    place++
    if (isBlankLine(line)) {
      yield
      continue
    }
    const at = `line ${place} of the input file`
    if (line.length > mostCallBytes) throw refusal(`${at} has ${line.length} bytes, at most ${mostCallBytes} are taken. Use --openai-max-request-bytes to increase the limit.`) // prettier-ignore
    const call = yield* readLine(line, '', '', mostCallBytes, mostCallContainers)
    if (typeof call === 'string') throw refusal(`${at}: ${call}`)
    if (!call.isOpenAi) throw refusal(`${at}: it must have 'custom_id', 'method', 'url' and 'body'`)
    if (call.target !== endpoint) throw refusal(`${at}: 'url' is '${call.target}', and the batch is for '${endpoint}'`)
    if (ids.has(call.id)) throw refusal(`${at}: 'custom_id' '${call.id.slice(0, 60)}' is there twice`)
    if (ids.size >= mostInlineLines) throw refusal(`the input file has more than ${mostInlineLines} lines, which is the most of a batch: make several files`) // prettier-ignore
    ids.add(call.id)
    const { model } = JSON.parse(call.body.toString('utf8')) as { model?: unknown }
    if (typeof model !== 'string' || model === '') throw refusal(`${at}: 'body.model' must be the name of a model`)
    if (!models.has(model)) requireRight(caller, 'inference', model)
    models.add(model)
    yield
  }
  if (ids.size === 0) throw refusal('the input file has no lines')
  return { model: models.values().next().value ?? '', total: ids.size }
}

function* linesOf(file: Buffer): Generator<Buffer> {
  for (let start = 0; start < file.length;) {
    const newline = file.indexOf(0x0a, start)
    const end = newline < 0 ? file.length : newline
    yield file.subarray(start, end)
    start = end + 1
  }
}
