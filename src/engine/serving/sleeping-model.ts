// A model that is not in memory and will be when the first request for it comes. Front ends see it like any other: it has
// a configuration and a signature. Requests wait here while it loads.

import type { Cancel, Clock } from '../../base/clock.ts'
import { ServerError } from '../../base/server-error.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { modelLabel, type ModelKey } from '../../model/model-key.ts'
import type { ModelStatistics } from '../../model/model-statistics.ts'
import type { ModelSignature } from '../../config/model-signature.ts'
import type { ModelVersion, ModelVersionState } from '../../model/model-version.ts'
import { compareVersions } from '../../repository/version-policy.ts'
import { Statistics } from '../../telemetry/statistics.ts'

export class SleepingVersion implements ModelVersion {
  readonly model: SleepingModel
  readonly name: string
  readonly version: string
  readonly config: ModelConfig
  readonly signature: ModelSignature
  readonly state: ModelVersionState = 'UNAVAILABLE'

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

  admit(request: InferenceRequest): void {
    this.model.admit(request, this.version)
  }

  /** It has done nothing since it was put to sleep. */
  statistics(): ModelStatistics {
    const { clock } = this.model
    const nothing = new Statistics({ hasResponseStatistics: false })
    return nothing.snapshot(this.name, this.version, clock.wallMs(), clock.nowNs())
  }
}

type Waiting = {
  readonly request: InferenceRequest
  readonly version: string
  readonly sinceNs: number
  readonly cancelTimer: Cancel
}

export type SleepingSettings = {
  /** Requests that may wait; one more is refused. */
  readonly maxQueueSize: number
  /** Why it is not in memory, as the index tells it. */
  readonly reason: string
  /** Of the files that it was read from. */
  readonly fingerprint: string
}

/** Between two tries to load a model that fails: 1 s, doubling to one minute. */
const wakeDelayMs = (failures: number): number => Math.min(1000 * 2 ** (failures - 1), 60_000)

type SleepingDependencies = {
  readonly clock: Clock
  /** Loads the model, because a request waits for it. Clears `isWaking` in the end. */
  readonly wake: (model: SleepingModel) => void
}

export class SleepingModel {
  readonly key: ModelKey
  readonly settings: SleepingSettings
  readonly clock: Clock
  readonly #wake: (model: SleepingModel) => void
  readonly #versions = new Map<string, SleepingVersion>()
  readonly #waiting = new Set<Waiting>()
  #failureCount = 0
  #failure: ServerError | null = null
  #retryNs = 0
  isWaking = false

  constructor({ clock, wake }: SleepingDependencies, key: ModelKey, settings: SleepingSettings) {
    this.clock = clock
    this.#wake = wake
    this.key = key
    this.settings = settings
  }

  get versions(): ReadonlyMap<string, SleepingVersion> {
    return this.#versions
  }

  /** The highest; there is one. */
  get latest(): SleepingVersion {
    return [...this.#versions.values()].sort((a, b) => compareVersions(b.version, a.version))[0] as SleepingVersion
  }

  get waitingCount(): number {
    return this.#waiting.size
  }

  /** Of the last try to load it; null when there was none. */
  get failure(): ServerError | null {
    return this.#failure
  }

  add(version: string, config: ModelConfig, signature: ModelSignature): void {
    this.#versions.set(version, new SleepingVersion(this, version, config, signature))
  }

  /** Takes the request over; it runs when the model is loaded. Never throws. */
  admit(request: InferenceRequest, version: string): void {
    if (!this.wait(request, version) || this.isWaking) return
    this.isWaking = true
    this.#wake(this)
  }

  /** Takes the request over until the model is loaded. False: it was answered, because it cannot wait. */
  wait(request: InferenceRequest, version: string): boolean {
    const refusal = this.#refusal(request)
    if (refusal !== null) {
      request.fail(refusal)
      return false
    }
    const sinceNs = this.clock.nowNs()
    const leave = (end: () => void): void => {
      if (!this.#waiting.delete(waiting)) return
      waiting.cancelTimer()
      request.handOver(null)
      end()
    }
    const expire = (): void =>
      leave(() => request.fail(ServerError.withoutStack('UNAVAILABLE', 'Request timeout expired')))
    const { timeoutUs } = request
    const cancelTimer = timeoutUs > 0n ? this.clock.after(Number(timeoutUs) * 1000, expire) : () => undefined
    const waiting: Waiting = { request, version, sinceNs, cancelTimer }
    this.#waiting.add(waiting)
    request.handOver({ onCancel: () => leave(() => request.failCancelled()) })
    return true
  }

  /** Those that waited, in the order in which they came, with what is left of the time that they gave themselves. */
  takeWaiting(): { readonly request: InferenceRequest; readonly version: string }[] {
    const nowNs = this.clock.nowNs()
    const taken = [...this.#waiting]
    this.#waiting.clear()
    for (const { request, sinceNs, cancelTimer } of taken) {
      cancelTimer()
      request.handOver(null)
      if (request.timeoutUs === 0n) continue
      const leftUs = request.timeoutUs - BigInt(Math.floor((nowNs - sinceNs) / 1000))
      request.timeoutUs = leftUs > 1n ? leftUs : 1n
    }
    return taken
  }

  /** It could not be loaded. Those that wait are told, and so are those that come before it is tried again. */
  fail(reason: ServerError): void {
    this.#failureCount++
    this.#failure = reason
    this.#retryNs = this.clock.nowNs() + wakeDelayMs(this.#failureCount) * 1e6
    for (const { request } of this.takeWaiting()) request.fail(this.#failedError(reason))
  }

  /** It will not be loaded any more. */
  dismiss(error: (request: InferenceRequest) => ServerError): void {
    for (const { request } of this.takeWaiting()) request.fail(error(request))
  }

  #refusal(request: InferenceRequest): ServerError | null {
    if (this.#failure !== null && !this.isWaking && this.clock.nowNs() < this.#retryNs) {
      return this.#failedError(this.#failure)
    }
    if (this.#waiting.size < this.settings.maxQueueSize) return null
    return ServerError.withoutStack('UNAVAILABLE', `${request.errorPrefix}Exceeds maximum queue size`)
  }

  #failedError(reason: ServerError): ServerError {
    const waitMs = Math.max(0, this.#retryNs - this.clock.nowNs()) / 1e6
    return ServerError.withoutStack(
      'UNAVAILABLE',
      `model '${modelLabel(this.key)}' could not be loaded for this request: ${reason.message.trimEnd()}; it is tried again with the first request after ${(waitMs / 1000).toFixed(1)} s`,
    )
  }
}
