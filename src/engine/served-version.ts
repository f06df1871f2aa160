import { assert } from '../base/assert.ts'
import { messageOf } from '../base/server-error.ts'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import type { Instance, LoadedModel } from '../model/backend.ts'
import type { Batch } from '../model/batch.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import type { ModelConfig } from '../model/model-config.ts'
import type { ModelSignature } from '../model/model-signature.ts'
import type { ModelStatistics } from '../model/model-statistics.ts'
import type { ModelVersion, ModelVersionState } from '../model/model-version.ts'
import { reshapeOutputs } from '../model/reshape.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { firstResponseBounds as defaultBounds, firstResponseFamily } from '../telemetry/model-families.ts'
import type { ModelLedger } from '../telemetry/model-ledger.ts'
import { Statistics } from '../telemetry/statistics.ts'

/** What loading a version brings to life and unloading it takes away. */
export type LoadedParts = {
  readonly config: ModelConfig
  readonly signature: ModelSignature
  readonly loaded: LoadedModel
  readonly instances: readonly Instance[]
  readonly scheduler: Scheduler
  /** Of a model without Instances: whether it can serve. */
  readonly isReady?: () => boolean
}

const allowedMoves: Readonly<Record<ModelVersionState, readonly ModelVersionState[]>> = {
  LOADING: ['READY', 'UNAVAILABLE'],
  READY: ['UNLOADING'],
  UNLOADING: ['UNAVAILABLE'],
  UNAVAILABLE: [],
}

export type VersionDependencies = { readonly clock: Clock; readonly log: Log; readonly ledger: ModelLedger }

/** One version of a model with everything that serves it. It lives once: a reload makes a new one. */
export class ServedVersion implements ModelVersion {
  readonly name: string
  readonly version: string
  readonly #log: Log
  readonly #clock: Clock
  readonly #ledger: ModelLedger
  #leaveLedger: (() => void) | null = null
  #state: ModelVersionState = 'LOADING'
  #reason = ''
  #parts: LoadedParts | null = null
  #statistics = new Statistics({ hasResponseStatistics: false })
  readonly #createdNs: number
  #loadSeconds = 0
  #inFlightCount = 0
  #onIdle: (() => void) | null = null

  constructor(dependencies: VersionDependencies, name: string, version: string) {
    this.#log = dependencies.log
    this.#clock = dependencies.clock
    this.#ledger = dependencies.ledger
    this.#createdNs = this.#clock.nowNs()
    this.name = name
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

  /** Requests admitted and not yet ended. */
  get inFlightCount(): number {
    return this.#inFlightCount
  }

  /** From the decision to load it until it could serve. */
  get loadSeconds(): number {
    return this.#loadSeconds
  }

  get pendingCount(): number {
    return this.#parts?.scheduler.pendingCount ?? 0
  }

  /** READY, and at least one Instance can execute: a model whose every Worker is down does not call itself ready. */
  get isReady(): boolean {
    const parts = this.#parts
    if (this.#state !== 'READY' || parts === null) return false
    return parts.isReady === undefined ? parts.instances.some((instance) => instance.isReady) : parts.isReady()
  }

  becomeReady(parts: LoadedParts): void {
    this.#parts = parts
    const { config, signature } = parts
    const isEnsemble = config.ensembleScheduling !== null
    // Triton's Python backend and its ensembles report nothing about single responses; clients compare the whole answer.
    const hasResponseStatistics = signature.isDecoupled && config.backend !== 'python' && !isEnsemble
    const { hasSummaries, hasFirstResponses } = this.#ledger.options
    const firstResponseBounds = hasFirstResponses && signature.isDecoupled ? firstResponseBoundsOf(config) : null
    this.#loadSeconds = (this.#clock.nowNs() - this.#createdNs) / 1e9
    this.#statistics = new Statistics({ hasResponseStatistics, hasSummaries, firstResponseBounds, isEnsemble })
    this.#leaveLedger = this.#ledger.open(this, config.metricTags, this.#statistics)
    this.#setState('READY')
  }

  becomeUnavailable(reason: string): void {
    this.#reason = reason
    this.#setState('UNAVAILABLE')
  }

  instancesChanged(): void {
    this.#parts?.scheduler.instancesChanged()
  }

  /** The request is valid for this version's signature. HOT. */
  admit(request: InferenceRequest): void {
    this.#inFlightCount++
    request.intercept = this.#onResponse
    request.onExecuted = this.#onExecuted
    if (request.trace !== null) request.trace.admitted(request, this.version)
    this.#requireParts().scheduler.enqueue(request)
  }

  /** Refuses new requests, waits until `giveUp` for those in flight, then frees everything. Idempotent while it runs. */
  async unload(giveUp: Promise<void>): Promise<void> {
    if (this.#state !== 'READY') return
    this.#setState('UNLOADING')
    const { scheduler, instances, loaded } = this.#requireParts()
    const isIdle = Promise.all([scheduler.drain(), this.#whenIdle()])
    await Promise.race([isIdle, giveUp])
    scheduler.close()
    for (const result of await Promise.allSettled(instances.map((instance) => instance.close()))) {
      if (result.status === 'rejected') this.#logCloseFailure(result.reason)
    }
    await loaded.close().catch((reason: unknown) => this.#logCloseFailure(reason))
    this.#leaveLedger?.()
    this.becomeUnavailable('unloaded')
    this.#log.info(`successfully unloaded '${this.name}' version ${this.version}`)
  }

  statistics(): ModelStatistics {
    return this.#statistics.snapshot(this.name, this.version, this.#clock.wallMs(), this.#clock.nowNs())
  }

  readonly #onExecuted = (batch: Batch): void => this.#statistics.recordExecution(batch, this.#clock.nowNs())

  // HOT: once per response.
  readonly #onResponse = (response: InferenceResponse, request: InferenceRequest): InferenceResponse => {
    const previousNs = request.endNs
    request.endNs = this.#clock.nowNs()
    this.#statistics.recordResponse(request, response, previousNs)
    request.responseCount++
    if (request.trace !== null) request.trace.responded(request, response)
    if (response.isFinal) {
      this.#inFlightCount--
      if (this.#inFlightCount === 0) this.#onIdle?.()
    }
    const signature = this.#requireParts().signature
    return signature.hasReshape ? reshapeOutputs(response, signature) : response
  }

  #whenIdle(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#inFlightCount === 0) resolve()
      else this.#onIdle = resolve
    })
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
