// Threads read and write large JSON, because that would block the main thread for up to 60 ms per MiB of text. Small
// JSON stays on the main thread, because the way to a thread and back costs more than reading it.

import { availableParallelism } from 'node:os'

import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import { transferableBytes } from '../../base/transferable-bytes.ts'
import type { Parameters as ResponseParameters } from '../../model/parameters.ts'
import type { InferReadOptions } from '../../protocol/infer-request-reader.ts'
import type { EncodedInferResponse } from '../../protocol/infer-response-writer.ts'
import type { LoadParameters } from '../../protocol/repository-request.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import type { jsonCodecs } from './json-codecs.ts'
import { openJsonThread, type JsonThread, type OpenJsonThread } from './json-thread.ts'
import {
  revived,
  revivedResponse,
  type JsonJob,
  type JsonResult,
  failedJson,
  revivedError,
} from './json-offload-messages.ts'
import type { tfservingJsonCodecs } from './tfserving-json-codecs.ts'

type Readers = (typeof jsonCodecs)['readers'] & (typeof tfservingJsonCodecs)['readers']
type Writers = (typeof jsonCodecs)['writers'] & (typeof tfservingJsonCodecs)['writers']
type Parsed<R extends keyof Readers> = ReturnType<Readers[R]>
export type Writer = keyof Writers
export type WriterContext<W extends Writer> = Parameters<Writers[W]>[1]

export type JsonOffloadSettings = {
  readonly maxThreads: number
  /** Threads beside these that take short jobs only: large jobs of one client do not delay small ones of others. */
  readonly shortThreads: number
  /** Most bytes of all jobs that no thread has begun. One job may always wait, also a larger one. */
  readonly maxWaitingBytes: number
  /** A job that takes longer fails, and its thread is replaced. */
  readonly jobTimeoutMs: number
  /** A thread without work is ended after this long. */
  readonly idleTimeoutMs: number
}

/** 512 MiB are about five seconds of work for two threads; a job of 64 MiB takes half a second to four. */
export const defaultJsonOffloadSettings: JsonOffloadSettings = {
  maxThreads: Math.max(1, Math.min(2, availableParallelism() - 1)),
  shortThreads: 1,
  maxWaitingBytes: 512 * 1024 * 1024,
  jobTimeoutMs: 60_000,
  idleTimeoutMs: 30_000,
}

/** Jobs of up to this many bytes are short: 20 to 250 ms. */
const mostShortBytes = 4 * 1024 * 1024

/** Called exactly once unless the job was cancelled; one of the two is null. */
type JsonDone<T> = (error: ServerError | null, value: T | null) => void

export class JsonOffload {
  readonly #clock: Clock
  readonly #log: Log
  readonly #openThread: OpenJsonThread
  readonly #settings: JsonOffloadSettings
  /** In the order in which they came. */
  readonly #waiting: OffloadedJson[] = []
  #waitingBytes = 0
  readonly #lanes = new Set<Lane>()
  #isClosed = false

  constructor(
    dependencies: { readonly clock: Clock; readonly log: Log; readonly openThread?: OpenJsonThread },
    settings: JsonOffloadSettings = defaultJsonOffloadSettings,
  ) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('json-offload.ts')
    this.#openThread = dependencies.openThread ?? openJsonThread
    this.#settings = settings
  }

  get threadCount(): number {
    return this.#lanes.size
  }

  get waitingCount(): number {
    return this.#waiting.length
  }

  /** Takes the body over. Throws UNAVAILABLE when too much waits already. */
  read<R extends keyof Readers>(
    reader: R,
    body: Buffer,
    options: InferReadOptions,
    done: JsonDone<Parsed<R>>,
  ): OffloadedJson {
    return this.#submitBody(
      body,
      (owned) => ({ kind: 'read', reader, body: owned, options }),
      (error, result) => done(error, result?.kind === 'read' ? revived(result.parsed as Parsed<R>) : null),
    )
  }

  /** Like `read`, for the load of a model that comes with its files. */
  readLoad(body: Buffer, done: JsonDone<LoadParameters>): OffloadedJson {
    return this.#submitBody(
      body,
      (owned) => ({ kind: 'load', body: owned }),
      (error, result) => done(error, result?.kind === 'load' ? result.parameters : null),
    )
  }

  /** Takes the outputs' bytes over: each must have a buffer of its own. Throws UNAVAILABLE when too much waits already. */
  write<W extends Writer>(
    writer: W,
    outputs: readonly Tensor[],
    parameters: ResponseParameters | null,
    context: WriterContext<W>,
    done: JsonDone<EncodedInferResponse>,
  ): OffloadedJson {
    let bytes = 0
    for (const output of outputs) bytes += output.bytes.length
    const buffers = outputs.map((output) => output.bytes.buffer as ArrayBuffer)
    return this.#submit({ kind: 'write', writer, outputs, parameters, context }, buffers, bytes, (error, result) =>
      done(error, result?.kind === 'written' ? revivedResponse(result.head, result.parts) : null),
    )
  }

  /** Throws UNAVAILABLE when a job of this size would have to wait and too much waits already. */
  requireRoom(bytes: number): void {
    if (this.#waiting.length === 0 || this.#waitingBytes + bytes <= this.#settings.maxWaitingBytes) return
    throw ServerError.withoutStack(
      'UNAVAILABLE',
      `the server has ${this.#waiting.length} large JSON bodies of ${this.#waitingBytes} bytes waiting to be read or ` +
        `written and takes no more than ${this.#settings.maxWaitingBytes}, try again later or use binary tensor data`,
    )
  }

  /** Ends the threads; their jobs fail. Twice is fine. */
  close(): void {
    this.#isClosed = true
    for (const job of this.#waiting.splice(0)) job.finish(closed(), null)
    this.#waitingBytes = 0
    for (const lane of this.#lanes) lane.end()
  }

  #submitBody(body: Buffer, jobOf: (owned: Uint8Array) => JsonJob, done: JsonDone<JsonResult>): OffloadedJson {
    const owned = transferableBytes(body)
    return this.#submit(jobOf(owned), [owned.buffer], body.length, done)
  }

  #submit(
    message: JsonJob,
    transfer: readonly ArrayBuffer[],
    bytes: number,
    done: JsonDone<JsonResult>,
  ): OffloadedJson {
    if (this.#isClosed) throw closed()
    this.requireRoom(bytes)
    const job = new OffloadedJson(message, transfer, bytes, done, () => this.#withdraw(job))
    this.#waiting.push(job)
    this.#waitingBytes += bytes
    this.#startNext()
    return job
  }

  #withdraw(job: OffloadedJson): void {
    const index = this.#waiting.indexOf(job)
    if (index < 0) return
    this.#waiting.splice(index, 1)
    this.#waitingBytes -= job.bytes
  }

  #startNext(): void {
    while (this.#startOne(this.#shortest(), true) || this.#startOne(this.#oldestLong(), false));
  }

  #startOne(job: OffloadedJson | null, isShort: boolean): boolean {
    const lane = job === null ? null : this.#freeLane(isShort)
    if (job === null || lane === null) return false
    this.#withdraw(job)
    lane.start(job)
    return true
  }

  /** Of the short jobs the shortest is next: those who send less wait less. */
  #shortest(): OffloadedJson | null {
    let found: OffloadedJson | null = null
    for (const job of this.#waiting) {
      if (job.bytes <= mostShortBytes && (found === null || job.bytes < found.bytes)) found = job
    }
    return found
  }

  #oldestLong(): OffloadedJson | null {
    return this.#waiting.find(({ bytes }) => bytes > mostShortBytes) ?? null
  }

  /** A short job takes a thread for short jobs first, and leaves the others to large ones that wait. */
  #freeLane(isShort: boolean): Lane | null {
    return (
      (isShort ? this.#freeOf(true) : null) ?? (isShort && this.#oldestLong() !== null ? null : this.#freeOf(false))
    )
  }

  #freeOf(isShort: boolean): Lane | null {
    let count = 0
    for (const lane of this.#lanes) {
      if (lane.isForShort !== isShort) continue
      if (lane.isFree) return lane
      count++
    }
    const { maxThreads, shortThreads } = this.#settings
    if (count >= (isShort ? shortThreads : maxThreads) || this.#isClosed) return null
    const lane = new Lane(isShort, this.#clock, this.#openThread, this.#settings, {
      onFree: () => this.#startNext(),
      onGone: (reason) => this.#onGone(lane, reason),
    })
    this.#lanes.add(lane)
    return lane
  }

  #onGone(lane: Lane, reason: string | null): void {
    this.#lanes.delete(lane)
    if (reason !== null) this.#log.error('a thread that reads and writes large JSON bodies was lost', { reason })
    this.#startNext()
  }
}

/** One job for a thread. */
class OffloadedJson {
  readonly message: JsonJob
  readonly transfer: readonly ArrayBuffer[]
  readonly bytes: number
  #done: JsonDone<JsonResult> | null
  readonly #withdraw: () => void

  constructor(
    message: JsonJob,
    transfer: readonly ArrayBuffer[],
    bytes: number,
    done: JsonDone<JsonResult>,
    withdraw: () => void,
  ) {
    this.message = message
    this.transfer = transfer
    this.bytes = bytes
    this.#done = done
    this.#withdraw = withdraw
  }

  /** Nobody waits for the job any more. A job that no thread has begun is dropped; else its result is dropped. */
  cancel(): void {
    if (this.#done === null) return
    this.#done = null
    this.#withdraw()
  }

  finish(error: ServerError | null, result: JsonResult | null): void {
    const done = this.#done
    this.#done = null
    done?.(error, result)
  }
}

/** A thread and its current job. */
class Lane {
  /** True when it takes short jobs only. */
  readonly isForShort: boolean
  readonly #clock: Clock
  readonly #settings: JsonOffloadSettings
  readonly #onFree: () => void
  readonly #onGone: (reason: string | null) => void
  readonly #thread: JsonThread
  #job: OffloadedJson | null = null
  #cancelTimer: Cancel = () => undefined
  #isEnding = false

  constructor(
    isForShort: boolean,
    clock: Clock,
    openThread: OpenJsonThread,
    settings: JsonOffloadSettings,
    events: { readonly onFree: () => void; readonly onGone: (reason: string | null) => void },
  ) {
    this.isForShort = isForShort
    this.#clock = clock
    this.#settings = settings
    this.#onFree = events.onFree
    this.#onGone = events.onGone
    this.#thread = openThread({
      onResult: (result) => this.#onResult(result),
      onExit: (reason) => this.#onExit(reason),
    })
  }

  get isFree(): boolean {
    return this.#job === null && !this.#isEnding
  }

  start(job: OffloadedJson): void {
    this.#cancelTimer()
    this.#job = job
    this.#cancelTimer = this.#clock.after(this.#settings.jobTimeoutMs * 1e6, () => this.#onOverdue(job))
    try {
      this.#thread.post(job.message, job.transfer)
    } catch (reason) {
      // The job cannot be sent to a thread. Its owner does not hold the job yet, so the owner is told later.
      const error = ServerError.from(reason)
      queueMicrotask(() => this.#onResult(failedJson(error)))
    }
  }

  end(): void {
    this.#cancelTimer()
    this.#isEnding = true
    this.#thread.terminate()
  }

  #onResult(result: JsonResult): void {
    const job = this.#job
    if (job === null || this.#isEnding) return
    this.#cancelTimer()
    this.#job = null
    // The thread gets its next job first, so that it does not wait while this result is read.
    this.#onFree()
    if (this.isFree) this.#cancelTimer = this.#clock.after(this.#settings.idleTimeoutMs * 1e6, () => this.end())
    if (result.kind === 'failed') job.finish(revivedError(result), null)
    else job.finish(null, result)
  }

  #onOverdue(job: OffloadedJson): void {
    this.#job = null
    this.end()
    const seconds = this.#settings.jobTimeoutMs / 1000
    job.finish(
      new ServerError(
        'INTERNAL',
        `${taskText(job)} took longer than ${seconds} s and was given up; use binary tensor data`,
      ),
      null,
    )
  }

  #onExit(reason: string): void {
    this.#cancelTimer()
    const job = this.#job
    this.#job = null
    const wasEnding = this.#isEnding
    this.#isEnding = true
    this.#onGone(wasEnding ? null : reason)
    if (job === null) return
    const error = wasEnding ? closed() : new ServerError('INTERNAL', `the thread ${taskText(job)} was lost: ${reason}`)
    job.finish(error, null)
  }
}

const taskText = ({ message }: OffloadedJson): string =>
  message.kind === 'write' ? "writing the response's JSON" : "reading the request's JSON"

const closed = (): ServerError => ServerError.withoutStack('UNAVAILABLE', 'Server exiting')
