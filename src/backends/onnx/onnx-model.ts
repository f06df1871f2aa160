// One version of an ONNX model in memory: the session that all its instances share.

import type { Clock } from '../../base/clock.ts'
import type { Instance, InstanceSpec, LoadedModel, ModelVersionSource } from '../../model/backend.ts'
import { batchLayoutOf, type BatchLayout } from './batch-layout.ts'
import { PlaceByTime } from './execution-place.ts'
import { OnnxInstance } from './onnx-instance.ts'
import type { OnnxSession } from './onnx-session.ts'
import type { OutputBinding } from './split-outputs.ts'

/** The sessions of a model: one for each set of cores on the CPU (null) and one for each GPU, opened when the first Instance there is made. */
type SessionsByDevice = {
  readonly first: { readonly deviceId: number | null; readonly cores: readonly number[]; readonly session: OnnxSession }
  readonly open: (deviceId: number | null, cores: readonly number[]) => Promise<OnnxSession>
}

export class OnnxModel implements LoadedModel {
  readonly #clock: Clock
  readonly #source: ModelVersionSource
  readonly #openSession: SessionsByDevice['open']
  /** By device and cores. */
  readonly #sessions = new Map<string, Promise<OnnxSession>>()
  readonly #deviceBytes = new Map<number, number>()
  readonly #hasGraphs: boolean
  /** Sessions on GPUs that belong to one Instance each, and those among them whose Instance is gone. */
  readonly #own = new Map<Promise<OnnxSession>, number>()
  readonly #unused = new Set<Promise<OnnxSession>>()
  readonly #place: PlaceByTime
  readonly #maxExecutionMs: number
  readonly #inputIndex: ReadonlyMap<string, number>
  readonly #outputs: readonly OutputBinding[]
  readonly #layout: BatchLayout | null

  constructor(
    dependencies: { clock: Clock },
    source: ModelVersionSource,
    { first, open }: SessionsByDevice,
    settings: { place: PlaceByTime; maxExecutionMs: number; hasGraphs: boolean },
  ) {
    this.#clock = dependencies.clock
    this.#source = source
    const { session } = first
    this.#openSession = open
    const opened = Promise.resolve(session)
    this.#sessions.set(sessionKey(first.deviceId, first.cores), opened)
    this.#note(first.deviceId, session)
    if (settings.hasGraphs && first.deviceId !== null) {
      this.#own.set(opened, first.deviceId)
      this.#unused.add(opened)
    }
    this.#hasGraphs = settings.hasGraphs
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
    const { cores = [] } = spec
    const isOwn = this.#hasGraphs && deviceId !== null
    const opened = isOwn ? this.#ownSession(deviceId) : this.#session(deviceId, deviceId === null ? cores : [])
    const session = await opened
    const runner = session.createRunner(cores)
    return new OnnxInstance({
      clock: this.#clock,
      name: spec.name,
      modelName,
      runner,
      // A GPU is waited for on another thread, and the main thread stays on all cores.
      place: runner.deviceId === undefined && cores.length === 0 ? this.#place : offloaded,
      takesParts: runner.deviceId !== undefined,
      isBatched: config.maxBatchSize > 0,
      inputIndex: this.#inputIndex,
      inputCount: this.#inputIndex.size,
      layout: this.#layout,
      outputs: this.#outputs,
      maxExecutionMs: this.#maxExecutionMs,
      onClose: () => void (this.#own.has(opened) && this.#unused.add(opened)),
    })
  }

  /** By GPU. */
  get deviceBytes(): ReadonlyMap<number, number> {
    return this.#deviceBytes
  }

  #note(deviceId: number | null, { deviceBytes }: OnnxSession): void {
    if (deviceId === null || deviceBytes === undefined) return
    this.#deviceBytes.set(deviceId, (this.#deviceBytes.get(deviceId) ?? 0) + deviceBytes)
  }

  async close(): Promise<void> {
    for (const opened of await Promise.allSettled(new Set([...this.#sessions.values(), ...this.#own.keys()]))) {
      if (opened.status === 'fulfilled') await opened.value.close()
    }
  }

  #session(deviceId: number | null, cores: readonly number[]): Promise<OnnxSession> {
    const key = sessionKey(deviceId, cores)
    let session = this.#sessions.get(key)
    if (session === undefined) {
      this.#sessions.set(key, (session = this.#open(deviceId, cores)))
      // A GPU without memory may have some when the next Instance comes.
      session.catch(() => this.#sessions.delete(key))
    }
    return session
  }

  /**
   * The graphs of a session use the same memory again and again, so two Instances may not run one session at the same time.
   * ONNX Runtime does not look for that.
   */
  #ownSession(deviceId: number): Promise<OnnxSession> {
    const unused = [...this.#unused].find((each) => this.#own.get(each) === deviceId)
    const session = unused ?? this.#open(deviceId)
    this.#unused.delete(session)
    this.#own.set(session, deviceId)
    session.catch(() => this.#own.delete(session))
    return session
  }

  async #open(deviceId: number | null, cores: readonly number[] = []): Promise<OnnxSession> {
    const session = await this.#openSession(deviceId, cores)
    this.#note(deviceId, session)
    return session
  }
}

const sessionKey = (deviceId: number | null, cores: readonly number[]): string => `${deviceId ?? 'cpu'}:${cores.join()}`

const offloaded = new PlaceByTime(0, 'offloaded')
