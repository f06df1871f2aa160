// Decides which models are in memory: makes room within `--model-memory-limit` by putting the models to sleep that were
// used longest ago, and puts idle models to sleep. A model in use, or one to be kept warm, stays.

import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import { modelLabel, type ModelKey } from '../../model/model-key.ts'
import type { FoundModel } from '../../repository/model-repository.ts'
import { planEviction } from './plan-eviction.ts'
import { residencyOf, type Residency, type ResidencyDefaults } from './residency-settings.ts'
import type { ServedModel } from '../serving/served-model.ts'
import type { ServedVersion } from '../serving/served-version.ts'
import type { ResidencyLedger } from '../../telemetry/residency-ledger.ts'

type ResidencySettings = ResidencyDefaults & {
  /** `--model-memory-limit`; 0: none. */
  readonly memoryLimitBytes: number
}

type ResidencyDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly ledger: ResidencyLedger
  readonly models: ReadonlyMap<ModelKey, ServedModel>
  /** Whether an ensemble that serves calls the model. */
  isCalled(key: ModelKey): boolean
  /** Takes the model out of memory. False: the model is in use, and stays. */
  readonly putToSleep: (model: ServedModel, reason: string) => Promise<boolean>
}

/** How long a load waits for models in use to become idle. */
const roomWaitNs = 10e9
const roomRetryNs = 20e6

const alwaysResident: Residency = { isLazy: false, isKeptWarm: false, idleUnloadNs: 0, declaredBytes: null }

export class ModelResidency {
  readonly #dependencies: ResidencyDependencies
  readonly #settings: ResidencySettings
  /** Bytes promised to loads under way. */
  readonly #promised = new Map<ModelKey, number>()
  /** The settings of the models that were loaded. */
  readonly #adopted = new Map<ModelKey, Residency>()
  readonly #timers = new Map<ServedModel, Cancel>()
  #isClosed = false

  constructor(dependencies: ResidencyDependencies, settings: ResidencySettings) {
    this.#dependencies = dependencies
    this.#settings = settings
  }

  /** Whether there is a limit, so that the memory of models must be known. */
  get isAccounting(): boolean {
    return this.#settings.memoryLimitBytes > 0
  }

  settingsOf(model: FoundModel): Residency {
    return residencyOf(model.config, this.#settings)
  }

  /** From now on `residency` are the settings of the model. */
  adopt(model: ServedModel, residency: Residency): void {
    this.#adopted.set(model.key, residency)
  }

  #of(model: ServedModel): Residency {
    return this.#adopted.get(model.key) ?? alwaysResident
  }

  /** The bytes that a load of the versions needs: what the configuration declares, or the size of the files. */
  estimate(model: FoundModel, versions: readonly string[]): number {
    const { declaredBytes } = this.settingsOf(model)
    if (declaredBytes !== null) return declaredBytes
    const bytes = model.partBytes ?? new Map<string, number>()
    return ['', ...versions].reduce((sum, part) => sum + (bytes.get(part) ?? 0), 0)
  }

  isLazy(model: FoundModel): boolean {
    try {
      return this.settingsOf(model).isLazy
    } catch {
      // The load of the model tells what is wrong with the parameter.
      return false
    }
  }

  /** Notes the bytes of the model: those that its configuration declares, else of its processes, else of its files. */
  async account(model: ServedModel, found: FoundModel): Promise<void> {
    const { declaredBytes } = this.#of(model)
    const versions = model.ready
    let total = 0
    for (const version of versions) {
      const measured = this.isAccounting && declaredBytes === null ? await version.measureBytes() : null
      const bytes = measured ?? this.estimate(found, [version.version]) / (declaredBytes === null ? 1 : versions.length)
      if (this.isAccounting || declaredBytes !== null) version.memoryBytes = Math.ceil(bytes)
      total += bytes
    }
    if (model.latest !== null) model.memoryBytes = Math.ceil(total)
  }

  usedBytes(): number {
    let used = 0
    for (const model of this.#dependencies.models.values()) used += model.memoryBytes
    for (const bytes of this.#promised.values()) used += bytes
    return used
  }

  hasRoom(bytes: number): boolean {
    const { memoryLimitBytes } = this.#settings
    return memoryLimitBytes === 0 || this.usedBytes() + bytes <= memoryLimitBytes
  }

  /** Throws when so many bytes more do not fit. Nothing is put to sleep for them: other models are worth more than speed. */
  requireRoom(key: ModelKey, bytes: number): void {
    if (bytes > 0 && !this.hasRoom(bytes)) throw this.#noRoom(key, Math.ceil(bytes), 'one instance more needs them')
  }

  /** The version has `factor` times the instances that it had when it was measured. */
  grown(version: ServedVersion, factor: number): void {
    const more = Math.ceil(version.memoryBytes * (factor - 1))
    const model = this.#dependencies.models.get(version.key)
    if (model === undefined || more === 0) return
    version.memoryBytes += more
    model.memoryBytes += more
  }

  /** Reserves memory for the load of a model and puts others to sleep where needed. Throws when there is no room. */
  async reserve(key: ModelKey, bytes: number): Promise<() => void> {
    const { clock } = this.#dependencies
    const { memoryLimitBytes } = this.#settings
    if (memoryLimitBytes > 0 && bytes > memoryLimitBytes) throw this.#noRoom(key, bytes, 'alone it needs more')
    const giveUpNs = clock.nowNs() + roomWaitNs
    // During a reload both copies are in memory. Only the new copy is counted.
    const ownBytes = (): number => this.#dependencies.models.get(key)?.memoryBytes ?? 0
    while (!this.hasRoom(bytes - ownBytes())) {
      const missing = this.usedBytes() + bytes - ownBytes() - memoryLimitBytes
      const victims = planEviction(this.#idleModels(key), missing)
      let isFreed = false
      for (const victim of victims ?? []) isFreed = (await this.#evict(victim, key)) || isFreed
      if (isFreed) continue
      if (clock.nowNs() >= giveUpNs || this.#isClosed)
        throw this.#noRoom(key, bytes, 'the others are in use or kept warm')
      await new Promise<void>((resolve) => void clock.after(roomRetryNs, resolve))
    }
    this.#promised.set(key, Math.max(0, bytes - ownBytes()))
    return () => void this.#promised.delete(key)
  }

  /** To be called after a load: the model may need more memory than was reserved, and may become idle. */
  watch(model: ServedModel): void {
    this.#promised.delete(model.key)
    const excess = this.usedBytes() - this.#settings.memoryLimitBytes
    if (this.isAccounting && excess > 0) {
      for (const victim of planEviction(this.#idleModels(model.key), excess) ?? []) void this.#evict(victim, model.key)
    }
    const { idleUnloadNs, isKeptWarm } = this.#of(model)
    this.unwatch(model)
    if (idleUnloadNs > 0 && !isKeptWarm) this.#lookAfter(model, idleUnloadNs)
  }

  unwatch(model: ServedModel): void {
    this.#timers.get(model)?.()
    this.#timers.delete(model)
  }

  close(): void {
    this.#isClosed = true
    for (const cancel of this.#timers.values()) cancel()
    this.#timers.clear()
  }

  #lookAfter(model: ServedModel, delayNs: number): void {
    const cancel = this.#dependencies.clock.after(delayNs, () => {
      this.#timers.delete(model)
      this.#sleepIfIdle(model)
    })
    this.#timers.set(model, cancel)
  }

  #sleepIfIdle(model: ServedModel): void {
    const { clock, ledger } = this.#dependencies
    const { idleUnloadNs } = this.#of(model)
    if (model.latest === null || this.#isClosed) return
    const leftNs = model.lastUsedNs + idleUnloadNs - clock.nowNs()
    if (model.isInUse || this.#dependencies.isCalled(model.key)) return this.#lookAfter(model, idleUnloadNs)
    if (leftNs > 0) return this.#lookAfter(model, leftNs)
    const reason = `not loaded: no request came for ${idleUnloadNs / 1e9} s`
    void this.#dependencies.putToSleep(model, reason).then((isAsleep) => {
      if (isAsleep) ledger.evicted(model.name, 'idle')
      else if (model.latest !== null && !this.#timers.has(model)) this.#lookAfter(model, idleUnloadNs)
    })
  }

  #idleModels(except: ModelKey): { key: ModelKey; bytes: number; lastUsedNs: number }[] {
    const idle: { key: ModelKey; bytes: number; lastUsedNs: number }[] = []
    for (const model of this.#dependencies.models.values()) {
      const { key, memoryBytes: bytes, lastUsedNs } = model
      const isFree =
        model.latest !== null && !model.isInUse && !this.#of(model).isKeptWarm && model.from.upload === null
      if (isFree && key !== except && !this.#dependencies.isCalled(key)) idle.push({ key, bytes, lastUsedNs })
    }
    return idle
  }

  /** Models that nobody asked for so long, and that may leave the memory, do. Their names. */
  async sleepIdle(leastIdleNs: number): Promise<readonly string[]> {
    const { clock, models, ledger, putToSleep } = this.#dependencies
    const nowNs = clock.nowNs()
    const asleep: string[] = []
    for (const { key, lastUsedNs } of this.#idleModels('')) {
      const model = models.get(key)
      if (model === undefined || nowNs - lastUsedNs < leastIdleNs) continue
      if (!(await putToSleep(model, 'not loaded: an alert asked for memory'))) continue
      ledger.evicted(model.name, 'memory')
      asleep.push(model.label)
    }
    return asleep
  }

  async #evict(key: ModelKey, inFavourOf: ModelKey): Promise<boolean> {
    const { models, log, ledger } = this.#dependencies
    const model = models.get(key)
    if (model === undefined) return false
    const reason = 'not loaded: it made room for another model within --model-memory-limit'
    const isAsleep = await this.#dependencies.putToSleep(model, reason)
    if (!isAsleep) return false
    ledger.evicted(model.name, 'memory')
    log.info(`unloaded '${model.label}', used longest ago, to make room for '${modelLabel(inFavourOf)}'`)
    return true
  }

  #noRoom(key: ModelKey, bytes: number, why: string): ServerError {
    const { memoryLimitBytes } = this.#settings
    return new ServerError(
      'UNAVAILABLE',
      `no room for model '${modelLabel(key)}': it needs ${bytes} bytes, ${Math.max(0, memoryLimitBytes - this.usedBytes())} of --model-memory-limit=${memoryLimitBytes} are free, and ${why}`,
    )
  }
}
