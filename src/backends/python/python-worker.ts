// The Worker of one Python instance: sends batches, hands answers to their requests, serves the model's own calls.

import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log, LogLevel } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Batch } from '../../model/batch.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelServices } from '../../model/model-services.ts'
import type { ModelSignature } from '../../model/model-signature.ts'
import type { Worker, WorkerEvents } from '../supervised-instance.ts'
import { BlsCalls } from './bls-calls.ts'
import { encodeExecute } from './execute-frame.ts'
import {
  align16,
  emptyFrame,
  fromWorker,
  headerBytes,
  readText,
  readUint64,
  toWorker,
  writeHeader,
  writeUint64,
} from './frames.ts'
import { readResponse } from './response-record.ts'
import { ServiceCalls } from './service-calls.ts'
import { TensorRecordReader } from './tensor-records.ts'
import type { WorkerLink } from './worker-launch.ts'

export type PythonWorkerDependencies = { readonly clock: Clock; readonly log: Log; readonly services: ModelServices }

export type PythonWorkerSettings = {
  readonly modelName: string
  readonly instanceName: string
  readonly signature: ModelSignature
  /** How long finalize may take before the process is ended. */
  readonly stopGraceMs: number
}

type RunningBatch = {
  readonly id: number
  readonly batch: Batch
  readonly firstHandle: number
  readonly executed: () => void
}

/** An idle worker gives surplus memory back after this long. */
const trimAfterNs = 5e9
/** Freed blocks wait for the next frame to ride on, but no more of them than this. */
const freeBacklog = 8
const logLevels: readonly LogLevel[] = ['info', 'warning', 'error', 'verbose']

export class PythonWorker implements Worker {
  readonly #clock: Clock
  readonly #log: Log
  readonly #settings: PythonWorkerSettings
  readonly #link: WorkerLink
  readonly #events: WorkerEvents
  readonly #reader: TensorRecordReader
  readonly #bls: BlsCalls
  readonly #calls: ServiceCalls
  /** Requests that the worker may still answer. */
  readonly #open = new Map<number, InferenceRequest>()
  #running: RunningBatch | null = null
  #nextHandle = 1
  #nextBatch = 1
  #freed: number[] = []
  #cancelTrim: Cancel | null = null
  #isStopping = false

  constructor(
    dependencies: PythonWorkerDependencies,
    settings: PythonWorkerSettings,
    link: WorkerLink,
    events: WorkerEvents,
  ) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log
    this.#settings = settings
    this.#link = link
    this.#events = events
    this.#reader = new TensorRecordReader(
      link.regions,
      settings.signature.outputs.map((output) => output.name),
    )
    const send = (frame: Buffer): void => this.#send(frame)
    const free = (blocks: readonly number[]): void => this.#free(blocks)
    this.#bls = new BlsCalls(dependencies.services, link.regions, send, free)
    this.#calls = new ServiceCalls(dependencies.services, link.regions, send, free)
    link.adopt({ onFrame: (frame) => this.#onFrame(frame), onExit: (reason) => this.#onExit(reason) })
  }

  // HOT: once per batch.
  execute(batch: Batch, executed: () => void): void {
    const startNs = this.#clock.nowNs()
    const { requests } = batch
    const firstHandle = this.#nextHandle
    for (const request of requests) request.computeStartNs = startNs
    let frame: Buffer
    try {
      frame = encodeExecute(this.#nextBatch, requests, firstHandle, this.#settings.signature, this.#link.regions)
    } catch (reason) {
      const error = ServerError.from(reason)
      for (const request of requests) {
        this.#stampEnd(request, startNs)
        request.fail(error)
      }
      executed()
      return
    }
    this.#nextHandle += requests.length
    for (let i = 0; i < requests.length; i++) this.#open.set(firstHandle + i, requests[i] as InferenceRequest)
    this.#running = { id: this.#nextBatch++, batch, firstHandle, executed }
    this.#send(frame)
    const sentNs = this.#clock.nowNs()
    for (const request of requests) request.computeInputEndNs = sentNs
  }

  cancel(request: InferenceRequest): void {
    // Rare, and the list of what is open is short.
    for (const [handle, open] of this.#open) {
      if (open === request) this.#send(emptyFrame(toWorker.cancel, handle))
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    this.#cancelTrim?.()
    this.#send(emptyFrame(toWorker.finalize))
    const cancelKill = this.#clock.after(this.#settings.stopGraceMs * 1e6, () => {
      this.#log.warning('python worker did not finish in time and is ended', {
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
    if (this.#freed.length > 0) frame = Buffer.concat([this.#freeFrame(), frame])
    this.#link.send(frame)
  }

  #free(blocks: readonly number[]): void {
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
        this.#onExecuteFailed(readUint64(frame, 8), readText(frame))
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
        this.#onLog(frame)
        return
      case fromWorker.readiness:
        this.#events.onReadiness?.(readUint64(frame, 8) === 1)
        return
      default:
        throw new Error(`frame of unknown kind ${kind}`)
    }
  }

  #onExecuted(frame: Buffer): void {
    const running = this.#running
    if (running === null || running.id !== readUint64(frame, 8))
      throw new Error('an answer to a batch that is not running')
    this.#onResponses(frame, headerBytes, frame.readUInt16LE(6))
    // Answering may have started the next batch only through `executed`, which comes last.
    this.#running = null
    running.executed()
  }

  #onResponses(frame: Buffer, offset: number, count: number): void {
    const startNs = this.#clock.nowNs()
    for (let i = 0; i < count; i++) {
      const record = readResponse(frame, offset, this.#reader, (blocks) => this.#free(blocks))
      offset = record.end
      const request = this.#open.get(record.handle)
      // It ended meanwhile, by our own hand; a second answer is dropped.
      if (request === undefined) {
        record.response.release()
        continue
      }
      if (record.response.isFinal) this.#open.delete(record.handle)
      this.#stampEnd(request, startNs)
      request.respond(record.response)
    }
  }

  #onExecuteFailed(batchId: number, message: string): void {
    const running = this.#running
    if (running === null || running.id !== batchId) throw new Error('a failure of a batch that is not running')
    const nowNs = this.#clock.nowNs()
    const error = ServerError.withoutStack('INTERNAL', message)
    running.batch.requests.forEach((request, i) => {
      if (!this.#open.delete(running.firstHandle + i)) return
      this.#stampEnd(request, nowNs)
      request.respond(InferenceResponse.failure(error))
    })
    this.#running = null
    running.executed()
  }

  #stampEnd(request: InferenceRequest, startNs: number): void {
    request.computeOutputStartNs = startNs
    request.computeEndNs = this.#clock.nowNs()
  }

  #onInputsFreed(frame: Buffer): void {
    const count = frame.readUInt16LE(6)
    for (let i = 0; i < count; i++) this.#link.regions?.freeInput(readUint64(frame, headerBytes + 8 * i))
    this.#scheduleTrim()
  }

  #onLog(frame: Buffer): void {
    const end = headerBytes + readUint64(frame, 8)
    const level = logLevels[frame[headerBytes] as number] ?? 'info'
    const fileBytes = frame.readUInt16LE(headerBytes + 2)
    const line = frame.readUInt32LE(headerBytes + 4)
    const start = headerBytes + 8
    const file = frame.toString('utf8', start, start + fileBytes)
    const log = this.#log.from(`${file}:${line}`)
    if (level === 'verbose' && !log.isVerbose()) return
    log[level](frame.toString('utf8', start + fileBytes, end))
  }

  #onExit(reason: string): void {
    this.#cancelTrim?.()
    this.#open.clear()
    this.#running = null
    this.#bls.close()
    this.#calls.close()
    this.#events.onDeath(reason)
  }
}
