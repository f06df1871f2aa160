// The one API that every front end calls, and the embedding process too. It knows models and versions; it knows no
// sockets, no wire names and no concrete backend.

import { assert } from '../base/assert.ts'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { errorCodeText, messageOf, ServerError } from '../base/server-error.ts'
import type { Backend } from '../model/backend.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { ModelConfig } from '../model/model-config.ts'
import { modelMetadata, type ModelMetadata } from '../model/model-metadata.ts'
import type { ModelStatistics } from '../model/model-statistics.ts'
import type { ModelVersion, ModelVersionState } from '../model/model-version.ts'
import { reshapeInputs } from '../model/reshape.ts'
import type { TraceControl } from '../model/trace-control.ts'
import { isLongToValidate, validateInSteps, validateRequest } from '../model/validate-request.ts'
import type { PolledModel } from '../repository/local-repository.ts'
import { writeUploadedModel, type UploadedFiles } from '../repository/uploaded-models.ts'
import { selectVersions } from '../repository/version-policy.ts'
import { ModelLedger } from '../telemetry/model-ledger.ts'
import { Tracer, type TracerOptions } from '../telemetry/tracer.ts'
import { loadEnsemble } from './ensemble-loading.ts'
import { EnsembleUpkeep, type Unloading } from './ensemble-upkeep.ts'
import { ExpectedRequests } from './expected-requests.ts'
import { loadVersion, type LoadSettings } from './load-version.ts'
import type { RateLimiter } from '../scheduling/rate-limiter.ts'
import type { ResponseCache } from './response-cache.ts'
import { serverExtensions } from './server-extensions.ts'
import { ServedModel } from './served-model.ts'
import { canonicalVersion } from './version-text.ts'
import { ServedVersion } from './served-version.ts'

/** What the Engine needs of a repository: what is there now. */
export interface ModelSource {
  poll(): Promise<PolledModel[]>
  /** Null when no repository has it. `override` stands in for its configuration file. */
  pollOne(name: string, override?: ModelConfig | null): Promise<PolledModel | null>
  /** A model in a folder outside the repositories: `<root>/<name>`. */
  pollDirectory(name: string, root: string, override: ModelConfig | null): Promise<PolledModel>
  /** Every model's name, sorted, whatever state it is in. */
  names(): Promise<string[]>
}

/** What a load request may bring along. */
export type LoadOverride = {
  readonly config: ModelConfig
  /** Files that stand in for the repository's; none of those is then looked at. */
  readonly files: UploadedFiles
}

export type EngineDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly repository: ModelSource
  /** Null or absent: no answers are kept. */
  readonly responseCache?: ResponseCache | null
  /** Null or absent: instances run whenever they can. */
  readonly rateLimiter?: RateLimiter | null
  /** Without one nothing is ever traced. */
  readonly tracer?: Tracer
  /** Where the versions that serve are counted for metrics. */
  readonly ledger?: ModelLedger
  findBackend(name: string): Promise<Backend | null>
  /** Called once, after the last model is gone. */
  closeBackends(): Promise<void>
}

export type EngineOptions = LoadSettings & {
  readonly id: string
  readonly reportedVersion: string
  readonly isStrictReadiness: boolean
  readonly isModelControlExplicit: boolean
  /** Models to load at start when model control is explicit; `*` alone means all. */
  readonly loadModels: readonly string[]
  readonly modelLoadThreadCount: number
  readonly modelLoadRetryCount: number
}

export type IndexEntry = {
  readonly name: string
  /** '' for a model of which no version was ever tried. */
  readonly version: string
  readonly state: ModelVersionState | ''
  readonly reason: string
}

/** STARTING → READY → EXITING → CLOSED; a server that fails to start goes to EXITING too. */
type EngineState = 'STARTING' | 'READY' | 'EXITING' | 'CLOSED'

export class Engine {
  readonly #dependencies: EngineDependencies
  readonly #options: EngineOptions
  readonly #log: Log
  readonly #clock: Clock
  readonly #tracer: Tracer
  readonly #ledger: ModelLedger
  readonly #models = new Map<string, ServedModel>()
  readonly #ensembles: EnsembleUpkeep
  /** Loads and unloads of one model follow each other; those of different models do not wait for each other. */
  readonly #changes = new Map<string, Promise<unknown>>()
  #state: EngineState = 'STARTING'
  #startError: ServerError | null = null
  #revision = 0
  readonly #expected = new ExpectedRequests()

  constructor(dependencies: EngineDependencies, options: EngineOptions) {
    this.#dependencies = dependencies
    this.#options = options
    this.#clock = dependencies.clock
    this.#ledger = dependencies.ledger ?? new ModelLedger()
    this.#tracer = dependencies.tracer ?? new Tracer(dependencies.log, noTracing)
    this.#log = dependencies.log.from('engine.ts')
    this.#ensembles = new EnsembleUpkeep({
      log: this.#log,
      models: this.#models,
      poll: (name) => dependencies.repository.pollOne(name),
      load: (model, { isForced }) => this.#loadPolled(model, { isForced }),
      unload: (name) => this.#unloadOne(name),
    })
  }

  /** Grows whenever a model comes, goes or changes its readiness: the key of whatever is cached about models. */
  get revision(): number {
    return this.#revision
  }

  get isLive(): boolean {
    return this.#state === 'STARTING' || this.#state === 'READY'
  }

  get isReady(): boolean {
    if (this.#state !== 'READY') return false
    if (!this.#options.isStrictReadiness) return true
    for (const model of this.#models.values()) if (!model.isReady) return false
    return true
  }

  serverMetadata(): { name: string; version: string; extensions: readonly string[] } {
    return { name: this.#options.id, version: this.#options.reportedVersion, extensions: serverExtensions }
  }

  /** Loads what the control mode says. Never throws for a model's sake: `index` tells what became of each. */
  async start(): Promise<void> {
    assert(this.#state === 'STARTING', 'an engine starts once')
    const wanted = this.#options.loadModels
    const loadsAll = !this.#options.isModelControlExplicit || (wanted.length === 1 && wanted[0] === '*')
    const models = loadsAll ? await this.#dependencies.repository.poll() : await this.#pollNamed(wanted)
    const failure = await this.#ensembles.loadAll(models, this.#options.modelLoadThreadCount)
    if (!loadsAll) this.#startError ??= failure
    if (this.#state === 'STARTING') this.#state = 'READY'
  }

  /** The first thing that went wrong with a model that was to be loaded at start by its name; null without one. */
  get startError(): ServerError | null {
    return this.#startError
  }

  get hasFailures(): boolean {
    return this.#startError !== null || this.failures.length > 0
  }

  /** Models that were tried and do not serve. */
  get failures(): readonly IndexEntry[] {
    return this.index().filter((entry) => entry.state !== 'READY')
  }

  index(): IndexEntry[] {
    return [...this.#models.values()].flatMap((model) => model.index())
  }

  /** Every version that serves. */
  *models(): IterableIterator<ModelVersion> {
    for (const model of this.#models.values()) {
      for (const version of model.versions.values()) if (version.state === 'READY') yield version
    }
  }

  /** The version a request asks for; '' is the highest one that serves. Throws with Triton's texts. HOT. */
  findVersion(name: string, version: string): ModelVersion {
    const model = this.#models.get(name)
    if (model === undefined || model.versions.size === 0) throw unknownModel('NOT_FOUND', `'${name}' is not found`)
    if (version === '') {
      if (model.latest !== null) return model.latest
      throw unknownModel('NOT_FOUND', `'${name}' has no available versions`)
    }
    const found = model.versions.get(version) ?? model.versions.get(canonicalVersion(version))
    if (found === undefined) {
      throw unknownModel('NOT_FOUND', `'${name}' version ${canonicalVersion(version)} is not found`)
    }
    if (found.state !== 'READY') {
      throw unknownModel('UNAVAILABLE', `'${name}' version ${found.version} is not at ready state`)
    }
    return found
  }

  isModelReady(name: string, version: string): boolean {
    const model = this.#models.get(name)
    if (model === undefined) return false
    return (version === '' ? model.latest : model.versions.get(canonicalVersion(version)))?.isReady ?? false
  }

  modelMetadata(name: string, version: string): ModelMetadata {
    const found = this.findVersion(name, version)
    const versions = version === '' ? (this.#models.get(name)?.readyVersions ?? []) : [found.version]
    return modelMetadata(found.config, versions)
  }

  /**
   * What versions that serve have done since they were loaded: all of them for the name '', a model's for the version ''.
   * Throws INVALID_ARG with Triton's texts.
   */
  statistics(name: string, version: string): ModelStatistics[] {
    if (name === '') {
      const models = [...this.#models.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
      return models.flatMap((model) => model.ready.map((served) => served.statistics()))
    }
    const wanted = version === '' ? '' : canonicalVersion(version)
    const ready = this.#models.get(name)?.ready ?? []
    if (ready.length === 0) throw notAvailable(`requested model '${name}' is not available`)
    const chosen = wanted === '' ? ready : ready.filter((served) => served.version === wanted)
    if (chosen.length === 0) throw notAvailable(`requested model version is not available for model '${name}'`)
    return chosen.map((served) => served.statistics())
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

  /** Like `infer`, for callers that know the model by name alone. */
  inferByName(request: InferenceRequest, isExpected = false): void {
    let version: ModelVersion
    try {
      version = this.findVersion(request.modelName, request.modelVersion)
    } catch (reason) {
      request.fail(ServerError.from(reason))
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
    if (request.arrivalStamps !== null) request.trace = this.#tracer.begin(request)
    try {
      if (this.#state !== 'READY' && !isExpected) throw ServerError.withoutStack('UNAVAILABLE', this.#notReadyText())
      if (isLongToValidate(request)) {
        this.#inferInSteps(request, version, validateInSteps(request, version.signature), this.expectRequest())
        return
      }
      validateRequest(request, version.signature)
      reshapeInputs(request, version.signature)
    } catch (reason) {
      request.fail(ServerError.from(reason))
      return
    }
    assert(version instanceof ServedVersion, 'a version comes from findVersion')
    version.admit(request)
  }

  /** Like `infer`, for inputs that would hold the loop up: others are served between the steps of their validation. */
  #inferInSteps(
    request: InferenceRequest,
    version: ModelVersion,
    steps: Iterator<void, void>,
    passedOn: () => void,
  ): void {
    try {
      if (request.isCancelled) request.failCancelled()
      else if (steps.next().done !== true) {
        setImmediate(() => this.#inferInSteps(request, version, steps, passedOn))
        return
      } else {
        reshapeInputs(request, version.signature)
        assert(version instanceof ServedVersion, 'a version comes from findVersion')
        version.admit(request)
      }
    } catch (reason) {
      request.fail(ServerError.from(reason))
    }
    passedOn()
  }

  /** Clients may load and unload only where the operator said so. */
  requireExplicitControl(): void {
    if (this.#options.isModelControlExplicit) return
    throw ServerError.withoutStack('UNAVAILABLE', 'explicit model load / unload is not allowed if polling is enabled')
  }

  /**
   * Reads the model from its repository and serves it; returns when it is READY. A model that serves and whose files
   * have not changed stays as it is. A failure changes nothing that serves.
   */
  async load(name: string, override: LoadOverride | null = null): Promise<void> {
    if (this.#state !== 'READY') throw new ServerError('UNAVAILABLE', this.#notReadyText())
    if (override !== null && override.files.size > 0) {
      await this.#loadUploaded(name, override)
      return
    }
    const polled = await this.#dependencies.repository.pollOne(name, override?.config ?? null)
    if (polled === null) throw pollFailed(name)
    await this.#ensembles.load(polled, { isForced: override !== null })
  }

  /**
   * Stops serving the model at once; `gone` resolves when what was in flight has ended and its memory is free. Ensembles
   * that call it go with it. `unloadDependents` takes along the models it calls that nobody asked for and nobody else calls.
   */
  unload(name: string, unloadDependents = false): Promise<Unloading> {
    return this.#ensembles.unload(name, unloadDependents)
  }

  async #unloadOne(name: string): Promise<Unloading> {
    const begun = Promise.withResolvers<void>()
    const gone = this.#change(name, async () => {
      const model = this.#models.get(name)
      if (model === undefined) return begun.resolve()
      this.#log.info(`unloading '${name}'`)
      const never = new Promise<void>(() => undefined)
      const unloads = Promise.all([...model.versions.values()].map((version) => version.unload(never)))
      this.#touch(model)
      begun.resolve()
      await unloads
      await model.dropUpload()
      this.#touch(model)
    })
    // A failure to free something is logged where it happens; the model is gone for clients all the same.
    gone.catch(begun.reject)
    await begun.promise
    return { gone }
  }

  /** What is in the repositories and how it serves. A model that was never tried has neither version nor state. */
  async repositoryIndex(isReadyOnly: boolean): Promise<IndexEntry[]> {
    const entries: IndexEntry[] = []
    for (const name of await this.#dependencies.repository.names()) {
      const known = this.#models.get(name)?.versionEntries() ?? []
      entries.push(...(known.length > 0 ? known : [{ name, version: '', state: '', reason: '' } as const]))
    }
    return isReadyOnly ? entries.filter((entry) => entry.state === 'READY') : entries
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
    await Promise.allSettled(this.#changes.values())
    await Promise.race([this.#expected.none(), giveUp])
    this.#log.info('All models are stopped, unloading models')
    const models = [...this.#models.values()]
    // What is under way in an ensemble still needs the models it calls.
    for (const names of this.#ensembles.outermostFirst(models.map(({ name }) => name))) {
      const versions = names.flatMap((name) => [...(this.#models.get(name)?.versions.values() ?? [])])
      await Promise.all(versions.map((version) => version.unload(giveUp)))
    }
    await Promise.all(models.map((model) => model.dropUpload()))
    cancel()
    await this.#dependencies.closeBackends()
    return isInTime
  }

  #notReadyText(): string {
    return this.#state === 'STARTING' ? 'Server not ready' : 'Server exiting'
  }

  async #loadUploaded(name: string, override: LoadOverride): Promise<void> {
    const upload = await writeUploadedModel(name, override.files).catch((reason: unknown) => {
      this.#log.error(`Poll failed for model directory '${name}': ${messageOf(reason)}`)
      throw pollFailed(name)
    })
    try {
      const polled = await this.#dependencies.repository.pollDirectory(name, upload.root, override.config)
      await this.#ensembles.load(polled, { isForced: true })
    } catch (reason) {
      await upload.remove()
      throw reason
    }
    const model = this.#models.get(name)
    await model?.dropUpload()
    if (model !== undefined) model.upload = upload
  }

  /** False when it served already, and from the same files. */
  async #loadPolled(polled: PolledModel, { isForced = false } = {}): Promise<boolean> {
    let isChanged = true
    await this.#change(polled.name, async () => {
      const model = this.#models.get(polled.name)
      const isServing = model !== undefined && model.latest !== null
      if (isServing && !isForced && polled.error === null && polled.fingerprint === model.fingerprint) {
        isChanged = false
        return
      }
      for (let attempt = 0; ; attempt++) {
        try {
          await this.#loadOnce(polled)
          return
        } catch (reason) {
          if (attempt >= this.#options.modelLoadRetryCount) throw reason
          this.#log.warning('loading failed, trying again', { model: polled.name, reason: messageOf(reason) })
        }
      }
    })
    return isChanged
  }

  async #loadOnce(polled: PolledModel): Promise<void> {
    const { name } = polled
    const model = this.#models.get(name) ?? new ServedModel(name)
    this.#models.set(name, model)
    if (polled.error !== null) {
      const { message, cause } = polled.error
      model.pollFailure = cause === undefined ? message : `${message}: ${messageOf(cause)}`
      this.#touch(model)
      throw pollFailed(name)
    }
    model.pollFailure = ''
    this.#ensembles.requireParts(polled.config, (failure) => {
      model.pollFailure = failure
      this.#touch(model)
    })
    const chosen = selectVersions(polled.config.versionPolicy, polled.versions)
    if (chosen.length === 0) {
      const reason = `at least one version must be available under the version policy of model '${name}'`
      model.pollFailure = reason
      this.#touch(model)
      throw new ServerError('INVALID_ARG', `load failed for model '${name}': ${reason}\n`)
    }
    const parts = { clock: this.#clock, log: this.#log, ledger: this.#ledger }
    const fresh = chosen.map((version) => new ServedVersion(parts, name, version))
    // A first load shows itself as LOADING; a reload stays out of sight until it can take over.
    const isFirst = model.latest === null
    if (isFirst) for (const version of fresh) model.versions.set(version.version, version)
    this.#touch(model)
    const results = await Promise.all(fresh.map((version) => this.#bringUp(version, polled)))
    const failed = results.filter((text) => text !== null)
    if (failed.length > 0) {
      await Promise.all(fresh.map((version) => version.unload(Promise.resolve())))
      this.#touch(model)
      throw new ServerError('INVALID_ARG', `load failed for model '${name}': ${failed.join('')}\n`)
    }
    model.fingerprint = polled.fingerprint
    this.#log.info(`successfully loaded '${name}'`)
    await this.#takeOver(model, fresh)
  }

  /** Null when it serves, else the part of the error message that tells of this version. */
  async #bringUp(version: ServedVersion, polled: PolledModel & { error: null }): Promise<string | null> {
    this.#log.info(`loading: ${version.name}:${version.version}`)
    const { repositoryPath, modelDirectory } = polled
    const versionDirectory = `${modelDirectory}/${version.version}`
    const files = { repositoryPath, modelDirectory, versionDirectory, version: version.version }
    try {
      const onReadinessChange = (): void => {
        this.#revision++
        version.instancesChanged()
      }
      const infer = (request: InferenceRequest): void => this.inferByName(request, true)
      version.becomeReady(
        this.#ensembles.isEnsemble(version.name)
          ? await loadEnsemble(
              { ...this.#dependencies, models: this.#models, infer },
              this.#options,
              polled.config,
              files,
            )
          : await loadVersion(this.#dependencies, this.#options, polled.config, files, onReadinessChange),
      )
      return null
    } catch (reason) {
      const error = ServerError.from(reason)
      const text = `${errorCodeText[error.code]}: ${error.message}`
      version.becomeUnavailable(text)
      this.#log.error(`failed to load '${version.name}' version ${version.version}: ${text}`)
      return `version ${version.version} is at UNAVAILABLE state: ${text};`
    }
  }

  /** One step, no await inside it: clients see the old set of versions or the new one. The old one drains afterwards. */
  async #takeOver(model: ServedModel, fresh: readonly ServedVersion[]): Promise<void> {
    const old = [...model.versions.values()].filter((version) => !fresh.includes(version))
    // A version that is no longer chosen stays in the index, as unloaded.
    for (const version of fresh) model.versions.set(version.version, version)
    const never = new Promise<void>(() => undefined)
    const unloads = old.map((version) => version.unload(never))
    this.#touch(model)
    await Promise.all(unloads)
  }

  async #pollNamed(names: readonly string[]): Promise<PolledModel[]> {
    const found: PolledModel[] = []
    for (const name of names) {
      const polled = await this.#dependencies.repository.pollOne(name)
      if (polled !== null) found.push(polled)
      else {
        this.#log.error(`failed to poll model '${name}': model not found in any model repository.`)
        this.#startError ??= pollFailed(name)
      }
    }
    return found
  }

  async #change(name: string, act: () => Promise<void>): Promise<void> {
    const before = this.#changes.get(name) ?? Promise.resolve()
    const change = before.then(act, act)
    const settled = change.catch(() => undefined)
    this.#changes.set(name, settled)
    try {
      await change
    } finally {
      if (this.#changes.get(name) === settled) this.#changes.delete(name)
    }
  }

  #touch(model: ServedModel): void {
    this.#revision++
    model.refresh()
  }
}

const pollFailed = (name: string): ServerError =>
  new ServerError('INTERNAL', `failed to load '${name}', failed to poll from model repository`)

const noTracing: TracerOptions = { file: '', levels: [], rate: 1000, count: -1, logFrequency: 0 }

const notAvailable = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)

const unknownModel = (code: 'NOT_FOUND' | 'UNAVAILABLE', text: string): ServerError =>
  ServerError.withoutStack(code, `Request for unknown model: ${text}`)
