// Loads and unloads models: joins the plan of a change, the order of changes, ensembles, sleep and memory. The Engine
// decides who may ask.

import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { Patience } from '../../base/patience.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { Turnstile } from '../../base/turnstile.ts'
import { changeOrigin, type ChangeOrigin } from '../../model/change-origin.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { activeGroups, withInstanceCount } from '../../config/scale-limits.ts'
import { modelKey, modelLabel, splitModelKey, type ModelKey } from '../../model/model-key.ts'
import { worded } from '../../model/worded-error.ts'
import { keyOfModel, type PolledModel } from '../../repository/model-repository.ts'
import { modelNameProblem } from '../../repository/model-name.ts'
import { OutsidePathError } from '../../repository/network-config.ts'
import { writeUploadedModel } from '../../repository/uploaded-models.ts'
import { ResidencyLedger } from '../../telemetry/residency-ledger.ts'
import type { ChangeRecorder } from './change-recorder.ts'
import { ChangeQueue } from './change-queue.ts'
import { EnsembleUpkeep, type Unloading } from '../ensembles/ensemble-upkeep.ts'
import type { LoadOptions } from '../serving/load-options.ts'
import type { LoadOverride } from './load-override.ts'
import type { ModelSource } from './model-source.ts'
import { LoadProgress } from './load-progress.ts'
import type { LoadSettings } from '../serving/load-version.ts'
import { ModelDirectory, nameInFull } from './model-directory.ts'
import { GpuMeter, type AskFree } from '../serving/gpu-meter.ts'
import { GpuPlacement } from '../serving/gpu-placement.ts'
import { freeGpuBytes } from '../../telemetry/gpu-count.ts'
import { ModelResidency } from '../residency/model-residency.ts'
import type { ServedModel } from '../serving/served-model.ts'
import type { ServedVersion } from '../serving/served-version.ts'
import { ModelSleep, type SleepDependencies } from './model-sleep.ts'
import { planChange, planLoad, type LoadPlan } from './plan-change.ts'
import type { VersionRule } from './version-rule.ts'
import { VersionSwitch, type SwitchDependencies } from './version-switch.ts'

type LifecycleDependencies = Omit<SwitchDependencies, 'models' | 'isEnsemble' | 'patience' | 'changed'> & {
  readonly repository: ModelSource
  /** Counts models that are loaded on demand, for metrics. */
  readonly residencyLedger?: ResidencyLedger
  readonly recorder: ChangeRecorder
  /** Absent: the version policy of each model decides. */
  readonly versionRule?: () => VersionRule | null
  /** Absent: nvidia-smi is asked. */
  readonly freeGpuBytes?: AskFree
}

export type LifecycleSettings = LoadSettings & {
  /** `--model-namespacing` */
  readonly hasModelNamespacing?: boolean
  readonly modelLoadThreadCount: number
  readonly modelLoadRetryCount: number
  readonly modelLoadRetryDelayMs?: number
  /** `--model-memory-limit`; 0 or absent: none. */
  readonly modelMemoryLimitBytes?: number
  /** The same by GPU. */
  readonly gpuMemoryLimitBytes?: ReadonlyMap<number, number>
  /** `--model-lazy-load` */
  readonly isModelLoadLazy?: boolean
  /** `--model-idle-unload-secs`; 0 or absent: never. */
  readonly modelIdleUnloadSecs?: number
  /** `--allow-model-uploads`: load requests may bring the model's files. */
  readonly allowsModelUploads?: boolean
}

export class ModelLifecycle {
  readonly #dependencies: LifecycleDependencies
  readonly #settings: LifecycleSettings
  readonly #log: Log
  readonly #clock: Clock
  /** The loads that have begun and not ended. */
  readonly progress: LoadProgress
  readonly #directory: ModelDirectory
  readonly #models: ReadonlyMap<ModelKey, ServedModel>
  readonly #ensembles: EnsembleUpkeep
  readonly #residency: ModelResidency
  readonly #switch: VersionSwitch
  readonly #sleep: ModelSleep
  readonly #gate: Turnstile
  readonly #changes = new ChangeQueue()
  readonly #copies = new Set<ServedVersion>()
  /** Ends when requests in flight are not waited for any longer. */
  readonly #patience = new Patience()
  #revision = 0

  constructor(dependencies: LifecycleDependencies, settings: LifecycleSettings) {
    this.#dependencies = dependencies
    this.#settings = settings
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('model-lifecycle.ts')
    this.progress = new LoadProgress(this.#clock, this.#log)
    this.#gate = new Turnstile(Math.max(1, settings.modelLoadThreadCount))
    this.#directory = new ModelDirectory(settings.hasModelNamespacing ?? false)
    this.#models = this.#directory.byKey
    this.#ensembles = new EnsembleUpkeep({
      log: this.#log,
      models: this.#models,
      poll: (key) => dependencies.repository.pollOne(key),
      keysOf: (name) => this.keysOf(name),
      isLazy: (model) => this.#residency.isLazy(model),
      load: (model, options) => this.#loadPolled(model, options),
      wait: (key, until) => this.#changes.wait(key, until),
      unload: (key, origin) => this.#unloadOne(key, origin),
    })
    const { residencyLedger: ledger = new ResidencyLedger() } = dependencies
    const { gpuMemoryLimitBytes = new Map<number, number>() } = settings
    const askFree = dependencies.freeGpuBytes ?? freeGpuBytes
    this.#residency = new ModelResidency(
      {
        clock: this.#clock,
        log: this.#log,
        ledger,
        models: this.#models,
        isCalled: (key) => this.#ensembles.isCalled(key),
        putToSleep: (model, reason) => this.#sleep.putToSleep(model, reason),
        freeGpuBytes: askFree,
      },
      {
        memoryLimitBytes: settings.modelMemoryLimitBytes ?? 0,
        gpuLimitBytes: gpuMemoryLimitBytes,
        isLazy: settings.isModelLoadLazy ?? false,
        idleUnloadSecs: settings.modelIdleUnloadSecs ?? 0,
      },
    )
    const shared = {
      ...dependencies,
      models: this.#models,
      patience: this.#patience,
      changed: () => void this.#revision++,
      gpuPlacement: new GpuPlacement(askFree),
      gpuMeter: new GpuMeter(askFree, gpuMemoryLimitBytes.size > 0),
    }
    const isEnsemble = (key: ModelKey): boolean => this.#ensembles.isEnsemble(key)
    this.#switch = new VersionSwitch({ ...shared, isEnsemble }, settings)
    const load: SleepDependencies['load'] = (model, isWanted) => this.#ensembles.wake(model, isWanted)
    this.#sleep = new ModelSleep(
      { ...shared, directory: this.#directory, residency: this.#residency, changes: this.#changes, ledger, load },
      settings,
    )
  }

  /** Every model that was ever tried. */
  get directory(): ModelDirectory {
    return this.#directory
  }

  /** Grows whenever a model comes, goes or changes its readiness. */
  get revision(): number {
    return this.#revision
  }

  /** Loads models and what they call; lazy ones go to sleep. Never rejects: the result is the first failure, or null. */
  loadAll(polled: readonly PolledModel[]): Promise<ServerError | null> {
    return this.#ensembles.loadAll(polled, this.#settings.modelLoadThreadCount)
  }

  /** With namespaces, every model of that name. */
  async load(name: string, override: LoadOverride | null, origin?: ChangeOrigin): Promise<void> {
    if (override !== null) this.#dependencies.recorder.overridden(name, override, origin)
    if (override !== null && override.files.size > 0) {
      await this.#loadUploaded(name, override, origin)
      return
    }
    const config = override?.config ?? null
    const options = { isForced: override !== null, config, ...(origin === undefined ? {} : { origin }) }
    const loadOne = async (key: ModelKey): Promise<void> =>
      this.#ensembles.load(await this.#pollOne(key, config, options), options)
    const keys = await this.#keysOf(name)
    for (const result of await Promise.allSettled((keys.length > 0 ? keys : [name]).map(loadOne))) {
      if (result.status === 'rejected') throw result.reason
    }
  }

  /** Loads the model as the repository has it now; a lazy model that sleeps goes on sleeping. */
  async follow(key: ModelKey): Promise<void> {
    const options = { isForced: false, mayStayAsleep: true, origin: changeOrigin('poll') }
    await this.#ensembles.load(await this.#pollOne(key, null, options), options)
  }

  /** Loads and retires versions until those serve that the VersionRule selects; the configuration stays what it was. */
  async renew(name: string, origin?: ChangeOrigin): Promise<void> {
    for (const key of await this.#keysOf(name)) {
      const config = this.#models.get(key)?.from.override ?? null
      const options = { isForced: true, config, ...(origin === undefined ? {} : { origin }) }
      await this.#ensembles.load(await this.#pollOne(key, config, options), options)
    }
  }

  /** One more copy of a version, with instances of its own, which only the caller knows. It ends with `unloadCopy` or with the server. */
  async loadCopy(name: string, version: string): Promise<ServedVersion> {
    const [key = name] = await this.#keysOf(name)
    const config = this.#models.get(key)?.from.override ?? null
    const polled = await this.#pollOne(key, config, { isForced: true, config })
    if (polled.error !== null) throw polled.error
    const copy = await this.#switch.bringUpCopy(key, polled, version)
    this.#copies.add(copy)
    return copy
  }

  /** Resolves when the requests of the copy have ended and its memory is free. */
  async unloadCopy(copy: ServedVersion): Promise<void> {
    this.#copies.delete(copy)
    await copy.unload(this.#patience)
  }

  sleepIdle(leastIdleNs: number): Promise<readonly string[]> {
    return this.#residency.sleepIdle(leastIdleNs)
  }

  /** From now on the version has so many instances, on each GPU where it is on GPUs. A failure changes nothing. */
  scale(version: ServedVersion, count: number): Promise<void> {
    return this.#changes.run(version.key, async () => {
      if (version.state !== 'READY') return
      const factor = count / (activeGroups(version.config)[0]?.count ?? count)
      this.#residency.requireRoom(version, factor)
      await version.rescale(withInstanceCount(version.config, count))
      this.#residency.grown(version, factor)
      this.#revision++
    })
  }

  /** The models of that name, from the repositories and from load requests. */
  async keysOf(name: string): Promise<readonly ModelKey[]> {
    return [...new Set([...(await this.#keysOf(name)), ...this.#directory.listedOf(name)])]
  }

  /** The models of that name in the repositories. */
  #keysOf(name: string): Promise<readonly ModelKey[]> {
    return this.#dependencies.repository.keysOf?.(nameInFull(name)) ?? Promise.resolve([name])
  }

  async #pollOne(key: ModelKey, config: ModelConfig | null, options: LoadOptions): Promise<PolledModel> {
    const polled = await this.#dependencies.repository.pollOne(key, config)
    if (polled !== null) return this.#requireInside(polled, options)
    this.#log.error(`failed to poll model '${modelLabel(key)}': model not found in any model repository.`)
    this.#dependencies.recorder.failed(modelLabel(key), options, 'no repository has it')
    throw notFound(key)
  }

  /** What is refused here is not kept: clients may name any number of models that cannot be. */
  #requireInside(polled: PolledModel, options: LoadOptions): PolledModel {
    const { error } = polled
    const hasBadName = error !== null && modelNameProblem(polled.name) !== null
    if (!(error instanceof OutsidePathError) && !hasBadName) return polled
    this.#dependencies.recorder.failed(modelLabel(keyOfModel(polled)), options, error)
    throw hasBadName ? unreadable(keyOfModel(polled)) : error
  }

  /** With namespaces, every model of that name. */
  async unload(name: string, unloadDependents: boolean, origin?: ChangeOrigin): Promise<Unloading> {
    const keys = this.#directory.allOf(name)
    const unloadings = await Promise.all(keys.map((key) => this.#ensembles.unload(key, unloadDependents, origin)))
    return { gone: Promise.all(unloadings.map(({ gone }) => gone)).then(() => undefined) }
  }

  /** Nothing is kept of models of that name that no repository has any more, unless they change or serve. */
  forget(name: string): void {
    for (const key of this.#directory.allOf(name)) if (!this.#changes.has(key)) this.#directory.forget(key)
    this.#revision++
  }

  /** Resolves when no load or unload is under way. */
  async settled(): Promise<void> {
    this.#residency.close()
    await this.#changes.settled()
  }

  /** Unloads everything, ensembles before the models that they call; requests in flight may end until `giveUp`. */
  async unloadAll(giveUp: Promise<void>): Promise<void> {
    void giveUp.then(() => this.#patience.end())
    const models = [...this.#models.values()]
    await Promise.all(this.#copies.values().map((copy) => this.unloadCopy(copy)))
    // A request in an ensemble still needs the models that the ensemble calls.
    for (const keys of this.#ensembles.outermostFirst(models.map(({ key }) => key))) {
      await Promise.all(keys.map((key) => this.#takeDown(this.#models.get(key) as ServedModel, true)))
    }
    await this.#changes.quiet()
  }

  #unloadOne(key: ModelKey, origin?: ChangeOrigin): Promise<Unloading> {
    return this.#changes.run(key, () => {
      const model = this.#models.get(key)
      if (model === undefined) return Promise.resolve({ gone: Promise.resolve() })
      this.#log.info(`unloading '${model.label}'`)
      // An ensemble that waits for a part to come back keeps its name.
      if (!this.#ensembles.isHeldBack(key)) this.#directory.list(model, false)
      this.#dependencies.recorder.unloads(model, origin)
      return Promise.resolve({ gone: this.#takeDown(model) })
    })
  }

  /** From now on the model takes no requests; resolves when its requests have ended and its memory is free. */
  #takeDown(model: ServedModel, isExit = false): Promise<void> {
    const { sleeping } = model
    const { upload } = model.from
    // At exit the state stays: clients are told that the server exits, not that the model was unloaded.
    if (!isExit) model.leave()
    const why = isExit ? 'Server exiting' : `model '${model.label}' was unloaded`
    sleeping?.dismiss(why)
    this.#residency.unwatch(model)
    const unloads = [...model.versions.values(), ...model.retiring].map((version) => version.unload(this.#patience))
    if (!isExit) this.#revision++
    const free = async (): Promise<void> => {
      await Promise.all(unloads)
      await upload?.remove()
      if (isExit) return
      if (model.latest === null) model.memoryBytes = 0
      this.#revision++
    }
    return this.#changes.inBackground(free())
  }

  async #loadUploaded(name: string, { files, config }: LoadOverride, origin?: ChangeOrigin): Promise<void> {
    const key = modelKey(this.#directory.hasNamespaces ? '' : undefined, name)
    const options = { isForced: true, config, ...(origin === undefined ? {} : { origin }) }
    if (this.#settings.allowsModelUploads !== true) {
      const error = uploadsNotAllowed(name, files)
      this.#dependencies.recorder.failed(name, options, error)
      throw error
    }
    const upload = await writeUploadedModel(name, files).catch((reason: unknown) => {
      this.#log.error(`Poll failed for model directory '${name}': ${messageOf(reason)}`)
      this.#dependencies.recorder.failed(name, options, reason)
      throw unreadable(key)
    })
    try {
      const polled = await this.#dependencies.repository.pollDirectory(key, upload.root, config)
      await this.#ensembles.load(this.#requireInside(polled, options), { ...options, upload })
    } catch (reason) {
      // The model may serve from these files, and an ensemble that calls it may have failed.
      if (this.#models.get(key)?.from.upload !== upload) await upload.remove()
      throw reason
    }
  }

  /** False when the model served from the same files already. */
  #loadPolled(polled: PolledModel, options: LoadOptions): Promise<boolean> {
    const model = this.#directory.open(keyOfModel(polled))
    const work = (): Promise<boolean | null> => this.#loadWanted(model, polled, options)
    return this.#changes.run(model.key, () => this.#dependencies.recorder.load(model, polled, options, work))
  }

  /** False: there was nothing to do. Null: the model sleeps, and the first request loads it. */
  async #loadWanted(model: ServedModel, polled: PolledModel, options: LoadOptions): Promise<boolean | null> {
    if (options.isWanted?.() === false) return false
    const { isForced, mayStayAsleep = false } = options
    const { from, versions } = model
    const isEnsemble = this.#ensembles.isEnsemble(model.key)
    const current = { state: model.state.kind, fingerprint: from.fingerprint, versions: versions.values() }
    const selected = await this.#selectVersions(model, polled, options)
    const plan = planChange(current, polled, {
      isForced,
      mayStayAsleep,
      isLazy: polled.error === null && this.#residency.isLazy(polled),
      isEnsemble,
      selected,
      hasRoom: (found, chosen) => this.#residency.hasRoom(this.#residency.estimate(found, chosen)),
    })
    if (plan.kind === 'GO_ON_SERVING') return false
    if (plan.kind === 'GO_ON_SLEEPING') return null
    if (plan.kind === 'SLEEP' && (await this.#sleep.begin(model, plan))) return null
    const replan = (): LoadPlan<ServedVersion> => planLoad(versions.values(), polled, { isEnsemble, selected })
    const first = plan.kind === 'SLEEP' ? replan() : plan
    const work = (): Promise<void> => this.#loadWithRetries(model, options, first, replan)
    await this.progress.watch(model.label, work)
    return true
  }

  /** Files that a client has sent are served as they are: nobody has said how versions of them take over. */
  async #selectVersions(
    model: ServedModel,
    polled: PolledModel,
    { upload = null, origin }: LoadOptions,
  ): Promise<readonly string[] | null> {
    const rule = this.#dependencies.versionRule?.() ?? null
    if (rule === null || polled.error !== null || upload !== null) return null
    return rule.select(model.key, polled, origin?.by === 'rollout')
  }

  async #loadWithRetries(
    model: ServedModel,
    options: LoadOptions,
    first: LoadPlan<ServedVersion>,
    replan: () => LoadPlan<ServedVersion>,
  ): Promise<void> {
    for (let attempt = 0, plan = first; ; attempt++, plan = replan()) {
      try {
        await this.#carryOut(model, plan, options)
        return
      } catch (reason) {
        if (attempt >= this.#settings.modelLoadRetryCount) throw reason
        this.#log.warning('loading failed, trying again', { model: model.label, reason: messageOf(reason) })
        const delayNs = (this.#settings.modelLoadRetryDelayMs ?? 0) * 1e6
        if (delayNs > 0) await new Promise<void>((resolve) => this.#clock.after(delayNs, resolve))
      }
    }
  }

  async #carryOut(model: ServedModel, plan: LoadPlan<ServedVersion>, options: LoadOptions): Promise<void> {
    if (plan.kind === 'UNREADABLE') {
      this.#noteFailure(model, plan.reason, true)
      throw unreadable(model.key)
    }
    const { polled, chosen, load, retire } = plan
    model.failure = ''
    this.#directory.list(model, true)
    this.#ensembles.requireParts(polled, (failure) => this.#noteFailure(model, failure, true))
    if (chosen.length === 0) {
      const reason = `at least one version must be available under the version policy of model '${model.label}'`
      this.#noteFailure(model, reason)
      this.#log.error(`failed to load model '${model.label}': ${reason}`)
      throw new ServerError('INVALID_ARG', `load failed for model '${model.label}': ${reason}\n`)
    }
    const residency = this.#residency.settingsOf(polled)
    const needs = load.length === 0 ? new Map<number, number>() : this.#residency.estimate(polled, load)
    const release = await this.#residency.reserve(model.key, needs)
    try {
      const next = await this.#gate.pass(() => this.#switch.bringUp(model, plan))
      this.#residency.adopt(model, residency)
      const { config = null, upload = null, origin } = options
      // A model that was woken keeps the configuration that it had before it slept.
      const override = origin?.by === 'demand' ? model.from.override : upload === null ? config : null
      const oldUpload = model.from.upload
      // A load waits for idle versions to be freed. It does not wait for versions that still have requests.
      const isBusy = retire.some((version) => version.isInUse)
      const from = { fingerprint: polled.fingerprint, override, upload }
      const gone = this.#changes.inBackground(this.#switch.takeOver(model, next, from, retire))
      this.#log.info(`successfully loaded '${model.label}'`)
      await this.#residency.account(model, polled)
      this.#residency.watch(model)
      if (!isBusy) await gone
      await oldUpload?.remove()
      this.#revision++
    } finally {
      release()
    }
  }

  #noteFailure(model: ServedModel, reason: string, isUnread = false): void {
    model.failure = reason
    model.isUnread = isUnread
    this.#revision++
  }
}

export const notFound = (key: ModelKey): ServerError =>
  worded('pollFailed', { model: splitModelKey(key).name, reason: 'no model repository has it' })

/** The reason may name files of the server, so it is in the log and the audit log, and clients are not told. */
const unreadable = (key: ModelKey): ServerError =>
  new ServerError('INTERNAL', `failed to load '${splitModelKey(key).name}', failed to poll from model repository`)

function uploadsNotAllowed(name: string, files: LoadOverride['files']): ServerError {
  const [file = ''] = files.keys()
  const what = `load request for model '${name}' brings ${files.size} file(s), the first is '${file.slice(0, 200)}'`
  return ServerError.withoutStack(
    'UNSUPPORTED',
    `${what}: this server takes models from its repositories only. ` +
      'Use --allow-model-uploads to let clients upload models.',
  )
}
