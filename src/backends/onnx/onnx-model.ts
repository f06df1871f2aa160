// One version of an ONNX model in memory: the session that all its instances share.

import type { Clock } from '../../base/clock.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Instance, InstanceSpec, LoadedModel, ModelVersionSource } from '../../model/backend.ts'
import { batchLayoutOf, type BatchLayout } from './batch-layout.ts'
import type { PlaceByTime } from './execution-place.ts'
import { OnnxInstance } from './onnx-instance.ts'
import type { OnnxSession } from './onnx-session.ts'
import type { OutputBinding } from './split-outputs.ts'

export class OnnxModel implements LoadedModel {
  readonly #clock: Clock
  readonly #source: ModelVersionSource
  readonly #session: OnnxSession
  readonly #place: PlaceByTime
  readonly #maxExecutionMs: number
  readonly #inputIndex: ReadonlyMap<string, number>
  readonly #outputs: readonly OutputBinding[]
  readonly #layout: BatchLayout | null

  constructor(
    dependencies: { clock: Clock },
    source: ModelVersionSource,
    session: OnnxSession,
    settings: { place: PlaceByTime; maxExecutionMs: number },
  ) {
    this.#clock = dependencies.clock
    this.#source = source
    this.#session = session
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

  createInstance(spec: InstanceSpec): Promise<Instance> {
    const { name: modelName } = this.#source
    if (spec.kind === 'KIND_GPU') {
      const group = spec.name.replace(/_\d+$/, '')
      const text = `instance group ${group} of model ${modelName} has kind KIND_GPU but server does not support GPUs`
      return Promise.reject(new ServerError('INVALID_ARG', text))
    }
    const instance = new OnnxInstance({
      clock: this.#clock,
      name: spec.name,
      modelName,
      runner: this.#session.createRunner(),
      place: this.#place,
      inputIndex: this.#inputIndex,
      inputCount: this.#inputIndex.size,
      layout: this.#layout,
      outputs: this.#outputs,
      maxExecutionMs: this.#maxExecutionMs,
    })
    return Promise.resolve(instance)
  }

  close(): Promise<void> {
    return this.#session.close()
  }
}
