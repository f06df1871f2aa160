import type { Clock } from '../base/clock.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { cacheKey, type ResponseCache } from './response-cache.ts'

/** In front of a model's scheduler: what the cache knows is answered without waiting, the rest is kept once it is answered. */
export class ResponseCacheScheduler implements Scheduler {
  readonly #clock: Clock
  readonly #cache: ResponseCache
  readonly #inner: Scheduler
  readonly #prefix: string

  /** `prefix` is of one load of one model version: a model that was loaded anew answers anew. */
  constructor(dependencies: { clock: Clock; cache: ResponseCache }, inner: Scheduler, prefix: string) {
    this.#clock = dependencies.clock
    this.#cache = dependencies.cache
    this.#inner = inner
    this.#prefix = prefix
  }

  get pendingCount(): number {
    return this.#inner.pendingCount
  }

  enqueue(request: InferenceRequest): void {
    const startNs = this.#clock.nowNs()
    const key = cacheKey(this.#prefix, request)
    const known = this.#cache.lookup(key)
    request.cacheNs = this.#clock.nowNs() - startNs
    if (known === null) {
      this.#keepAnswer(key, request)
      this.#inner.enqueue(request)
      return
    }
    request.isCacheHit = true
    request.queueStartNs = startNs
    this.#inner.joinOrder?.(request)
    request.respond(InferenceResponse.of(known.outputs, { parameters: known.parameters }))
  }

  instancesChanged(): void {
    this.#inner.instancesChanged()
  }

  drain(): Promise<void> {
    return this.#inner.drain()
  }

  close(): void {
    this.#inner.close()
    this.#cache.dropPrefix(this.#prefix)
  }

  /** Before the Engine's own look at the response, which counts the time and reshapes the outputs. */
  #keepAnswer(key: string, request: InferenceRequest): void {
    const { intercept } = request
    request.intercept = (response, answered) => {
      if (response.error === null && response.isFinal && !response.isFlagOnly) {
        const startNs = this.#clock.nowNs()
        this.#cache.insert(key, response)
        answered.cacheNs += this.#clock.nowNs() - startNs
      }
      return intercept === null ? response : intercept(response, answered)
    }
  }
}
