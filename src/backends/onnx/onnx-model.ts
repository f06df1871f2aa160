// One version of an ONNX model in memory: the session that all its instances share.

import type { Clock } from '../../base/clock.ts'
import type { Instance, InstanceSpec, LoadedModel, ModelVersionSource } from '../../model/backend.ts'
import { batchLayoutOf, type BatchLayout } from './batch-layout.ts'
import { PlaceByTime } from './execution-place.ts'
import { OnnxInstance } from './onnx-instance.ts'
import type { OnnxRunner, OnnxSession } from './onnx-session.ts'
import type { OutputBinding } from './split-outputs.ts'

/** The sessions of a model: one for each set of cores on the CPU (null) and one for each GPU, opened when the first Instance there is made. */
type SessionsByDevice = {
  readonly first: { readonly deviceId: number | null; readonly cores: readonly number[]; readonly session: OnnxSession }
  readonly open: (deviceId: number | null, cores: readonly number[]) => Promise<OnnxSession>
}

type Opened = {
  /** Sessions with the same key may be used by the same Instances. */
  readonly key: string
  readonly deviceId: number | null
  readonly session: Promise<OnnxSession>
  userCount: number
}

export class OnnxModel implements LoadedModel {
  readonly #clock: Clock
  readonly #source: ModelVersionSource
  readonly #openSession: SessionsByDevice['open']
  /** All that are open. A session goes with the last Instance that uses it; only the first is there before its Instance. */
  readonly #opened = new Set<Opened>()
  readonly #deviceBytes = new Map<number, number>()
  readonly #hasGraphs: boolean
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
    this.#hasGraphs = settings.hasGraphs
    this.#add(first.deviceId, first.cores, Promise.resolve(session))
    this.#note(first.deviceId, session, 1)
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
    const deviceId = spec.kind === 'KIND_GPU' ? spec.deviceId : null
    const { cores = [] } = spec
    const opened = this.#sessionFor(deviceId, deviceId === null ? cores : [])
    opened.userCount++
    try {
      const runner = (await opened.session).createRunner(cores)
      return this.#instance(spec, runner, () => this.#leave(opened))
    } catch (reason) {
      await this.#leave(opened)
      throw reason
    }
  }

  #instance({ name, cores = [] }: InstanceSpec, runner: OnnxRunner, onClose: () => Promise<void>): OnnxInstance {
    const { name: modelName, config } = this.#source
    return new OnnxInstance({
      clock: this.#clock,
      name,
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
      onClose,
    })
  }

  /** By GPU. */
  get deviceBytes(): ReadonlyMap<number, number> {
    return this.#deviceBytes
  }

  async close(): Promise<void> {
    for (const opened of await Promise.allSettled([...this.#opened].map(({ session }) => session))) {
      if (opened.status === 'fulfilled') await opened.value.close()
    }
  }

  /**
   * The graphs of a session use the same memory again and again, so two Instances may not run one session at the same time.
   * ONNX Runtime does not look for that.
   */
  #sessionFor(deviceId: number | null, cores: readonly number[]): Opened {
    const key = sessionKey(deviceId, cores)
    const isOwn = this.#hasGraphs && deviceId !== null
    for (const opened of this.#opened) if (opened.key === key && (!isOwn || opened.userCount === 0)) return opened
    const opened = this.#add(deviceId, cores, this.#open(deviceId, cores))
    // A GPU without memory may have some when the next Instance comes.
    opened.session.catch(() => this.#opened.delete(opened))
    return opened
  }

  #add(deviceId: number | null, cores: readonly number[], session: Promise<OnnxSession>): Opened {
    const opened = { key: sessionKey(deviceId, cores), deviceId, session, userCount: 0 }
    this.#opened.add(opened)
    return opened
  }

  async #open(deviceId: number | null, cores: readonly number[]): Promise<OnnxSession> {
    const session = await this.#openSession(deviceId, cores)
    this.#note(deviceId, session, 1)
    return session
  }

  async #leave(opened: Opened): Promise<void> {
    opened.userCount--
    if (opened.userCount > 0 || !this.#opened.delete(opened)) return
    const session = await opened.session.catch(() => null)
    await session?.close()
    if (session !== null) this.#note(opened.deviceId, session, -1)
  }

  #note(deviceId: number | null, { deviceBytes }: OnnxSession, sign: 1 | -1): void {
    if (deviceId === null || deviceBytes === undefined) return
    const bytes = (this.#deviceBytes.get(deviceId) ?? 0) + sign * deviceBytes
    if (bytes > 0 || sign > 0) this.#deviceBytes.set(deviceId, bytes)
    else this.#deviceBytes.delete(deviceId)
  }
}

const sessionKey = (deviceId: number | null, cores: readonly number[]): string => `${deviceId ?? 'cpu'}:${cores.join()}`

const offloaded = new PlaceByTime(0, 'offloaded')
