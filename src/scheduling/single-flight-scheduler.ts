import type { Clock } from '../base/clock.ts'
import { waitTurn } from '../base/run-in-slices.ts'
import type { ErrorCode } from '../base/server-error.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { queueFullError } from './refusals.ts'
import { FrontScheduler } from './front-scheduler.ts'
import type { RequestWait } from './request-wait.ts'
import { cacheKeyInSlices } from '../model/response-cache.ts'

/** One execution under way, and the requests that wait for its answer, in the order they came. */
type Flight = { readonly followers: Set<RequestWait> }

/** Errors of one request that do not come from its inputs: the requests that wait for its answer do not get them. */
const ownEnds: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['CANCELLED', 'UNAVAILABLE'])

const answersPerTurn = 64

/**
 * While a request executes, requests with equal content wait for its answer. When the request that executes is
 * cancelled, expires or is refused, the next waiting request executes in its place.
 */
export class SingleFlightScheduler extends FrontScheduler {
  /** How many requests may wait in all; one more is refused with the error of a full queue. */
  readonly #maxFollowers: number
  readonly #flights = new Map<string, Flight>()
  /** Keys that are still computed, and the last of them. */
  #keysUnderWay = 0
  #lastKey: Promise<void> = Promise.resolve()

  constructor(dependencies: { clock: Clock }, inner: Scheduler, maxFollowers = 10_000) {
    super(dependencies.clock, inner)
    this.#maxFollowers = maxFollowers
  }

  protected override admit(request: InferenceRequest): void {
    const key = request.contentKey === '' ? cacheKeyInSlices(this.clock, '', request) : request.contentKey
    if (key instanceof Promise || this.#keysUnderWay > 0) this.#awaitKey(request, key)
    else this.#admitKeyed(request, key)
  }

  /** Large inputs take a while until their key is known. Requests go on in the order they came. */
  #awaitKey(request: InferenceRequest, key: string | Promise<string>): void {
    const wait = this.startWait(request, () => undefined)
    this.#keysUnderWay++
    this.#lastKey = this.#lastKey.then(async () => {
      // A key that is not known is of a request that was cancelled.
      const known = await Promise.resolve(key).catch(() => '')
      this.#keysUnderWay--
      if (this.endWait(wait)) this.#admitKeyed(request, known)
    })
  }

  #admitKeyed(request: InferenceRequest, key: string): void {
    request.contentKey = key
    const flight = this.#flights.get(request.contentKey)
    if (flight === undefined) this.#lead(request, { followers: new Set() })
    else this.#follow(request, flight)
  }

  override close(): void {
    // The scheduler ends the waiting requests; they do not wait for their answer.
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

  /** The leader has its final answer. Returns the answer for the leader; the last reader of the memory releases it. */
  #land(leader: InferenceRequest, flight: Flight, response: InferenceResponse): InferenceResponse {
    if (response.error !== null && ownEnds.has(response.error.code) && flight.followers.size > 0) {
      // This comes later, because the scheduler must see the end of this request before it gets the next.
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
    const answer = ({ request }: RequestWait): void => {
      request.isCacheHit = true
      if (error !== null) request.fail(error)
      else request.respond(InferenceResponse.of(outputs, { parameters, release }))
    }
    this.#answerSome(followers, 0, answer)
    if (error !== null) return owner
    return InferenceResponse.of(outputs, { parameters, release })
  }

  /** Each answer is written for a client of its own, and there may be thousands: others have their turn in between. */
  #answerSome(followers: readonly RequestWait[], from: number, answer: (wait: RequestWait) => void): void {
    const end = Math.min(followers.length, from + answersPerTurn)
    for (let i = from; i < end; i++) answer(followers[i] as RequestWait)
    if (end < followers.length) waitTurn(() => this.#answerSome(followers, end, answer))
  }

  /** The first request that waits runs now, and the others wait for its answer. */
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
