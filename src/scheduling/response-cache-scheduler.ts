import type { Clock } from '../base/clock.ts'
import { type Log, silentLog } from '../base/log.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { FrontScheduler } from './front-scheduler.ts'
import { type CachedAnswer, cacheKeyInSlices, type ResponseCache } from '../model/response-cache.ts'

/** Answers a request from the cache, or passes it on to the inner scheduler and stores the model's answer. */
export class ResponseCacheScheduler extends FrontScheduler {
  readonly #cache: ResponseCache
  readonly #prefix: string
  /** Lookups that another server has not answered yet, and the last lookup: requests go on in the order they came. */
  #lookupsUnderWay = 0
  #lastLookup: Promise<void> = Promise.resolve()
  #isClosed = false
  readonly #log: Log
  /** An answer of this load was too large, and the log says so: clients can cause it with each request. */
  #hasWarned = false

  /** `prefix` belongs to one load of one model version: a model that is loaded again does not use old answers. */
  constructor(dependencies: { clock: Clock; cache: ResponseCache; log?: Log }, inner: Scheduler, prefix: string) {
    super(dependencies.clock, inner)
    this.#cache = dependencies.cache
    this.#log = (dependencies.log ?? silentLog).from('response-cache-scheduler.ts')
    this.#prefix = prefix
  }

  override get hasCache(): boolean {
    return true
  }

  protected override admit(request: InferenceRequest): void {
    const startNs = this.clock.nowNs()
    const key = cacheKeyInSlices(this.clock, this.#prefix, request)
    const known = key instanceof Promise ? this.#lookupLater(request, key) : this.#lookup(request, key)
    if (known instanceof Promise || this.#lookupsUnderWay > 0) this.#awaitLookup(request, known, startNs)
    else this.#lookedUp(request, known, startNs)
  }

  override close(): void {
    this.#isClosed = true
    super.close()
    this.#cache.dropPrefix(this.#prefix)
  }

  #lookup(request: InferenceRequest, key: string): CachedAnswer | null | Promise<CachedAnswer | null> {
    request.contentKey = key
    return this.#cache.lookup(key)
  }

  async #lookupLater(request: InferenceRequest, key: Promise<string>): Promise<CachedAnswer | null> {
    try {
      return await this.#lookup(request, await key)
    } catch {
      // The request was cancelled, so nobody looks at the answer.
      return null
    }
  }

  #awaitLookup(
    request: InferenceRequest,
    known: CachedAnswer | null | Promise<CachedAnswer | null>,
    startNs: number,
  ): void {
    const wait = this.startWait(request, () => undefined)
    this.#lookupsUnderWay++
    this.#lastLookup = this.#lastLookup.then(async () => {
      const found = await known
      this.#lookupsUnderWay--
      if (this.endWait(wait)) this.#lookedUp(request, found, startNs)
    })
  }

  #lookedUp(request: InferenceRequest, known: CachedAnswer | null, startNs: number): void {
    request.cacheNs = this.clock.nowNs() - startNs
    this.#cache.timings.lookupNs += request.cacheNs
    if (known === null) {
      this.#keepAnswer(request)
      this.inner.enqueue(request)
      return
    }
    request.isCacheHit = true
    request.queueStartNs = startNs
    this.inner.joinOrder?.(request)
    request.respond(InferenceResponse.of(known.outputs, { parameters: known.parameters }))
  }

  #keepAnswer(request: InferenceRequest): void {
    const pass = (response: InferenceResponse): InferenceResponse => {
      const isAnswer = response.error === null && response.isFinal && !response.isFlagOnly
      // A shared answer is in the cache already, and answers of an unloaded model are of no use.
      if (isAnswer && !request.isCacheHit && !this.#isClosed) {
        const startNs = this.clock.nowNs()
        const problem = this.#cache.insert(request.contentKey, response)
        const takenNs = this.clock.nowNs() - startNs
        this.#cache.timings.insertNs += takenNs
        request.cacheNs += takenNs
        if (problem !== '') this.#warn(request, problem)
      }
      return response
    }
    request.setStage('keep', { pass })
  }

  #warn({ modelName, contentKey }: InferenceRequest, problem: string): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    this.#log.warning(
      `Failed to insert key [${contentKey}] into response cache: ${problem}. Further answers of model '${modelName}' that are too large are not told.`,
    )
  }
}
