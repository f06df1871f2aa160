import type { Clock } from '../base/clock.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { stoppedError } from '../scheduling/refusals.ts'
import { RequestWait } from './request-wait.ts'
import { type CachedAnswer, cacheKey, type ResponseCache } from './response-cache.ts'

/** In front of a model's scheduler: what the cache knows is answered without waiting, the rest is kept once it is answered. */
export class ResponseCacheScheduler implements Scheduler {
  readonly #clock: Clock
  readonly #cache: ResponseCache
  readonly #inner: Scheduler
  readonly #prefix: string
  /** Requests whose lookup is under way elsewhere, and the end of the last of them: they go on in the order they came. */
  readonly #lookingUp = new Set<RequestWait>()
  #lookupsUnderWay = 0
  #lastLookup: Promise<void> = Promise.resolve()
  #onLookedUp: (() => void) | null = null
  #isDraining = false
  #isClosed = false

  /** `prefix` is of one load of one model version: a model that was loaded anew answers anew. */
  constructor(dependencies: { clock: Clock; cache: ResponseCache }, inner: Scheduler, prefix: string) {
    this.#clock = dependencies.clock
    this.#cache = dependencies.cache
    this.#inner = inner
    this.#prefix = prefix
  }

  get pendingCount(): number {
    return this.#inner.pendingCount + this.#lookingUp.size
  }

  enqueue(request: InferenceRequest): void {
    if (this.#isDraining) {
      request.fail(stoppedError(request))
      return
    }
    const startNs = this.#clock.nowNs()
    const key = cacheKey(this.#prefix, request)
    request.contentKey = key
    const known = this.#cache.lookup(key)
    if (known instanceof Promise || this.#lookupsUnderWay > 0) this.#awaitLookup(request, known, startNs)
    else this.#lookedUp(request, known, startNs)
  }

  joinOrder(request: InferenceRequest): void {
    this.#inner.joinOrder?.(request)
  }

  instancesChanged(): void {
    this.#inner.instancesChanged()
  }

  async drain(): Promise<void> {
    this.#isDraining = true
    await new Promise<void>((resolve) => {
      this.#onLookedUp = resolve
      this.#checkLookups()
    })
    await this.#inner.drain()
  }

  close(): void {
    this.#isDraining = true
    this.#isClosed = true
    this.#inner.close()
    for (const wait of this.#lookingUp) {
      this.#left(wait)
      wait.end()
      wait.request.fail(stoppedError(wait.request))
    }
    this.#cache.dropPrefix(this.#prefix)
  }

  /** False when it had left already. */
  #left(wait: RequestWait): boolean {
    const wasThere = this.#lookingUp.delete(wait)
    this.#checkLookups()
    return wasThere
  }

  #checkLookups(): void {
    if (this.#lookingUp.size === 0) this.#onLookedUp?.()
  }

  #awaitLookup(
    request: InferenceRequest,
    known: CachedAnswer | null | Promise<CachedAnswer | null>,
    startNs: number,
  ): void {
    const wait = new RequestWait(this.#clock, request, (left) => this.#left(left))
    this.#lookingUp.add(wait)
    this.#lookupsUnderWay++
    this.#lastLookup = this.#lastLookup.then(async () => {
      const found = await known
      this.#lookupsUnderWay--
      if (!this.#left(wait)) return
      wait.end()
      this.#lookedUp(request, found, startNs)
    })
  }

  #lookedUp(request: InferenceRequest, known: CachedAnswer | null, startNs: number): void {
    request.cacheNs = this.#clock.nowNs() - startNs
    this.#cache.timings.lookupNs += request.cacheNs
    if (known === null) {
      this.#keepAnswer(request)
      this.#inner.enqueue(request)
      return
    }
    request.isCacheHit = true
    request.queueStartNs = startNs
    this.#inner.joinOrder?.(request)
    request.respond(InferenceResponse.of(known.outputs, { parameters: known.parameters }))
  }

  /** Before the Engine's own look at the response, which counts the time and reshapes the outputs. */
  #keepAnswer(request: InferenceRequest): void {
    const { intercept } = request
    request.intercept = (response, answered) => {
      const isAnswer = response.error === null && response.isFinal && !response.isFlagOnly
      // One that shared another's answer need not keep it again, and of a model that is gone nothing is kept.
      if (isAnswer && !answered.isCacheHit && !this.#isClosed) {
        const startNs = this.#clock.nowNs()
        this.#cache.insert(request.contentKey, response)
        const takenNs = this.#clock.nowNs() - startNs
        this.#cache.timings.insertNs += takenNs
        answered.cacheNs += takenNs
      }
      return intercept === null ? response : intercept(response, answered)
    }
  }
}
