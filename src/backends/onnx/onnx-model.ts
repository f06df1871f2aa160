// One version of an ONNX model in memory: the session that all its instances share.

import type { Clock } from '../../base/clock.ts'
import type { Instance, InstanceSpec, LoadedModel, ModelVersionSource } from '../../model/backend.ts'
import { batchLayoutOf, type BatchLayout } from './batch-layout.ts'
import { PlaceByTime } from './execution-place.ts'
import { OnnxInstance } from './onnx-instance.ts'
import type { OnnxSession } from './onnx-session.ts'

/** The sessions of a model: one for the CPU (null) and one for each GPU, opened when the first Instance there is made. */
type SessionsByDevice = {
  readonly first: { readonly deviceId: number | null; readonly session: OnnxSession }
  readonly open: (deviceId: number | null) => Promise<OnnxSession>
}
import type { OutputBinding } from './split-outputs.ts'

export class OnnxModel implements LoadedModel {
  readonly #clock: Clock
  readonly #source: ModelVersionSource
  readonly #openSession: SessionsByDevice['open']
  readonly #sessions = new Map<number | null, Promise<OnnxSession>>()
  readonly #deviceBytes = new Map<number, number>()
  readonly #place: PlaceByTime
  readonly #maxExecutionMs: number
  readonly #inputIndex: ReadonlyMap<string, number>
  readonly #outputs: readonly OutputBinding[]
  readonly #layout: BatchLayout | null

  constructor(
    dependencies: { clock: Clock },
    source: ModelVersionSource,
    { first, open }: SessionsByDevice,
    settings: { place: PlaceByTime; maxExecutionMs: number },
  ) {
    this.#clock = dependencies.clock
    this.#source = source
    const { session } = first
    this.#openSession = open
    this.#sessions.set(first.deviceId, Promise.resolve(session))
    this.#note(first.deviceId, session)
    this.#place = settings.place
    this.#maxExecutionMs = settings.maxExecutionMs
    this.#layout = batchLayoutOf(source.config)
    const names = [...session.inputs, ...session.overridable].map((spec) => spec.name)
    this.#inputIndex = new Map(names.map((name, index) => [name, index]))
    const outputIndex = new Map(session.outputs.map((spec, index) => [spec.name, index]))
    this.#outputs = source.signature.outputs.map(({ name, dataType }) => ({
      name,
      dataType,
      sessionIndex: outputIndex.get(name) ?? 0,
    }))
  }

  async createInstance(spec: InstanceSpec): Promise<Instance> {
    const { name: modelName, config } = this.#source
    const deviceId = spec.kind === 'KIND_GPU' ? spec.deviceId : null
    const session = await this.#session(deviceId)
    this.#note(deviceId, session)
    const runner = session.createRunner()
    return new OnnxInstance({
      clock: this.#clock,
      name: spec.name,
      modelName,
      runner,
      // A GPU is waited for on another thread.
      place: runner.deviceId === undefined ? this.#place : offloaded,
      takesParts: runner.deviceId !== undefined,
      isBatched: config.maxBatchSize > 0,
      inputIndex: this.#inputIndex,
      inputCount: this.#inputIndex.size,
      layout: this.#layout,
      outputs: this.#outputs,
      maxExecutionMs: this.#maxExecutionMs,
    })
  }

  /** By GPU. */
  get deviceBytes(): ReadonlyMap<number, number> {
    return this.#deviceBytes
  }

  #note(deviceId: number | null, { deviceBytes }: OnnxSession): void {
    if (deviceId !== null && deviceBytes !== undefined) this.#deviceBytes.set(deviceId, deviceBytes)
  }

  async close(): Promise<void> {
    for (const opened of await Promise.allSettled(this.#sessions.values())) {
      if (opened.status === 'fulfilled') await opened.value.close()
    }
  }

  #session(deviceId: number | null): Promise<OnnxSession> {
    let session = this.#sessions.get(deviceId)
    if (session === undefined) this.#sessions.set(deviceId, (session = this.#openSession(deviceId)))
    return session
  }
}

const offloaded = new PlaceByTime(0, 'offloaded')
