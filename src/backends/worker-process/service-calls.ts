// Questions of a model to the server: load and unload models, readiness, custom metrics.

import { messageOf, ServerError } from '../../base/server-error.ts'
import type { CustomMetricKind } from '../../model/custom-metrics.ts'
import type { ModelServices } from '../../model/model-services.ts'
import { headerBytes, metricOperations, readUint64, textFrame, toWorker } from './frames.ts'
import { TensorRecordReader } from './tensor-records.ts'
import type { TensorRegions } from './tensor-regions.ts'

type Call =
  | { method: 'loadModel'; name: string; config: string }
  | { method: 'unloadModel'; name: string; unloadDependents: boolean }
  | { method: 'isModelReady'; name: string; version: string }
  | { method: 'createFamily'; name: string; description: string; kind: CustomMetricKind }
  | { method: 'createMetric'; family: string; labels: Record<string, string>; buckets: number[] | null }
  | { method: 'metricValue'; metric: number }

export class ServiceCalls {
  readonly #services: ModelServices
  readonly #reader: TensorRecordReader
  readonly #send: (frame: Buffer) => void
  readonly #free: (blocks: readonly number[]) => void
  /** Series that this worker made. They end with the worker, also when the worker did not remove them. */
  readonly #metrics: Set<number>

  constructor(
    services: ModelServices,
    regions: TensorRegions | null,
    send: (frame: Buffer) => void,
    free: (blocks: readonly number[]) => void,
    metrics = new Set<number>(),
  ) {
    this.#services = services
    this.#metrics = metrics
    this.#reader = new TensorRecordReader(regions, [])
    this.#send = send
    this.#free = free
  }

  answer(frame: Buffer): void {
    const callId = readUint64(frame, 8)
    const jsonBytes = readUint64(frame, headerBytes)
    const fileCount = frame.readUInt16LE(6)
    const files = new Map<string, Uint8Array>()
    this.#reader.blocks = null
    this.#reader.end = headerBytes + 8
    for (let i = 0; i < fileCount; i++) {
      const tensor = this.#reader.read(frame, this.#reader.end)
      // The bytes are copied, because they lie in the worker's memory and loading takes long.
      files.set(tensor.name, Uint8Array.from(tensor.bytes))
    }
    const blocks = this.#reader.blocks as number[] | null
    if (blocks !== null) this.#free(blocks)
    const { end } = this.#reader
    const call = JSON.parse(frame.toString('utf8', end, end + jsonBytes)) as Call
    let result: unknown
    try {
      result = this.#perform(call, files)
    } catch (reason) {
      this.#reply(callId, { result: null, error: messageOf(reason) })
      return
    }
    if (!(result instanceof Promise)) {
      this.#reply(callId, { result: result ?? null, error: null })
      return
    }
    result.then(
      () => this.#reply(callId, { result: null, error: null }),
      (reason: unknown) => this.#reply(callId, { result: null, error: messageOf(reason) }),
    )
  }

  /** Changes a series. There is no answer, so an error is dropped: the worker has checked the change before. */
  metric(frame: Buffer): void {
    const metric = readUint64(frame, 8)
    const operation = metricOperations[frame.readUInt32LE(headerBytes)]
    const value = frame.readDoubleLE(headerBytes + 4)
    const { metrics } = this.#services
    if (!this.#metrics.has(metric) || operation === undefined) return
    try {
      if (operation !== 'remove') metrics[operation](metric, value)
      else if (this.#metrics.delete(metric)) metrics.remove(metric)
    } catch (reason) {
      if (!(reason instanceof ServerError)) throw reason
    }
  }

  close(): void {
    for (const metric of this.#metrics) this.#services.metrics.remove(metric)
    this.#metrics.clear()
  }

  #perform(call: Call, files: ReadonlyMap<string, Uint8Array>): unknown {
    const services = this.#services
    switch (call.method) {
      case 'loadModel':
        return services.loadModel(call.name, call.config, files)
      case 'unloadModel':
        return services.unloadModel(call.name, call.unloadDependents)
      case 'isModelReady':
        return services.findReadyModel(call.name, call.version) !== null
      case 'createFamily':
        services.metrics.createFamily(call.name, call.description, call.kind)
        return null
      case 'createMetric': {
        const metric = services.metrics.createMetric(call.family, new Map(Object.entries(call.labels)), call.buckets)
        this.#metrics.add(metric)
        return metric
      }
      case 'metricValue':
        // As text: JSON knows neither infinity nor NaN.
        return String(services.metrics.value(call.metric))
      default:
        throw new Error(`unknown call '${(call as { method: string }).method}'`)
    }
  }

  #reply(callId: number, reply: { result: unknown; error: string | null }): void {
    this.#send(textFrame(toWorker.reply, callId, JSON.stringify(reply)))
  }
}
