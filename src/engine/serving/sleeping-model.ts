// A model that is not in memory, and is loaded by the first request. Front ends see it like any other model: it has a
// configuration and a signature. Requests wait here while the model loads.

import type { Clock } from '../../base/clock.ts'
import { ServerError } from '../../base/server-error.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { modelLabel, type ModelKey } from '../../model/model-key.ts'
import type { ModelStatistics } from '../../model/model-statistics.ts'
import type { ModelSignature } from '../../config/model-signature.ts'
import type { ModelVersion, ModelVersionState } from '../../model/model-version.ts'
import { compareVersions } from '../../repository/version-policy.ts'
import { queueFullError } from '../../scheduling/refusals.ts'
import { RequestWait } from '../../scheduling/request-wait.ts'
import { Statistics } from '../../telemetry/statistics.ts'

export class SleepingVersion implements ModelVersion {
  readonly model: SleepingModel
  readonly name: string
  readonly version: string
  readonly config: ModelConfig
  readonly signature: ModelSignature
  readonly state: ModelVersionState = 'UNAVAILABLE'
  /** Requests wait for the load, so nothing is known of an overload. */
  readonly door = null

  constructor(model: SleepingModel, version: string, config: ModelConfig, signature: ModelSignature) {
    this.model = model
    this.name = config.name
    this.version = version
    this.config = config
    this.signature = signature
  }

  get key(): ModelKey {
    return this.model.key
  }

  get pendingCount(): number {
    return 0
  }

  holdsSequence(): boolean {
    return false
  }

  admit(request: InferenceRequest): void {
    this.model.admit(request, this.version)
  }

  /** All zero: the version has done nothing since it was put to sleep. */
  statistics(): ModelStatistics {
    const { clock } = this.model
    const nothing = new Statistics({ hasResponseStatistics: false })
    return nothing.snapshot(this.name, this.version, clock.wallMs(), clock.nowNs())
  }
}

export type SleepingSettings = {
  /** Requests that may wait; one more is refused. */
  readonly maxQueueSize: number
  /** Why the model is not in memory, for the index. */
  readonly reason: string
}

/** Between two tries to load a model that fails: 1 s, doubling to one minute. */
const wakeDelayMs = (failures: number): number => Math.min(1000 * 2 ** (failures - 1), 60_000)

export class SleepingModel {
  readonly key: ModelKey
  readonly settings: SleepingSettings
  readonly clock: Clock
  /** Loads the model, because a request waits for it. Clears `isWaking` in the end. */
  readonly #wake: (model: SleepingModel) => void
  readonly #versions = new Map<string, SleepingVersion>()
  /** Requests, each with the version that was chosen for it. */
  readonly #waiting = new Map<RequestWait, string>()
  #failureCount = 0
  #failure: ServerError | null = null
  #retryNs = 0
  isWaking = false

  constructor(clock: Clock, wake: (model: SleepingModel) => void, key: ModelKey, settings: SleepingSettings) {
    this.clock = clock
    this.#wake = wake
    this.key = key
    this.settings = settings
  }

  get versions(): ReadonlyMap<string, SleepingVersion> {
    return this.#versions
  }

  /** The highest version. */
  get latest(): SleepingVersion {
    return [...this.#versions.values()].sort((a, b) => compareVersions(b.version, a.version))[0] as SleepingVersion
  }

  /** Why the last load failed; null when no load has failed. */
  get failure(): ServerError | null {
    return this.#failure
  }

  add(version: string, config: ModelConfig, signature: ModelSignature): void {
    this.#versions.set(version, new SleepingVersion(this, version, config, signature))
  }

  /** Takes the request over: it runs when the model is loaded, or is answered because it cannot wait. Never throws. */
  admit(request: InferenceRequest, version: string): void {
    const refusal = this.#refusal(request)
    if (refusal !== null) {
      request.fail(refusal)
      return
    }
    this.#waiting.set(new RequestWait(this.clock, request, (left) => this.#waiting.delete(left)), version)
    if (this.isWaking) return
    this.isWaking = true
    this.#wake(this)
  }

  /** The requests that waited, in the order in which they came, each with what is left of its timeout. */
  takeWaiting(): { readonly request: InferenceRequest; readonly version: string }[] {
    const taken = [...this.#waiting].map(([wait, version]) => ({ wait, request: wait.request, version }))
    this.#waiting.clear()
    for (const { wait } of taken) wait.end()
    return taken
  }

  /** The load failed: requests that wait fail, and so do those that come before the next try. */
  fail(reason: ServerError): void {
    this.#failureCount++
    this.#failure = reason
    this.#retryNs = this.clock.nowNs() + wakeDelayMs(this.#failureCount) * 1e6
    for (const { request } of this.takeWaiting()) request.fail(this.#failedError(reason))
  }

  /** The model will not be loaded any more: requests that wait fail. */
  dismiss(why: string): void {
    for (const { request } of this.takeWaiting()) request.fail(ServerError.withoutStack('UNAVAILABLE', why))
  }

  #refusal(request: InferenceRequest): ServerError | null {
    if (this.#failure !== null && !this.isWaking && this.clock.nowNs() < this.#retryNs) {
      return this.#failedError(this.#failure)
    }
    if (this.#waiting.size < this.settings.maxQueueSize) return null
    return queueFullError(request)
  }

  #failedError(reason: ServerError): ServerError {
    const waitMs = Math.max(0, this.#retryNs - this.clock.nowNs()) / 1e6
    return ServerError.withoutStack(
      'UNAVAILABLE',
      `model '${modelLabel(this.key)}' could not be loaded for this request: ${reason.message.trimEnd()}; it is tried again with the first request after ${(waitMs / 1000).toFixed(1)} s`,
    )
  }
}
