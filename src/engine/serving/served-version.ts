import { assert } from '../../base/assert.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import type { Clock } from '../../base/clock.ts'
import { deviceMemoryOf, isDoneOnAnswer } from './device-memory.ts'
import { Drain } from '../../base/drain.ts'
import type { Log } from '../../base/log.ts'
import type { Patience } from '../../base/patience.ts'
import type { LanguageFacts } from '../../llm/language-facts.ts'
import type { Instance, LoadedModel } from '../../model/backend.ts'
import type { ExecutedBatch, InferenceRequest, RequestAccount } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import type { ModelSignature } from '../../config/model-signature.ts'
import type { ModelStatistics } from '../../model/model-statistics.ts'
import type { VersionContent } from '../../model/registered-model.ts'
import type { QueueDoor, QueueReport } from '../../model/queue-report.ts'
import type { DeviceMemory, ModelVersion, ModelVersionState } from '../../model/model-version.ts'
import { modelLabel, splitModelKey, type ModelKey } from '../../model/model-key.ts'
import { reshapeOutputs } from '../../model/reshape.ts'
import type { Scheduler } from '../../model/scheduler.ts'
import { firstResponseBounds as defaultBounds, firstResponseFamily } from '../../telemetry/model-families.ts'
import { noWorkload, type ModelLedger, type Workload } from '../../telemetry/model-ledger.ts'
import { Statistics } from '../../telemetry/statistics.ts'
import type { InstanceSet } from './instance-set.ts'
import type { CheckedRequests, RequestCheck } from './request-check.ts'

/** What a load of a version makes, and an unload frees. */
export type LoadedParts = {
  readonly config: ModelConfig
  readonly signature: ModelSignature
  readonly loaded: LoadedModel
  /** Null for an ensemble, which has no Instances. */
  readonly instances: InstanceSet | null
  readonly scheduler: Scheduler
  /** What was measured of each GPU, where the backend itself does not tell; absent: nothing. */
  readonly gpuBytes?: ReadonlyMap<number, number>
  /** Whether an ensemble can serve; absent: at least one Instance must be ready. */
  readonly isReady?: () => boolean
}

const allowedMoves: Readonly<Record<ModelVersionState, readonly ModelVersionState[]>> = {
  LOADING: ['READY', 'UNAVAILABLE'],
  READY: ['UNLOADING'],
  UNLOADING: ['UNAVAILABLE'],
  UNAVAILABLE: [],
}

type VersionDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly ledger: ModelLedger
  readonly check: RequestCheck
}

/** One version of a model with everything that serves it. It lives once: a reload makes a new one. */
export class ServedVersion implements ModelVersion, CheckedRequests, RequestAccount {
  readonly key: ModelKey
  readonly name: string
  readonly namespace: string | undefined
  readonly version: string
  /** What it was loaded from, all but the number of its instances; '' when that is not known. */
  origin = ''
  /** The memory that statistics report; 0: they report none. */
  memoryBytes = 0
  /** When it began to serve, by the wall clock; 0 before. */
  readyMs = 0
  #content: VersionContent | null = null
  #contentKnown: Promise<VersionContent | null> | null = null
  readonly #log: Log
  readonly #clock: Clock
  readonly #ledger: ModelLedger
  readonly #check: RequestCheck
  #leaveLedger: ((nowNs: number) => void) | null = null
  #state: ModelVersionState = 'LOADING'
  #reason = ''
  #parts: LoadedParts | null = null
  #door: QueueDoor | null = null
  #statistics = new Statistics({ hasResponseStatistics: false })
  readonly #createdNs: number
  #loadSeconds = 0
  #workload: Workload = noWorkload
  #inFlightCount = 0
  #lastUsedNs = 0
  readonly #inFlight = new Drain(() => this.#inFlightCount === 0)
  /** Resolves when an unload that has begun is done. */
  #gone = Promise.resolve()

  constructor(dependencies: VersionDependencies, key: ModelKey, version: string) {
    const { namespace, name } = splitModelKey(key)
    this.#log = dependencies.log
    this.#clock = dependencies.clock
    this.#ledger = dependencies.ledger
    this.#check = dependencies.check
    this.#createdNs = this.#clock.nowNs()
    this.key = key
    this.name = name
    this.namespace = namespace
    this.version = version
  }

  get state(): ModelVersionState {
    return this.#state
  }

  /** Why it is UNAVAILABLE; '' in other states. */
  get reason(): string {
    return this.#reason
  }

  get config(): ModelConfig {
    return this.#requireParts().config
  }

  get signature(): ModelSignature {
    return this.#requireParts().signature
  }

  get deviceMemory(): DeviceMemory | null {
    const parts = this.#parts
    return parts === null || parts.instances === null ? null : deviceMemoryOf(parts.config, parts.instances.instances)
  }

  get isDoneOnAnswer(): boolean {
    const parts = this.#parts
    return parts !== null && parts.instances !== null && isDoneOnAnswer(parts.config, parts.instances.instances)
  }

  get languageFacts(): LanguageFacts | null {
    return this.#parts?.loaded.languageFacts ?? null
  }

  /** Requests admitted and not yet ended. */
  get inFlightCount(): number {
    return this.#inFlightCount
  }

  /** From the decision to load it until it could serve. */
  get loadSeconds(): number {
    return this.#loadSeconds
  }

  get workload(): Workload {
    return this.#workload
  }

  /** Requests are in flight, or sequences have begun and not ended. */
  get isInUse(): boolean {
    return this.#inFlightCount > 0 || this.sequenceCount > 0
  }

  /** Sequences that have begun and not ended. */
  get sequenceCount(): number {
    return this.#parts?.scheduler.sequences?.sequenceCount ?? 0
  }

  /** What it was loaded from; null when that is not known (yet). */
  get content(): VersionContent | null {
    return this.#content
  }

  /** Resolves with `content` once it is known. */
  get contentKnown(): Promise<VersionContent | null> {
    return this.#contentKnown ?? Promise.resolve(null)
  }

  get hasContent(): boolean {
    return this.#contentKnown !== null
  }

  learnContent(content: Promise<VersionContent | null>): void {
    this.#contentKnown = content.catch(() => null)
    void this.#contentKnown.then((known) => {
      this.#content = known
    })
  }

  /** When the last request ended, or it was loaded. */
  get lastUsedNs(): number {
    return this.#lastUsedNs
  }

  /** Whether the sequence has begun here and not ended. */
  holdsSequence(id: bigint | string): boolean {
    return this.#parts?.scheduler.sequences?.holdsSequence(id) ?? false
  }

  get instances(): readonly Instance[] {
    return this.#parts?.instances?.instances ?? []
  }

  get pendingCount(): number {
    return this.#parts?.scheduler.pendingCount ?? 0
  }

  get queue(): QueueReport | null {
    return this.#parts?.scheduler.queue ?? null
  }

  /** HOT. */
  get door(): QueueDoor | null {
    return this.#door
  }

  countRejected(): void {
    this.#statistics.countRejected()
  }

  /** READY, and at least one Instance can execute: a model whose every Worker is down does not call itself ready. */
  get isReady(): boolean {
    const parts = this.#parts
    if (this.#state !== 'READY' || parts === null) return false
    return parts.isReady === undefined ? (parts.instances?.readyCount ?? 0) > 0 : parts.isReady()
  }

  becomeReady(parts: LoadedParts): void {
    this.#parts = parts
    this.#door = parts.scheduler.door ?? null
    const { config, signature } = parts
    const isEnsemble = config.ensembleScheduling !== null
    // Triton's Python backend and its ensembles report nothing about single responses; clients compare the whole answer.
    const hasResponseStatistics = signature.isDecoupled && config.backend !== 'python' && !isEnsemble
    const { hasSummaries, hasFirstResponses, hasOwnFamilies: hasHistograms } = this.#ledger.options
    const firstResponseBounds = hasFirstResponses ? firstResponseBoundsOf(config) : null
    this.#loadSeconds = (this.#clock.nowNs() - this.#createdNs) / 1e9
    this.#lastUsedNs = this.#clock.nowNs()
    this.readyMs = this.#clock.wallMs()
    this.#workload = parts.instances ?? noWorkload
    const { hasCache = false } = parts.scheduler
    const options = { hasResponseStatistics, hasSummaries, firstResponseBounds, isEnsemble, hasCache, hasHistograms }
    this.#statistics = new Statistics(options)
    this.#leaveLedger = this.#ledger.open(this, config.metricTags, this.#statistics)
    this.#setState('READY')
  }

  becomeUnavailable(reason: string): void {
    this.#reason = reason
    this.#setState('UNAVAILABLE')
  }

  /** The configuration differs in its instances and version policy alone. A failure changes nothing. */
  async rescale(config: ModelConfig): Promise<void> {
    const parts = this.#requireParts()
    await parts.instances?.resize(
      config.instanceGroup,
      (some) => parts.scheduler.setInstances?.(some) ?? Promise.resolve(),
    )
    this.#parts = { ...parts, config }
  }

  instancesChanged(): void {
    this.#parts?.scheduler.instancesChanged()
  }

  /** HOT. */
  admit(request: InferenceRequest): void {
    this.#check.pass(request, this)
  }

  /** The request is valid for this version's signature. HOT. */
  schedule(request: InferenceRequest): void {
    this.#inFlightCount++
    request.admit(this)
    if (request.trace !== null) request.trace.admitted(request, this.version, this.config.ensembleScheduling !== null)
    this.#requireParts().scheduler.enqueue(request)
  }

  /** Refuses new requests, waits with patience for those in flight, then frees everything. May be called twice. */
  unload(patience: Patience): Promise<void> {
    if (this.#state === 'READY') this.#gone = this.#end(patience)
    return this.#gone
  }

  async #end(patience: Patience): Promise<void> {
    this.#setState('UNLOADING')
    const { config, signature, scheduler, instances, loaded } = this.#requireParts()
    const isIdle = Promise.all([scheduler.drain(), this.#inFlight.idle()])
    await patience.waitFor(isIdle)
    scheduler.close()
    await instances?.close().catch((reason: unknown) => this.#logCloseFailure(reason))
    await loaded.close().catch((reason: unknown) => this.#logCloseFailure(reason))
    this.#leaveLedger?.(this.#clock.nowNs())
    // The index lists the version as long as the server runs, and the memory must be free before that.
    this.#parts = { config, signature, loaded: nothingLeft, instances: null, scheduler: refusing }
    this.#workload = noWorkload
    this.#door = null
    this.becomeUnavailable('unloaded')
    this.#log.info(`successfully unloaded '${modelLabel(this.key)}' version ${this.version}`)
  }

  /** Resolves when the sequences that have begun here have ended, by their last request or for want of one. */
  sequencesEnded(): Promise<void> {
    return this.#parts?.scheduler.sequences?.sequencesEnded() ?? Promise.resolve()
  }

  /** The memory of the version's Instances; null when it is not known. */
  measureBytes(): Promise<number | null> {
    return this.#parts?.instances?.memoryBytes() ?? Promise.resolve(null)
  }

  /** What the load took of each GPU. */
  get gpuBytes(): ReadonlyMap<number, number> {
    return this.#parts?.loaded.deviceBytes ?? this.#parts?.gpuBytes ?? noDevices
  }

  /** The same where its backend counts by itself, whose figures follow the instances; null elsewhere. */
  get countedGpuBytes(): ReadonlyMap<number, number> | null {
    return this.#parts?.loaded.deviceBytes ?? null
  }

  statistics(): ModelStatistics {
    const snapshot = this.#statistics.snapshot(this.name, this.version, this.#clock.wallMs(), this.#clock.nowNs())
    const onGpus = this.gpuBytes
    if (this.memoryBytes === 0 && onGpus.size === 0) return snapshot
    const ofHost = this.memoryBytes === 0 ? [] : [{ type: 'CPU', id: 0, byteSize: BigInt(this.memoryBytes) }]
    const ofGpus = Array.from(onGpus, ([id, bytes]) => ({ type: 'GPU', id, byteSize: BigInt(bytes) }))
    return { ...snapshot, memoryUsage: [...ofHost, ...ofGpus] }
  }

  executed(batch: ExecutedBatch): void {
    this.#statistics.recordExecution(batch, batch.executedNs === 0 ? this.#clock.nowNs() : batch.executedNs)
  }

  // HOT: once per response.
  answered(response: InferenceResponse, request: InferenceRequest): InferenceResponse {
    const previousNs = request.endNs
    request.endNs = this.#clock.nowNs()
    this.#statistics.recordResponse(request, response, previousNs)
    request.responseCount++
    if (request.trace !== null) request.trace.responded(request, response)
    if (response.isFinal) {
      this.#lastUsedNs = request.endNs
      this.#inFlightCount--
      this.#inFlight.check()
    }
    const signature = this.#requireParts().signature
    return signature.hasReshape ? reshapeOutputs(response, signature) : response
  }

  #logCloseFailure(reason: unknown): void {
    this.#log.error('closing a model failed', { model: this.name, version: this.version, reason: messageOf(reason) })
  }

  #requireParts(): LoadedParts {
    assert(this.#parts !== null, `version ${this.version} of '${this.name}' has been loaded`)
    return this.#parts
  }

  #setState(next: ModelVersionState): void {
    assert(allowedMoves[this.#state].includes(next), `a model version does not go from ${this.#state} to ${next}`)
    this.#state = next
  }
}

function firstResponseBoundsOf(config: ModelConfig): readonly number[] {
  const control = config.modelMetrics?.metricControl.find((one) => one.metricIdentifier?.family === firstResponseFamily)
  return control?.histogramOptions?.buckets ?? defaultBounds
}

const noDevices: ReadonlyMap<number, number> = new Map()

const nothingLeft: LoadedModel = {
  createInstance: () => Promise.reject(new ServerError('UNAVAILABLE', 'it was unloaded')),
  close: () => Promise.resolve(),
}

const refusing: Scheduler = {
  enqueue: (request) => request.fail(ServerError.withoutStack('UNAVAILABLE', 'the model was unloaded')),
  pendingCount: 0,
  instancesChanged: () => undefined,
  drain: () => Promise.resolve(),
  close: () => undefined,
}
