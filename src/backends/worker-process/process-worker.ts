// The Worker of one instance that runs in a process: sends batches, hands answers to their requests, serves the model's own calls.

import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { NumberTable } from '../../base/number-table.ts'
import { ServerError } from '../../base/server-error.ts'
import { specimens } from '../../base/specimens.ts'
import type { Prepare } from '../../model/backend.ts'
import type { PreparedBatch } from '../../model/batch.ts'
import type { Batch } from '../../model/batch.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelServices } from '../../model/model-services.ts'
import type { ModelSignature } from '../../config/model-signature.ts'
import type { Worker, WorkerEvents } from '../supervised-instance.ts'
import { processState, waitsForLocks, WorkerPulse } from '../worker-pulse.ts'
import { BlsCalls } from './bls-calls.ts'
import { encodeExecute, type ExecuteFrame } from './execute-frame.ts'
import {
  align16,
  emptyFrame,
  executionTimeBytes,
  fromWorker,
  headerBytes,
  readText,
  readUint64,
  timedBytes,
  timedFlags,
  toWorker,
  writeHeader,
  writeUint64,
} from './frames.ts'
import { averageAfter, parkingDepth, parkUntilNs, shouldPark } from './parking.ts'
import { ResponseFlow } from './response-flow.ts'
import { mostErrorBytes, readResponse, type ResponseRecord } from './response-record.ts'
import { ServiceCalls } from './service-calls.ts'
import { TensorRecordReader } from './tensor-records.ts'
import type { WorkerLink } from './worker-launch.ts'
import { writeLogFrame } from './log-frame.ts'

type ProcessWorkerDependencies = { readonly clock: Clock; readonly log: Log; readonly services: ModelServices }

type ProcessWorkerSettings = {
  readonly modelName: string
  readonly instanceName: string
  readonly signature: ModelSignature
  /** How long finalize may take before the process is ended. */
  readonly stopGraceMs: number
  /** True when every batch of the model comes to this worker. Inputs prepared for one worker are useless to another. */
  readonly isAlone: boolean
  /** The worker opens memory of a GPU by itself, for inputs and for outputs; absent: both lie in memory of the host. */
  readonly opensDevices?: boolean
}

type HeldBatch = {
  readonly batch: Batch
  readonly executed: () => void
  /** 0 while the batch is not sent. */
  id: number
  firstHandle: number
  sentNs: number
  /** When the batch became the first one. For a parked batch the worker itself says how long it took. */
  headSinceNs: number
  isParked: boolean
}

/** An idle worker gives surplus memory back after this long. */
const trimAfterNs = 5e9
/** Freed blocks are told with the next frame. When so many wait, they are told at once. */
const freeBacklog = 8
/** Inputs of at least this size are copied ahead of time. */
const largeInputBytes = 256 * 1024

export class ProcessWorker implements Worker {
  readonly #clock: Clock
  readonly #log: Log
  readonly #settings: ProcessWorkerSettings
  readonly #link: WorkerLink
  readonly #events: WorkerEvents
  readonly #reader: TensorRecordReader
  /** Where requests want outputs on a GPU; undefined: the worker cannot put them there. */
  readonly #placesOf: ((handle: number) => InferenceRequest['outputPlaces']) | undefined
  readonly #bls: BlsCalls
  readonly #calls: ServiceCalls
  /** Requests that the worker may still answer. */
  readonly #open = new NumberTable<InferenceRequest>()
  /** In the order in which the worker executes them. */
  readonly #batches: HeldBatch[] = []
  readonly #canPark: boolean
  /** Null for a model that answers once. */
  readonly #flow: ResponseFlow | null
  #averageNs = 0
  #isParking = false
  #areInputsLarge = false
  /** The backend reports the times of its executions. */
  #areTimed = false
  #nextHandle = 1
  #nextBatch = 1
  #freed: number[] = []
  #cancelTrim: Cancel | null = null
  /** The same for the running batch as a whole. */
  #isBatchReported = false
  /** Of the running batch: the requests that the backend reported as failed. */
  readonly #failed = new Set<number>()
  readonly #pulse = new WorkerPulse()
  #isStopping = false

  constructor(
    dependencies: ProcessWorkerDependencies,
    settings: ProcessWorkerSettings,
    link: WorkerLink,
    events: WorkerEvents,
  ) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log
    this.#settings = settings
    this.#link = link
    this.#events = events
    // The execution times of a decoupled model do not include the work that goes on after them.
    this.#canPark = !settings.signature.isDecoupled
    this.#flow = settings.signature.isDecoupled
      ? new ResponseFlow((handle, count) => this.#send(emptyFrame(toWorker.taken, handle, count)))
      : null
    this.#reader = new TensorRecordReader(
      link.regions,
      settings.signature.outputs.map((output) => output.name),
    )
    this.#placesOf =
      settings.opensDevices === true ? (handle) => this.#open.get(handle)?.outputPlaces ?? null : undefined
    const send = (frame: Buffer): void => this.#send(frame)
    this.#bls = new BlsCalls(dependencies.services, link.regions, send, this.#free, (handle) => this.#callerOf(handle))
    this.#calls = new ServiceCalls(dependencies.services, link.regions, send, this.#free)
    link.adopt({ onFrame: (frame) => this.#onFrame(frame), onExit: (reason) => this.#onExit(reason) })
  }

  /** A call of the model that names no request of its own is made for the one that the model has. */
  #callerOf(handle: number): InferenceRequest | undefined {
    if (handle !== 0) return this.#open.get(handle)
    return this.#open.size === 1 ? this.#open.entries()[0]?.[1] : undefined
  }

  get processId(): number | undefined {
    return this.#link.pid
  }

  /** 0 while the current execution already takes long. */
  get prefetchDepth(): number {
    const head = this.#batches[0]
    if (!this.#isParking || head === undefined) return 0
    return this.#clock.nowNs() - head.headSinceNs < parkUntilNs ? parkingDepth : 0
  }

  // HOT: once per batch.
  execute(batch: Batch, executed: () => void): void {
    const before = this.#batches.at(-1)
    const isParked = before !== undefined
    const held = hold(batch, executed, isParked)
    this.#batches.push(held)
    if (before === undefined) this.#becomeHead(held)
    else if (before.id !== 0) this.#park(held)
  }

  /** A batch that does not fit into the shared memory beside those before it is sent when it is the first. */
  #park(held: HeldBatch): void {
    try {
      this.#sendBatch(held)
    } catch {
      held.isParked = false
    }
  }

  #becomeHead(held: HeldBatch): void {
    const startNs = this.#clock.nowNs()
    const { requests } = held.batch
    held.headSinceNs = startNs
    for (const request of requests) request.computeStartNs = startNs
    if (this.#areTimed) for (const request of requests) request.computeEndNs = 0
    if (held.id === 0) {
      held.isParked = false
      try {
        this.#sendBatch(held)
      } catch (reason) {
        this.#failHead(held, ServerError.from(reason))
        return
      }
    }
    const inputEndNs = held.isParked ? startNs : held.sentNs
    for (const request of requests) request.computeInputEndNs = inputEndNs
  }

  /** Only for large inputs, which take long to copy. They are copied while the batch before executes. */
  get prepare(): Prepare | undefined {
    return this.#areInputsLarge && this.#settings.isAlone ? this.#prepare : undefined
  }

  readonly #prepare = (requests: readonly InferenceRequest[]): PreparedExecution | null => {
    try {
      return this.#encode(requests)
    } catch {
      // The inputs do not fit beside those of the batch that executes. They are copied when the batch is the first.
      return null
    }
  }

  #encode(requests: readonly InferenceRequest[]): PreparedExecution {
    const [id, firstHandle] = [this.#nextBatch, this.#nextHandle]
    const { regions } = this.#link
    const encoded = encodeExecute(
      id,
      requests,
      firstHandle,
      this.#settings.signature,
      regions,
      this.#settings.opensDevices,
    )
    this.#nextBatch++
    this.#nextHandle += requests.length
    return new PreparedExecution(this, id, firstHandle, encoded)
  }

  /** Gives back the blocks of a prepared batch that nobody will execute. */
  giveBack(blocks: readonly number[]): void {
    if (!this.#link.isGone) for (const block of blocks) this.#link.regions?.freeInput(block)
  }

  #takePrepared({ batch }: HeldBatch): PreparedExecution | null {
    const { prepared } = batch
    if (!(prepared instanceof PreparedExecution)) return null
    if (prepared.worker === this) return prepared
    // The worker that this batch was prepared for has been replaced.
    prepared.drop()
    return null
  }

  #sendBatch(held: HeldBatch): void {
    const { requests } = held.batch
    const { id, firstHandle, encoded } = this.#takePrepared(held) ?? this.#encode(requests)
    const { frame } = encoded
    this.#areInputsLarge = (this.#link.regions?.inputBytes ?? 0) >= largeInputBytes
    for (let i = 0; i < requests.length; i++) this.#open.set(firstHandle + i, requests[i] as InferenceRequest)
    held.id = id
    held.firstHandle = firstHandle
    // The last batch that may be parked sends the others with it: no more come before the worker has answered.
    if (held.isParked && this.#batches.length <= parkingDepth) this.#link.sendSoon(this.#withFreed(frame))
    else this.#send(frame)
    held.sentNs = this.#clock.nowNs()
  }

  #failHead(held: HeldBatch, error: ServerError): void {
    const nowNs = this.#clock.nowNs()
    held.batch.requests.forEach((request, i) => {
      // A batch that was sent may have been answered already.
      if (held.id !== 0 && !this.#open.delete(held.firstHandle + i)) return
      this.#flow?.forget(request)
      this.#stampEnd(request, nowNs)
      request.fail(error)
    })
    this.#finishHead(held)
  }

  /** The scheduler may hand over the next batch meanwhile. That batch waits for its turn, as parked batches do. */
  #finishHead(held: HeldBatch): void {
    this.#batches.shift()
    held.executed()
    const next = this.#batches[0]
    if (next !== undefined && next.headSinceNs === 0) this.#becomeHead(next)
  }

  #requireHead(id: number): HeldBatch {
    const head = this.#batches[0]
    if (head === undefined || head.id !== id) throw new Error('an answer to a batch that is not running')
    return head
  }

  cancel(request: InferenceRequest): void {
    // A linear search is enough: this is rare, and few requests are open.
    for (const [handle, open] of this.#open.entries()) {
      if (open === request) this.#send(emptyFrame(toWorker.cancel, handle))
    }
  }

  flowChanged(request: InferenceRequest): void {
    this.#flow?.changed(request)
  }

  /** While the model executes, the worker reads no frames. The system still knows whether the process can run. */
  pulse(): Promise<boolean> {
    return this.#pulse.beat(
      () => this.#send(emptyFrame(toWorker.ping)),
      async () => {
        const { pid } = this.#link
        const state = pid === undefined ? null : await processState(pid)
        if (state === null) return this.#batches.length > 0
        const hasMoved = this.#pulse.hasMoved(state.cpu)
        if (state.isStopped || hasMoved) return !state.isStopped
        return this.#batches.length > 0 && pid !== undefined && !(await waitsForLocks(pid))
      },
    )
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    this.#cancelTrim?.()
    this.#link.leaving()
    this.#send(emptyFrame(toWorker.finalize))
    const cancelKill = this.#clock.after(this.#settings.stopGraceMs * 1e6, () => {
      this.#log.warning('worker did not finish in time and is ended', {
        model: this.#settings.modelName,
        instance: this.#settings.instanceName,
      })
      this.#link.kill()
    })
    await this.#link.gone()
    cancelKill()
  }

  kill(): void {
    this.#link.kill()
  }

  #send(frame: Buffer): void {
    this.#link.send(this.#withFreed(frame))
  }

  #withFreed(frame: Buffer): Buffer {
    return this.#freed.length === 0 ? frame : Buffer.concat([this.#freeFrame(), frame])
  }

  readonly #free = (blocks: readonly number[]): void => {
    if (this.#link.isGone) return
    this.#freed.push(...blocks)
    if (this.#freed.length >= freeBacklog) this.#link.send(this.#freeFrame())
    this.#scheduleTrim()
  }

  #freeFrame(): Buffer {
    const freed = this.#freed.splice(0, 0xffff)
    const frame = Buffer.alloc(align16(headerBytes + 8 * freed.length))
    writeHeader(frame, toWorker.freeOutputs, freed.length, 0)
    freed.forEach((block, i) => writeUint64(frame, block, headerBytes + 8 * i))
    return frame
  }

  /** One timer at a time; when it fires on a busy worker it simply starts over. */
  #scheduleTrim(): void {
    if (this.#cancelTrim !== null || this.#isStopping) return
    const batchBefore = this.#nextBatch
    this.#cancelTrim = this.#clock.after(trimAfterNs, () => {
      this.#cancelTrim = null
      if (this.#link.isGone || this.#isStopping) return
      if (this.#nextBatch !== batchBefore || this.#open.size > 0) {
        this.#scheduleTrim()
        return
      }
      this.#send(emptyFrame(toWorker.trim))
      const { regions } = this.#link
      if (regions?.canTrimInputs === true) regions.trimInputs()
    })
  }

  #onFrame(frame: Buffer): void {
    const kind = frame.readUInt16LE(4)
    switch (kind) {
      case fromWorker.executed:
        this.#onExecuted(frame)
        return
      case fromWorker.response:
        this.#onResponses(frame, headerBytes, 1)
        return
      case fromWorker.executeFailed:
        this.#onExecuteFailed(this.#requireHead(readUint64(frame, 8)), readText(frame, mostErrorBytes))
        return
      case fromWorker.pong:
        this.#pulse.answered()
        break
      case fromWorker.skipped:
        this.#onSkipped(this.#requireHead(readUint64(frame, 8)))
        return
      case fromWorker.reschedule:
        this.#onReschedule(readUint64(frame, 8))
        return
      case fromWorker.freeInputs:
        this.#onInputsFreed(frame)
        return
      case fromWorker.blsRequest:
        this.#bls.start(frame)
        return
      case fromWorker.blsCancel:
        this.#bls.cancel(readUint64(frame, 8))
        return
      case fromWorker.call:
        this.#calls.answer(frame)
        return
      case fromWorker.metric:
        this.#calls.metric(frame)
        return
      case fromWorker.log:
        writeLogFrame(this.#log, frame)
        return
      case fromWorker.timed:
        this.#onTimed(frame)
        return
      case fromWorker.activity:
        this.#onActivity(frame)
        return
      case fromWorker.readiness:
        this.#events.onReadiness?.(readUint64(frame, 8) === 1)
        return
      default:
        throw new Error(`frame of unknown kind ${kind}`)
    }
  }

  #onExecuteFailed(head: HeldBatch, text: string): void {
    // A thread of the model that waits in send reads our frames, and sees at the next one that its request is over.
    if (this.#flow !== null) this.#send(emptyFrame(toWorker.taken, head.firstHandle, 0))
    this.#failHead(head, ServerError.withoutStack('INTERNAL', text))
  }

  #onExecuted(frame: Buffer): void {
    const head = this.#requireHead(readUint64(frame, 8))
    const executionNs = readUint64(frame, headerBytes)
    if (head.isParked && !this.#areTimed) this.#stampStart(head, executionNs)
    this.#averageNs = averageAfter(this.#averageNs, executionNs)
    this.#isParking = this.#canPark && shouldPark(this.#isParking, this.#averageNs)
    head.batch.isCounted = !this.#areTimed || this.#isBatchReported
    this.#isBatchReported = false
    this.#onResponses(frame, headerBytes + executionTimeBytes, frame.readUInt16LE(6))
    this.#failed.clear()
    this.#finishHead(head)
  }

  /** When the worker began a parked batch: neither when it was sent, nor when the batch before was answered. */
  #stampStart(head: HeldBatch, executionNs: number): void {
    const startNs = Math.max(head.sentNs, this.#clock.nowNs() - executionNs)
    for (const request of head.batch.requests) {
      request.computeStartNs = startNs
      request.computeInputEndNs = startNs
    }
  }

  /** All requests of the batch were cancelled before the worker began it. Nothing was executed, and nothing counts. */
  #onSkipped(head: HeldBatch): void {
    head.batch.requests.forEach((request, i) => {
      if (!this.#open.delete(head.firstHandle + i)) return
      request.computeStartNs = 0
      request.computeInputEndNs = 0
      request.fail(ServerError.withoutStack('CANCELLED', ''))
    })
    this.#finishHead(head)
  }

  #onResponses(frame: Buffer, offset: number, count: number): void {
    const startNs = this.#clock.nowNs()
    for (let i = 0; i < count; i++) {
      const record = readResponse(frame, offset, this.#reader, this.#free, this.#placesOf)
      offset = record.end
      const request = this.#open.get(record.handle)
      // The server has ended the request meanwhile. A second answer is dropped.
      if (request === undefined) {
        record.response.release()
        continue
      }
      const response = this.#failed.size === 0 ? record.response : this.#asReported(record, request)
      if (response.isFinal) {
        this.#open.delete(record.handle)
        this.#flow?.forget(request)
      }
      this.#stampEnd(request, startNs)
      request.respond(response)
      if (!response.isFinal) this.#flow?.passedOn(request, record.handle, response)
    }
  }

  /** An error of a request that the backend reported as failed. Statistics count what the backend reports, as in Triton. */
  #asReported({ handle, response }: ResponseRecord, request: InferenceRequest): InferenceResponse {
    if (response.error === null || !response.isFinal || !this.#failed.has(handle)) return response
    // The backend has answered this very request: it need not run again alone.
    request.lend(null)
    return InferenceResponse.failure(response.error)
  }

  #onReschedule(handle: number): void {
    const request = this.#open.get(handle)
    if (request === undefined) return
    this.#open.delete(handle)
    this.#flow?.forget(request)
    this.#stampEnd(request, this.#clock.nowNs())
    request.reschedule()
  }

  /** The backend measured its executions itself. The answers follow. */
  #onTimed(frame: Buffer): void {
    if (this.#settings.signature.isDecoupled) return
    const nowNs = this.#clock.nowNs()
    const end = headerBytes + timedBytes * frame.readUInt16LE(6)
    for (let at = headerBytes; at < end; at += timedBytes) {
      const flags = frame[at + 40] as number
      if ((flags & timedFlags.batch) !== 0) this.#isBatchReported = true
      const request = this.#open.get(readUint64(frame, at))
      if (request === undefined) continue
      stampReported(request, frame, at, nowNs)
      if ((flags & timedFlags.failed) !== 0) this.#failed.add(readUint64(frame, at))
    }
    this.#areTimed = true
  }

  #onActivity(frame: Buffer): void {
    const bytes = readUint64(frame, headerBytes + 8)
    const name = frame.toString('utf8', headerBytes + 16, headerBytes + 16 + bytes)
    this.#open.get(readUint64(frame, 8))?.trace?.stamp(name, readUint64(frame, headerBytes))
  }

  #stampEnd(request: InferenceRequest, startNs: number): void {
    if (this.#areTimed && request.computeEndNs !== 0) return
    request.computeOutputStartNs = startNs
    request.computeEndNs = this.#clock.nowNs()
  }

  #onInputsFreed(frame: Buffer): void {
    const count = frame.readUInt16LE(6)
    for (let i = 0; i < count; i++) this.#link.regions?.freeInput(readUint64(frame, headerBytes + 8 * i))
    this.#scheduleTrim()
  }

  #onExit(reason: string): void {
    this.#cancelTrim?.()
    this.#open.clear()
    this.#failed.clear()
    this.#flow?.clear()
    this.#batches.length = 0
    this.#bls.close()
    this.#calls.close()
    this.#events.onDeath(reason)
  }
}

// HOT: once per request of a native backend.
function stampReported(request: InferenceRequest, frame: Buffer, at: number, nowNs: number): void {
  const startNs = readUint64(frame, at + 8)
  const inputEndNs = readUint64(frame, at + 16)
  const outputStartNs = readUint64(frame, at + 24)
  const endNs = readUint64(frame, at + 32)
  // The backend's clock has another beginning than the server's, and what a backend says may be wrong.
  const earliestNs = request.computeStartNs
  request.computeEndNs = nowNs
  request.computeOutputStartNs = Math.max(nowNs - Math.max(endNs - outputStartNs, 0), earliestNs)
  request.computeInputEndNs = Math.max(
    request.computeOutputStartNs - Math.max(outputStartNs - inputEndNs, 0),
    earliestNs,
  )
  request.computeStartNs = Math.max(request.computeInputEndNs - Math.max(inputEndNs - startNs, 0), earliestNs)
}

/** An execution whose inputs are in place already. */
class PreparedExecution implements PreparedBatch {
  readonly worker: ProcessWorker
  readonly id: number
  readonly firstHandle: number
  readonly encoded: ExecuteFrame

  constructor(worker: ProcessWorker, id: number, firstHandle: number, encoded: ExecuteFrame) {
    this.worker = worker
    this.id = id
    this.firstHandle = firstHandle
    this.encoded = encoded
  }

  drop(): void {
    this.worker.giveBack(this.encoded.blocks)
  }
}

const hold = (batch: Batch, executed: () => void, isParked: boolean): HeldBatch => ({
  batch,
  executed,
  id: 0,
  firstHandle: 0,
  sentNs: 0,
  headSinceNs: 0,
  isParked,
})

specimens.add(() => {
  const encoded: ExecuteFrame = { frame: Buffer.alloc(0), blocks: [] }
  return [new PreparedExecution({} as ProcessWorker, 1, 1, encoded), hold({} as Batch, () => undefined, false)]
})
