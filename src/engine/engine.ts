// The one API that every front end calls, and the embedding process too. It knows models and versions; it knows no
// sockets, no wire names and no concrete backend.

import { assert } from '../base/assert.ts'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { nearestWord } from '../base/nearest-word.ts'
import { ServerError } from '../base/server-error.ts'
import type { LanguageFacts } from '../llm/language-facts.ts'
import type { ChangeOrigin } from '../model/change-origin.ts'
import type { Chooser, RequestFacts } from '../model/choice.ts'
import type { EngineState, HealthReport } from '../model/health.ts'
import { ErrorWording } from '../model/error-wording.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import { worded } from '../model/worded-error.ts'
import type { ModelKey } from '../model/model-key.ts'
import { modelMetadata, type ModelMetadata } from '../config/model-metadata.ts'
import type { ModelStatistics } from '../model/model-statistics.ts'
import type { ModelVersion } from '../model/model-version.ts'
import { RefusalCounts } from '../model/refusal-counts.ts'
import type { TraceControl } from '../model/trace-control.ts'
import { ContentIndex } from '../repository/content-index.ts'
import type { PolledModel } from '../repository/model-repository.ts'
import type { RegistryReader } from '../repository/registry-reader.ts'
import { AuditLog } from '../telemetry/audit-log.ts'
import { ModelLedger } from '../telemetry/model-ledger.ts'
import type { ModelResidence } from '../telemetry/residency-families.ts'
import type { ResidencyLedger } from '../telemetry/residency-ledger.ts'
import { Tracer, type TracerOptions } from '../telemetry/tracer.ts'
import { ChangeRecorder } from './lifecycle/change-recorder.ts'
import type { LoadOverride } from './lifecycle/load-override.ts'
import type { ModelSource } from './lifecycle/model-source.ts'
import type { VersionRule } from './lifecycle/version-rule.ts'
import type { IndexEntry } from './serving/index-entry.ts'
import type { LoadDependencies } from './serving/load-version.ts'
import type { Unloading } from './ensembles/ensemble-upkeep.ts'
import { ExpectedRequests } from './serving/expected-requests.ts'
import { healthReport, notReadyReasons, startingText } from './health-report.ts'
import type { LiveCheck, WatchedInstance } from './live-check.ts'
import { ModelLifecycle, notFound, type LifecycleSettings } from './lifecycle/model-lifecycle.ts'
import { ModelRegistry } from './model-registry.ts'
import { repositoryIndex } from './repository-index.ts'
import { RequestCheck } from './serving/request-check.ts'
import { serverExtensions } from './server-extensions.ts'
import type { ServedVersion } from './serving/served-version.ts'
import type { ServedModel } from './serving/served-model.ts'
import type { AskFree } from './serving/gpu-meter.ts'
import { canonicalVersion } from './serving/version-text.ts'
import { chooseForModel } from './serving/choose-for-model.ts'

type EngineDependencies = LoadDependencies & {
  /** Free memory of a GPU; absent: nvidia-smi is asked. */
  readonly freeGpuBytes?: AskFree
  readonly repository: ModelSource
  /** Absent: no request is traced. */
  readonly tracer?: Tracer
  /** Counts the versions that serve, for metrics. */
  readonly ledger?: ModelLedger
  /** Called once, after the last model is gone. */
  closeBackends(): Promise<void>
  /** `--live-check=compute`; absent: a Worker that hangs does not make the server dead. */
  readonly liveCheck?: LiveCheck
  /** A version has its instances, and will serve now. */
  readonly onServed?: (version: ServedVersion) => void
  /** Counts models that are loaded on demand, for metrics. */
  readonly residencyLedger?: ResidencyLedger
  /** Records changes of models; absent: the record is kept in memory. */
  readonly audit?: AuditLog
  /** Remembers the content hashes of files. */
  readonly contents?: ContentIndex
  /** Reads the registry files beside configurations; absent: there are none. */
  readonly registryReader?: RegistryReader
}

export type EngineOptions = LifecycleSettings & {
  readonly id: string
  readonly reportedVersion: string
  readonly isStrictReadiness: boolean
  readonly isModelControlExplicit: boolean
  /** Models to load at start when model control is explicit; `*` alone means all. */
  readonly loadModels: readonly string[]
  /** `--triton-defaults`: errors have Triton's codes and texts. */
  readonly wordsErrorsLikeTriton?: boolean
}

export class Engine {
  readonly #dependencies: EngineDependencies
  readonly #options: EngineOptions
  readonly #log: Log
  readonly #clock: Clock
  readonly #tracer: Tracer
  readonly #lifecycle: ModelLifecycle
  readonly #models: ReadonlyMap<ModelKey, ServedModel>
  readonly #byName: ReadonlyMap<string, ServedModel>
  /** The last inference that came was turned away from a full queue, or from one that refuses: the next one will be, too. */
  isTurningAway = false
  #state: EngineState = 'STARTING'
  #startError: ServerError | null = null
  /** The models are loaded, and parts of the server that stand before them are not ready yet. */
  #isHeld = false
  #versionRule: VersionRule | null = null
  readonly #expected = new ExpectedRequests()
  /** Requests that no model took. Front ends count those that they refuse themselves. */
  readonly refusals = new RefusalCounts()
  /** How errors are told to clients of every protocol. */
  readonly wording: ErrorWording
  readonly #check: RequestCheck
  /** What is known of models beside their configuration, and who changed them. */
  readonly registry: ModelRegistry

  constructor(dependencies: EngineDependencies, options: EngineOptions) {
    this.#dependencies = dependencies
    this.#options = options
    this.wording = new ErrorWording(options.wordsErrorsLikeTriton ?? false)
    this.#check = new RequestCheck(this.refusals, this.#expected, this.wording)
    this.#clock = dependencies.clock
    this.#tracer = dependencies.tracer ?? new Tracer(dependencies.log, noTracing)
    this.#log = dependencies.log.from('engine.ts')
    const {
      log,
      clock,
      audit = new AuditLog(clock),
      contents = new ContentIndex(),
      registryReader = null,
    } = dependencies
    this.#lifecycle = new ModelLifecycle(
      {
        ...dependencies,
        recorder: new ChangeRecorder({ clock, log: log.from('change-recorder.ts'), audit, contents, registryReader }),
        inferWoken: (request, model, version) => this.#inferWoken(request, model, version),
        expected: this.#expected,
        check: this.#check,
        ledger: dependencies.ledger ?? new ModelLedger(),
        infer: (request) => this.inferByName(request, true),
        versionRule: () => this.#versionRule,
      },
      options,
    )
    this.#models = this.#lifecycle.directory.byKey
    this.#byName = this.#lifecycle.directory.byName
    this.registry = new ModelRegistry({
      models: this.#models,
      reader: registryReader,
      contents,
      audit,
      keys: () => dependencies.repository.names(),
      keysOf: (name) => this.#lifecycle.keysOf(name),
      index: (isReadyOnly) => this.repositoryIndex(isReadyOnly),
    })
  }

  /** Grows whenever a model comes, goes or changes its readiness: the key of whatever is cached about models. */
  get revision(): number {
    return this.#lifecycle.revision
  }

  get isLive(): boolean {
    const isRunning = this.#state === 'STARTING' || this.#state === 'READY'
    return isRunning && (this.#dependencies.liveCheck?.hung.length ?? 0) === 0
  }

  get isReady(): boolean {
    if (this.#shownState !== 'READY') return false
    if (!this.#options.isStrictReadiness) return true
    const isLikeTriton = this.#options.wordsErrorsLikeTriton ?? false
    for (const model of this.#models.values()) {
      const isNoModel = isLikeTriton && model.isUnread && model.versions.size === 0
      if (!model.isReady && !isNoModel) return false
    }
    return true
  }

  /** Whether models load for the first time. */
  get isStarting(): boolean {
    return this.#shownState === 'STARTING'
  }

  get #shownState(): EngineState {
    return this.#isHeld && this.#state === 'READY' ? 'STARTING' : this.#state
  }

  /** From now on the server is not ready; it is again, if it was, once the result is called. */
  holdReadiness(): () => void {
    this.#isHeld = true
    return () => void (this.#isHeld = false)
  }

  /** The error of whoever comes while the server starts. */
  startingError(isVisible?: (model: string) => boolean): ServerError {
    const text = `Server not ready: ${startingText(this.#lifecycle.progress.underWay(), isVisible)}. Ask again in a second`
    return ServerError.withoutStack('UNAVAILABLE', text, 1)
  }

  /** What is not ready, and why. */
  health(isVisible?: (model: string) => boolean): HealthReport {
    const { isLive, isReady } = this
    const { liveCheck = null } = this.#dependencies
    const isStrict = this.#options.isStrictReadiness
    const loading = this.#lifecycle.progress.underWay()
    const models = this.#models.values()
    return healthReport({ state: this.#shownState, isLive, isReady, isStrict, models, liveCheck, loading, isVisible })
  }

  /** Every reason there may be, and whether it holds. */
  notReadyReasons(): ReturnType<typeof notReadyReasons> {
    return notReadyReasons(this.#shownState, this.isReady)
  }

  /** The Instances of all models that serve. */
  *instances(): IterableIterator<WatchedInstance> {
    for (const { name: model, versions } of this.#models.values()) {
      for (const { version, instances } of versions.values()) {
        for (const instance of instances) yield { model, version, instance }
      }
    }
  }

  /** The repository agents that models which serve have asked for. */
  get usedAgents(): string[] {
    const configs = [...this.#models.values()].map(({ latest }) => latest?.config ?? null)
    const agents = configs.flatMap((config) => config?.modelRepositoryAgents?.agents ?? [])
    return [...new Set(agents.map(({ name }) => name))]
  }

  serverMetadata(): { name: string; version: string; extensions: readonly string[] } {
    const { id: name, reportedVersion: version, gpuCount, wordsErrorsLikeTriton } = this.#options
    return { name, version, extensions: serverExtensions(gpuCount > 0 || wordsErrorsLikeTriton === true) }
  }

  /** Loads the models that the control mode names. A model that fails does not make this throw: `index` tells why. */
  async start(): Promise<void> {
    assert(this.#state === 'STARTING', 'an engine starts once')
    const wanted = this.#options.loadModels
    const loadsAll = !this.#options.isModelControlExplicit || (wanted.length === 1 && wanted[0] === '*')
    const models = loadsAll ? await this.#dependencies.repository.poll() : await this.#pollNamed(wanted)
    const failure = await this.#lifecycle.loadAll(models)
    if (!loadsAll) this.#startError ??= failure
    if (this.#state === 'STARTING') this.#state = 'READY'
  }

  /** The first error of a model that was named to be loaded at start; null: there was none. */
  get startError(): ServerError | null {
    return this.#startError
  }

  get hasFailures(): boolean {
    return this.#startError !== null || this.failures.length > 0
  }

  /** Models that could not be loaded. A model that sleeps was not tried. */
  get failures(): readonly IndexEntry[] {
    const awake = [...this.#models.values()].filter((model) => model.sleeping === null)
    return awake.flatMap((model) => model.index()).filter((entry) => entry.state !== 'READY')
  }

  index(): IndexEntry[] {
    return [...this.#models.values()].flatMap((model) => model.index())
  }

  /** As `index`, without the models that Triton does not know: those that could not be read. */
  knownIndex(): IndexEntry[] {
    const known = [...this.#models.values()].filter((model) => !model.isUnread || model.versions.size > 0)
    return known.flatMap((model) => model.index())
  }

  /** Which models are in memory, for metrics. */
  residences(): Iterable<ModelResidence> {
    return this.#models.values().map((model) => model.residence())
  }

  /** Every version that serves, or would with the first request. */
  models(): Iterable<ModelVersion> {
    return this.#models.values().flatMap(({ sleeping, ready }): Iterable<ModelVersion> => {
      return sleeping === null ? ready.filter(({ state }) => state === 'READY') : sleeping.versions.values()
    })
  }

  /**
   * The version that serves a request: today's rule is `findVersion`, and a Chooser of the model may choose otherwise.
   * The Engine passes `facts` on and reads nothing of them. Throws what `findVersion` and the Chooser throw. HOT.
   */
  choose(name: string, version: string, facts: RequestFacts): ModelVersion {
    const model = this.#modelOf(name, version)
    if (model.chooser === null) return model.find(version)
    const chosen = model.chooser(facts, version, model)
    assert(
      chosen.key === model.key || facts.watch !== null,
      `the chooser of model '${model.label}' chose a version of it, or follows the request`,
    )
    return chosen
  }

  /** From now on `chooser` chooses the versions of the model, also after the model was loaded anew; null: nobody does. */
  setChooser(name: string, chooser: Chooser | null): void {
    this.#lifecycle.directory.setChooser(name, chooser)
  }

  /** A version by its number; '' is the highest one that serves. Throws with Triton's texts. No Chooser is asked. HOT. */
  findVersion(name: string, version: string): ModelVersion {
    return this.#modelOf(name, version).find(version)
  }

  /** As in Triton a text that is no version is told before a model that is not there. */
  #modelOf(name: string, version: string): ServedModel {
    const model = this.#byName.get(name)
    if (model !== undefined) return model
    if (version !== '') canonicalVersion(version)
    throw this.#lifecycle.directory.unknown(name)
  }

  /** The facts of a language model, by the rule of `findVersion`; null: the model is none, or sleeps. Throws as `findVersion`. */
  languageFacts(name: string, version: string): LanguageFacts | null {
    return this.findVersion(name, version).languageFacts ?? null
  }

  isModelReady(name: string, version: string): boolean {
    const model = this.#byName.get(name)
    if (model !== undefined) return model.isVersionReady(version)
    if (version !== '') canonicalVersion(version)
    return false
  }

  modelMetadata(name: string, version: string): ModelMetadata {
    const model = this.#modelOf(name, version)
    const found = model.find(version)
    const offered = version === '' ? model.offered : [found]
    return modelMetadata(
      found.config,
      offered.map((one) => one.version),
    )
  }

  /**
   * What versions that serve have done since they were loaded: all of them for the name '', a model's for the version ''.
   * Throws INVALID_ARG with Triton's texts.
   */
  statistics(name: string, version: string): ModelStatistics[] {
    const wanted = version === '' ? '' : canonicalVersion(version)
    if (name === '') {
      const models = [...this.#models.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
      return models.flatMap((model) => model.ready.map((served) => served.statistics()))
    }
    const offered = this.#byName.get(name)?.offered ?? []
    if (offered.length === 0) throw notAvailable(`requested model '${name}' is not available`)
    const chosen = offered.filter((one) => wanted === '' || one.version === wanted)
    if (chosen.length === 0) throw notAvailable(`requested model version is not available for model '${name}'`)
    return chosen.map((one) => one.statistics())
  }

  /** While true, front ends stamp the arrival of requests (`arrivalStamps`), so that they can be picked for tracing. HOT. */
  get isTracing(): boolean {
    return this.#tracer.isOn
  }

  get traceControl(): TraceControl {
    return this.#tracer
  }

  /** Throws for a model that does not serve; '' stands for all models. */
  requireTraceable(modelName: string): void {
    if (modelName === '' || this.isModelReady(modelName, '')) return
    throw ServerError.withoutStack('INVALID_ARG', `Request for unknown model : ${modelName}`)
  }

  /**
   * Like `infer`, for models that call other models. A Chooser sees the call of the client that the request is made for. Copies
   * that nobody waits for go to the usual versions.
   */
  inferByName(request: InferenceRequest, isExpected = false): void {
    let version: ModelVersion
    try {
      const model = this.#modelOf(request.modelName, request.modelVersion)
      if (model.chooser === null || request.isShadow) version = model.find(request.modelVersion)
      else version = chooseForModel(model, model.chooser, request)
    } catch (reason) {
      this.#check.refuse(request, reason)
      return
    }
    this.infer(request, version, isExpected)
  }

  /**
   * A front end has a request in hand that it cannot pass on yet, because its body is still being read elsewhere. An exit
   * that begins now waits for it, and `infer` takes it as expected. Call the result once it was passed on or given up.
   */
  expectRequest(): () => void {
    return this.#expected.expect()
  }

  /** Answers through the request's sink, always; never throws. HOT. */
  infer(request: InferenceRequest, version: ModelVersion, isExpected = false): void {
    if (request.receivedNs === 0) request.receivedNs = this.#clock.nowNs()
    if (request.arrivalStamps !== null) this.#beginTrace(request)
    try {
      if (this.#state !== 'READY' && !isExpected) throw ServerError.withoutStack('UNAVAILABLE', this.#notReadyText())
      if (version.state !== 'READY' || hasSequence(request)) version = this.#servingVersion(request, version)
    } catch (reason) {
      this.#check.refuse(request, reason)
      return
    }
    version.admit(request)
  }

  /** Once per request: a request that waited for its model comes through `infer` twice. */
  #beginTrace(request: InferenceRequest): void {
    request.trace = this.#tracer.begin(request)
    request.arrivalStamps = null
  }

  /**
   * The version that the request goes to. A sequence stays with the version that it began on, even when that one was
   * replaced. When `version` has stopped serving since the request was read, another version serves in its place.
   */
  #servingVersion(request: InferenceRequest, version: ModelVersion): ModelVersion {
    const { modelName, modelVersion, correlationId } = request
    const model = this.#models.get(version.key)
    if (hasSequence(request) && !request.isSequenceStart) {
      const holder = model?.otherWithSequence(correlationId, version, modelVersion) ?? null
      if (holder !== null) return holder
    }
    if (version.state === 'READY') return version
    if (model === undefined) return this.findVersion(modelName, modelVersion)
    // What a Chooser chose stays chosen, whatever the client wrote.
    const isChosen = model.chooser !== null || request.watch !== null
    return model.find(isChosen ? version.version : modelVersion)
  }

  /** The model may have been loaded from other files than those that were known when the request came. */
  #inferWoken(request: InferenceRequest, model: ServedModel, version: string): void {
    const found = model.ready.find((served) => served.version === version) ?? model.latest
    if (found === null) this.inferByName(request, true)
    else this.infer(request, found, true)
  }

  /** Throws unless the operator lets clients load and unload models. */
  requireExplicitControl(): void {
    if (this.#options.isModelControlExplicit) return
    throw worded('modelControl', {})
  }

  /**
   * Reads the model from its repository and serves it; returns when it is READY. A model that serves and whose files
   * have not changed stays as it is. A failure changes nothing that serves. The result names the rollout that
   * brings a new version in; '' where the new versions serve at once.
   */
  async load(name: string, override: LoadOverride | null = null, origin?: ChangeOrigin): Promise<string> {
    if (this.#state !== 'READY') throw new ServerError('UNAVAILABLE', this.#notReadyText())
    await this.#lifecycle.load(name, override, origin)
    return (await this.#versionRule?.afterLoad(name, true)) ?? ''
  }

  /** Like `load`, for a model whose files have changed in the repository: a lazy model that sleeps goes on sleeping. */
  async follow(name: string): Promise<void> {
    if (this.#state !== 'READY') throw new ServerError('UNAVAILABLE', this.#notReadyText())
    await this.#lifecycle.follow(name)
    await this.#versionRule?.afterLoad(name, false)
  }

  /** To be set before `start`. */
  setVersionRule(rule: VersionRule | null): void {
    this.#versionRule = rule
  }

  /** From now on requests without a version get this version of the model; '': the highest one that serves. */
  setStandardVersion(name: string, version: string): void {
    this.#lifecycle.directory.setStandard(name, version)
  }

  /** Reads the model again and brings the versions in memory in line with the VersionRule. */
  renew(name: string, origin?: ChangeOrigin): Promise<void> {
    return this.#lifecycle.renew(name, origin)
  }

  /** One more copy of a version, with instances of its own, which only the caller knows. It ends with `unloadCopy` or with the server. */
  loadCopy(name: string, version: string): Promise<ServedVersion> {
    return this.#lifecycle.loadCopy(name, version)
  }

  /** Resolves when the requests of the copy have ended and its memory is free. */
  unloadCopy(copy: ServedVersion): Promise<void> {
    return this.#lifecycle.unloadCopy(copy)
  }

  /** Models that nobody asked for so long leave the memory until the next request; their names. */
  sleepIdle(leastIdleNs: number): Promise<readonly string[]> {
    return this.#lifecycle.sleepIdle(leastIdleNs)
  }

  /** From now on the version has so many instances, on each GPU where it is on GPUs. A failure changes nothing. */
  scale(version: ServedVersion, count: number): Promise<void> {
    return this.#lifecycle.scale(version, count)
  }

  /** A model that was ever tried; undefined: there is none of that name. */
  servedModel(name: string): ServedModel | undefined {
    return this.#byName.get(name)
  }

  /**
   * Stops serving the model at once; `gone` resolves when its requests have ended and its memory is free. Ensembles that
   * call the model are unloaded with it. `unloadDependents` also unloads the models that it calls, unless a client asked
   * for them or another ensemble calls them.
   */
  unload(name: string, unloadDependents = false, origin?: ChangeOrigin): Promise<Unloading> {
    return this.#lifecycle.unload(name, unloadDependents, origin)
  }

  /** A front end has taken the folder of an unloaded model away: that it failed does not make the server unready for good. */
  forget(name: string): void {
    this.#lifecycle.forget(name)
  }

  /** What is in the repositories and how it serves. */
  repositoryIndex(isReadyOnly: boolean): Promise<IndexEntry[]> {
    const tellsFailedPolls = !(this.#options.wordsErrorsLikeTriton ?? false)
    return repositoryIndex(this.#dependencies.repository, this.#models, { isReadyOnly, tellsFailedPolls })
  }

  /** From now on nothing new is admitted and readiness is false; front ends go on answering what is in flight. */
  beginExit(): void {
    if (this.#state === 'STARTING' || this.#state === 'READY') this.#state = 'EXITING'
  }

  /** Lets requests in flight end for at most `budgetMs`, then frees everything. True when none had to be given up. */
  async close(budgetMs = 30_000): Promise<boolean> {
    this.beginExit()
    if (this.#state === 'CLOSED') return true
    this.#state = 'CLOSED'
    let isInTime = true
    let cancel = (): void => undefined
    const giveUp = new Promise<void>((resolve) => {
      cancel = this.#clock.after(budgetMs * 1e6, () => {
        isInTime = false
        resolve()
      })
    })
    await Promise.race([this.#lifecycle.settled().then(() => this.#expected.none()), giveUp])
    this.#log.info('All models are stopped, unloading models')
    await this.#lifecycle.unloadAll(giveUp)
    cancel()
    await this.#dependencies.closeBackends()
    return isInTime
  }

  #notReadyText(): string {
    return this.#state === 'STARTING' ? 'Server not ready' : 'Server exiting'
  }

  async #pollNamed(names: readonly string[]): Promise<PolledModel[]> {
    const found: PolledModel[] = []
    const { repository } = this.#dependencies
    // Without a name to load, too, a repository that is not there ends the start, as it does in the other modes.
    await repository.names()
    for (const name of names) {
      let isFound = false
      for (const key of (await repository.keysOf?.(name)) ?? [name]) {
        const polled = await repository.pollOne(key)
        if (polled === null) continue
        found.push(polled)
        isFound = true
      }
      if (isFound) continue
      const near = this.wording.isTriton ? null : nearestWord(name, await repository.names())
      const hint = near === null ? '' : ` Did you mean '${near}'?`
      this.#log.error(`failed to poll model '${name}': model not found in any model repository.${hint}`)
      this.#startError ??= notFound(name)
    }
    return found
  }
}

const noTracing: TracerOptions = { file: '', levels: [], rate: 1000, count: -1, logFrequency: 0 }

const hasSequence = ({ correlationId }: InferenceRequest): boolean => correlationId !== 0n && correlationId !== ''

const notAvailable = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)
