// Decides which models are in memory: makes room within `--model-memory-limit` by putting the models to sleep that were
// used longest ago, and puts idle models to sleep. A model in use, or one to be kept warm, stays.

import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import { modelKey, modelLabel, type ModelKey } from '../../model/model-key.ts'
import type { FoundModel } from '../../repository/model-repository.ts'
import { gpusOf, hostPlace, placeName, totalOf, type Footprint } from './footprint.ts'
import { planEviction } from './plan-eviction.ts'
import { residencyOf, type Residency, type ResidencyDefaults } from './residency-settings.ts'
import type { AskFree } from '../serving/gpu-meter.ts'
import type { ServedModel } from '../serving/served-model.ts'
import type { ServedVersion } from '../serving/served-version.ts'
import type { ResidencyLedger } from '../../telemetry/residency-ledger.ts'

type ResidencySettings = ResidencyDefaults & {
  /** `--model-memory-limit` of the host; 0: none. */
  readonly memoryLimitBytes: number
  /** `--model-memory-limit` by GPU; absent: none. */
  readonly gpuLimitBytes?: ReadonlyMap<number, number>
}

type ResidencyDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly ledger: ResidencyLedger
  readonly models: ReadonlyMap<ModelKey, ServedModel>
  /** Free memory of a GPU, whoever has taken the rest; null where nobody can tell. */
  readonly freeGpuBytes: AskFree
  /** Whether an ensemble that serves calls the model. */
  isCalled(key: ModelKey): boolean
  /** Takes the model out of memory. False: the model is in use, and stays. */
  readonly putToSleep: (model: ServedModel, reason: string) => Promise<boolean>
}

/** How long a load waits for models in use to become idle. */
const roomWaitNs = 10e9
const roomRetryNs = 20e6
/** To ask a GPU starts a process. */
const gpuRetryNs = 500e6

const alwaysResident: Residency = {
  isLazy: false,
  isKeptWarm: false,
  idleUnloadNs: 0,
  declaredBytes: null,
  declaredGpuBytes: null,
}

export class ModelResidency {
  readonly #dependencies: ResidencyDependencies
  readonly #settings: ResidencySettings
  /** The most bytes in each place that has a limit. */
  readonly #limits: Footprint
  /** Bytes promised to loads under way. */
  readonly #promised = new Map<ModelKey, Footprint>()
  /** What the last load of each model took of GPUs, for the next one. */
  readonly #measured = new Map<ModelKey, Footprint>()
  /** The settings of the models that were loaded. */
  readonly #adopted = new Map<ModelKey, Residency>()
  readonly #timers = new Map<ServedModel, Cancel>()
  #isClosed = false

  constructor(dependencies: ResidencyDependencies, settings: ResidencySettings) {
    this.#dependencies = dependencies
    this.#settings = settings
    const { memoryLimitBytes, gpuLimitBytes = new Map<number, number>() } = settings
    const ofHost: [number, number][] = memoryLimitBytes > 0 ? [[hostPlace, memoryLimitBytes]] : []
    this.#limits = new Map([...ofHost, ...gpuLimitBytes])
  }

  /** Whether there is a limit, so that the memory of models must be known. */
  get isAccounting(): boolean {
    return this.#limits.has(hostPlace)
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

  /**
   * The bytes that a load of the versions needs: what the configuration declares, or the size of the files. Of GPUs: what
   * the last load took, or as many bytes as the files have on each GPU that the configuration names.
   */
  estimate(model: FoundModel, versions: readonly string[]): Footprint {
    const { declaredBytes, declaredGpuBytes } = this.settingsOf(model)
    const fileBytes = fileBytesOf(model, versions)
    const measured = this.#measured.get(modelKey(model.namespace, model.name))
    const needs = new Map([[hostPlace, declaredBytes ?? fileBytes]])
    for (const place of this.#gpuPlaces()) {
      const isNamed = measured === undefined && gpusOf(model.config, place)
      const bytes = measured?.get(place) ?? (isNamed ? (declaredGpuBytes ?? fileBytes) : 0)
      if (bytes > 0) needs.set(place, bytes)
    }
    return needs
  }

  #gpuPlaces(): number[] {
    return [...this.#limits.keys()].filter((place) => place !== hostPlace)
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
      const share =
        (declaredBytes ?? fileBytesOf(found, [version.version])) / (declaredBytes === null ? 1 : versions.length)
      const bytes = measured ?? share
      if (this.isAccounting || declaredBytes !== null) version.memoryBytes = Math.ceil(bytes)
      total += bytes
    }
    if (model.latest === null) return
    model.memoryBytes = Math.ceil(total)
    model.gpuBytes = totalOf(versions.map((version) => version.gpuBytes))
    if (model.gpuBytes.size > 0) this.#measured.set(model.key, model.gpuBytes)
  }

  #bytesOf(model: ServedModel | undefined, place: number): number {
    if (model === undefined) return 0
    if (place === hostPlace) return model.memoryBytes
    const counted = model.gpuBytes.size === 0 ? [] : model.ready.flatMap((version) => version.countedGpuBytes ?? [])
    return (counted.length === 0 ? model.gpuBytes : totalOf(counted)).get(place) ?? 0
  }

  #usedBytes(place: number): number {
    let used = 0
    for (const model of this.#dependencies.models.values()) used += this.#bytesOf(model, place)
    for (const promised of this.#promised.values()) used += promised.get(place) ?? 0
    return used
  }

  /** Bytes by which `needs` is above the limit of the place; 0 or less: there is room. */
  #excess(needs: Footprint, place: number): number {
    const limit = this.#limits.get(place)
    return limit === undefined ? 0 : this.#usedBytes(place) + (needs.get(place) ?? 0) - limit
  }

  hasRoom(needs: Footprint): boolean {
    return [...needs.keys()].every((place) => this.#excess(needs, place) <= 0)
  }

  /** Throws when so many bytes more do not fit. Nothing is put to sleep for them: other models are worth more than speed. */
  requireRoom(version: ServedVersion, factor: number): void {
    const more = growthOf(version, factor)
    for (const [place, bytes] of more)
      if (bytes > 0 && this.#excess(more, place) > 0)
        throw this.#noRoom(version.key, place, Math.ceil(bytes), 'one instance more needs them')
  }

  /** The version has `factor` times the instances that it had when it was measured. */
  grown(version: ServedVersion, factor: number): void {
    const more = growthOf(version, factor)
    const model = this.#dependencies.models.get(version.key)
    if (model === undefined || factor === 1) return
    const ofHost = Math.ceil(more.get(hostPlace) ?? 0)
    version.memoryBytes += ofHost
    model.memoryBytes += ofHost
    model.gpuBytes = totalOf([model.gpuBytes, new Map([...more].filter(([place]) => place !== hostPlace))])
  }

  /** Reserves memory for the load of a model and puts others to sleep where needed. Throws when there is no room. */
  async reserve(key: ModelKey, needs: Footprint): Promise<() => void> {
    const { clock, models } = this.#dependencies
    const limited = [...needs.keys()].filter((place) => this.#limits.has(place))
    for (const place of limited) {
      const [bytes = 0, limit = 0] = [needs.get(place), this.#limits.get(place)]
      if (bytes > limit) throw this.#noRoom(key, place, bytes, 'alone it needs more')
    }
    const giveUpNs = clock.nowNs() + roomWaitNs
    // During a reload both copies are in memory. Only the new copy is counted.
    const beyondOwn = (): Footprint =>
      new Map(Array.from(needs, ([place, bytes]) => [place, bytes - this.#bytesOf(models.get(key), place)]))
    for (const place of limited) {
      for (;;) {
        const excess = this.#excess(beyondOwn(), place)
        const missing = place === hostPlace ? excess : Math.max(excess, await this.#missingOnGpu(beyondOwn(), place))
        if (missing <= 0) break
        if (await this.#makeRoom(key, place, missing)) continue
        if (clock.nowNs() >= giveUpNs || this.#isClosed)
          throw this.#noRoom(key, place, needs.get(place) ?? 0, 'the others are in use or kept warm')
        const waitNs = place === hostPlace ? roomRetryNs : gpuRetryNs
        await new Promise<void>((resolve) => void clock.after(waitNs, resolve))
      }
    }
    this.#promised.set(key, new Map(Array.from(beyondOwn(), ([place, bytes]) => [place, Math.max(0, bytes)])))
    return () => void this.#promised.delete(key)
  }

  /** What other programs have taken of a GPU cannot be used either, whatever the limit is. */
  async #missingOnGpu(needs: Footprint, place: number): Promise<number> {
    const bytes = needs.get(place) ?? 0
    if (bytes <= 0) return 0
    const free = await this.#dependencies.freeGpuBytes(place)
    return free === null ? 0 : bytes - free
  }

  async #makeRoom(key: ModelKey, place: number, missing: number): Promise<boolean> {
    let isFreed = false
    for (const victim of planEviction(this.#idleModels(key, place), missing) ?? [])
      isFreed = (await this.#evict(victim, key, place)) || isFreed
    return isFreed
  }

  /** To be called after a load: the model may need more memory than was reserved, and may become idle. */
  watch(model: ServedModel): void {
    this.#promised.delete(model.key)
    for (const place of this.#limits.keys()) {
      const excess = this.#excess(new Map(), place)
      if (excess > 0) void this.#makeRoom(model.key, place, excess)
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

  #idleModels(except: ModelKey, place = hostPlace): { key: ModelKey; bytes: number; lastUsedNs: number }[] {
    const idle: { key: ModelKey; bytes: number; lastUsedNs: number }[] = []
    for (const model of this.#dependencies.models.values()) {
      const { key, lastUsedNs } = model
      const bytes = this.#bytesOf(model, place)
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

  async #evict(key: ModelKey, inFavourOf: ModelKey, place: number): Promise<boolean> {
    const { models, log, ledger } = this.#dependencies
    const model = models.get(key)
    if (model === undefined) return false
    const reason = 'not loaded: it made room for another model within --model-memory-limit'
    const isAsleep = await this.#dependencies.putToSleep(model, reason)
    if (!isAsleep) return false
    ledger.evicted(model.name, 'memory')
    const where = place === hostPlace ? '' : ` on ${placeName(place)}`
    log.info(`unloaded '${model.label}', used longest ago, to make room for '${modelLabel(inFavourOf)}'${where}`)
    return true
  }

  #noRoom(key: ModelKey, place: number, bytes: number, why: string): ServerError {
    const limit = this.#limits.get(place) ?? 0
    const flag = `--model-memory-limit=${place === hostPlace ? '' : `${place}:`}${limit}`
    const where = place === hostPlace ? '' : ` of ${placeName(place)}`
    return new ServerError(
      'UNAVAILABLE',
      `no room for model '${modelLabel(key)}': it needs ${bytes} bytes${where}, ${Math.max(0, limit - this.#usedBytes(place))} of ${flag} are free, and ${why}`,
    )
  }
}

const fileBytesOf = ({ partBytes }: FoundModel, versions: readonly string[]): number =>
  ['', ...versions].reduce((sum, part) => sum + (partBytes?.get(part) ?? 0), 0)

/** What `factor` times the instances take beyond what the version has now. */
const growthOf = ({ memoryBytes, gpuBytes }: ServedVersion, factor: number): Footprint =>
  new Map(
    Array.from([[hostPlace, memoryBytes] as const, ...gpuBytes], ([place, bytes]) => [place, bytes * (factor - 1)]),
  )
