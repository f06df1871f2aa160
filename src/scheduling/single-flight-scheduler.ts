import type { Clock } from '../base/clock.ts'
import type { ErrorCode } from '../base/server-error.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { queueFullError } from './refusals.ts'
import { FrontScheduler } from './front-scheduler.ts'
import type { RequestWait } from './request-wait.ts'
import { cacheKey } from '../model/response-cache.ts'

/** One execution under way, and who else waits for its answer, in the order they came. */
type Flight = { readonly followers: Set<RequestWait> }

/** Ends that say something about the one request, not about its inputs: those who wait with it are not meant. */
const ownEnds: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['CANCELLED', 'UNAVAILABLE'])

/**
 * In front of a model's scheduler: a request that asks what another one is already being computed for waits for that
 * answer. When the one that runs is cancelled, expires or is refused, the next of those that wait runs in its place.
 */
export class SingleFlightScheduler extends FrontScheduler {
  /** Who may wait for others in all; what comes above it is refused, as above the bound of a queue. */
  readonly #maxFollowers: number
  readonly #flights = new Map<string, Flight>()

  constructor(dependencies: { clock: Clock }, inner: Scheduler, maxFollowers = 10_000) {
    super(dependencies.clock, inner)
    this.#maxFollowers = maxFollowers
  }

  protected override admit(request: InferenceRequest): void {
    if (request.contentKey === '') request.contentKey = cacheKey('', request)
    const flight = this.#flights.get(request.contentKey)
    if (flight === undefined) this.#lead(request, { followers: new Set() })
    else this.#follow(request, flight)
  }

  override close(): void {
    // They end with the scheduler, not with the answer of the one they wait for.
    for (const { followers } of this.#flights.values()) followers.clear()
    super.close()
  }

  #lead(request: InferenceRequest, flight: Flight): void {
    this.#flights.set(request.contentKey, flight)
    request.setStage('share', {
      pass: (response) => (response.isFinal ? this.#land(request, flight, response) : response),
    })
    this.inner.enqueue(request)
  }

  #follow(request: InferenceRequest, flight: Flight): void {
    if (this.waitCount >= this.#maxFollowers) {
      request.fail(queueFullError(request))
      return
    }
    request.queueStartNs = this.clock.nowNs()
    flight.followers.add(this.startWait(request, (left) => flight.followers.delete(left)))
  }

  /** The one that ran has its last answer. Returns what it gets itself: all of them share the memory, which goes last. */
  #land(leader: InferenceRequest, flight: Flight, response: InferenceResponse): InferenceResponse {
    if (response.error !== null && ownEnds.has(response.error.code) && flight.followers.size > 0) {
      // Not within the end of the first: a scheduler is told of one request's end before it is given another.
      queueMicrotask(() => this.#relaunch(leader.contentKey, flight))
      return response
    }
    this.#flights.delete(leader.contentKey)
    const followers = [...flight.followers]
    if (followers.length === 0) return response
    flight.followers.clear()
    for (const wait of followers) this.endWait(wait)
    const { outputs, parameters, error } = response
    let holders = followers.length + 1
    const owner = response.withOutputs(outputs)
    const release = (): void => {
      holders--
      if (holders === 0) owner.release()
    }
    for (const { request } of followers) {
      request.isCacheHit = true
      if (error !== null) request.fail(error)
      else request.respond(InferenceResponse.of(outputs, { parameters, release }))
    }
    if (error !== null) return owner
    return InferenceResponse.of(outputs, { parameters, release })
  }

  /** The first of those who wait runs now, and the others wait for it. Until now they could leave as before. */
  #relaunch(key: string, flight: Flight): void {
    const [next] = flight.followers
    if (next === undefined) {
      this.#flights.delete(key)
      return
    }
    flight.followers.delete(next)
    this.endWait(next)
    this.#lead(next.request, flight)
  }
}
