import { assert } from '../base/assert.ts'
import { messageOf } from '../base/server-error.ts'
import type { Log } from '../base/log.ts'
import type { Instance, LoadedModel } from '../model/backend.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import type { ModelConfig } from '../model/model-config.ts'
import type { ModelSignature } from '../model/model-signature.ts'
import type { ModelVersion, ModelVersionState } from '../model/model-version.ts'
import { reshapeOutputs } from '../model/reshape.ts'
import type { Scheduler } from '../model/scheduler.ts'

/** What loading a version brings to life and unloading it takes away. */
export type LoadedParts = {
  readonly config: ModelConfig
  readonly signature: ModelSignature
  readonly loaded: LoadedModel
  readonly instances: readonly Instance[]
  readonly scheduler: Scheduler
}

const allowedMoves: Readonly<Record<ModelVersionState, readonly ModelVersionState[]>> = {
  LOADING: ['READY', 'UNAVAILABLE'],
  READY: ['UNLOADING'],
  UNLOADING: ['UNAVAILABLE'],
  UNAVAILABLE: [],
}

/** One version of a model with everything that serves it. It lives once: a reload makes a new one. */
export class ServedVersion implements ModelVersion {
  readonly name: string
  readonly version: string
  readonly #log: Log
  #state: ModelVersionState = 'LOADING'
  #reason = ''
  #parts: LoadedParts | null = null
  #inFlightCount = 0
  #onIdle: (() => void) | null = null

  constructor(log: Log, name: string, version: string) {
    this.#log = log
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

  get pendingCount(): number {
    return this.#parts?.scheduler.pendingCount ?? 0
  }

  /** READY, and at least one Instance can execute: a model whose every Worker is down does not call itself ready. */
  get isReady(): boolean {
    return this.#state === 'READY' && (this.#parts?.instances.some((instance) => instance.isReady) ?? false)
  }

  becomeReady(parts: LoadedParts): void {
    this.#parts = parts
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
    this.becomeUnavailable('unloaded')
  }

  readonly #onResponse = (response: InferenceResponse): InferenceResponse => {
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
