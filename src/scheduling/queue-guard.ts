// Who may wait in a queue, and who must leave it: when the queue is full, when more comes than the model can do, when a
// deadline cannot be met. OverloadControl finds the overload, FairLine has the order.

import type { ServerError } from '../base/server-error.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { Arrivals, FairLine, Queued } from './fair-line.ts'
import type { OverloadState, QueueDoor, QueueRefusal, QueueReport } from '../model/queue-report.ts'
import { OverloadControl, type OverloadSettings } from './overload-control.ts'
import {
  deadlineError,
  fairShareError,
  overloadError,
  queueFullError,
  unreadOverloadError,
  unreadQueueFullError,
} from './refusals.ts'

/** Requests that wait since before an overload are refused when it has kept them for so long. */
const longestBacklogWaitNs = 30e9
/** An overload that begins finds many requests to refuse. So many at a time do not hold others up. */
const refusedAtOnce = 8
/** So many requests of ensembles are looked past, to find one that can be refused. */
const searchedAtOnce = 32
/** What a client is told at most. */
const longestRetrySecs = 60

/** A queue, as far as it is asked whom to refuse. */
interface Refusable<T> {
  readonly size: number
  /** Of the requests that came in this overload, the one that would run last. */
  stalest(): T | null
  /** The request that waits longest of those that came before this overload. */
  oldestBacklog(): T | null
}

type GuardSettings = {
  readonly modelName: string
  /** Null: an overload is not looked for. */
  readonly overload: OverloadSettings | null
  /** Answers leave in the order of the requests, so requests must run in it. */
  readonly keepsOrder: boolean
  /** Which request is refused depends on what the request says, so the door stays open. */
  readonly hasPriorities?: boolean
  /** Whether so many requests of this tenant wait that its next one is refused. Absent: requests are read before that is asked. */
  readonly isFullFor?: ((tenant: string) => boolean) | null
}

export class QueueGuard implements QueueReport, QueueDoor {
  readonly counts: Record<QueueRefusal, number> = { queue_full: 0, overload: 0, deadline: 0, fair_share: 0 }
  readonly #control: OverloadControl | null
  readonly #arrivals: Arrivals
  readonly #settings: GuardSettings
  /** What the last request was told that the door turned away. */
  #turnedAway: ServerError | null = null
  #full: ServerError | null = null
  readonly #isFullFor: ((tenant: string) => boolean) | null
  #isEmpty = true
  /** When the latest request came. */
  #nowNs = 0
  /** Requests that came since the last start. */
  #sinceStart = 0
  readonly #mostPerStart: number

  constructor(settings: GuardSettings, arrivals: Arrivals) {
    const { overload } = settings
    this.#settings = settings
    this.#isFullFor = settings.isFullFor ?? null
    this.#control = overload === null ? null : new OverloadControl(overload)
    this.#arrivals = arrivals
    this.#mostPerStart = 2 * (overload?.maxBatchSize ?? 1)
  }

  /** Whether `started` wants to know the time. */
  get isWatching(): boolean {
    return this.#control !== null
  }

  get state(): OverloadState {
    return this.#control === null || this.#isEmpty ? 'CALM' : this.#control.state
  }

  get isShut(): boolean {
    const control = this.#control
    if (control === null || control.state !== 'REFUSING' || this.#sinceStart < this.#mostPerStart) return false
    if (this.#settings.hasPriorities === true || this.#arrivals.hasRivals) return false
    return this.#arrivals.freshCount >= control.bound
  }

  turnAway(): ServerError {
    this.#control?.turnedAway()
    this.counts.overload++
    const retryAfterSecs = this.#retryAfterSecs(this.#arrivals.freshCount)
    const last = this.#turnedAway
    // Thousands a second get the same words, so they get the same error.
    if (last !== null && last.retryAfterSecs === retryAfterSecs) return last
    return (this.#turnedAway = unreadOverloadError(this.#settings.modelName, retryAfterSecs))
  }

  isFullFor(tenant: string): boolean {
    return this.#isFullFor !== null && this.#isFullFor(tenant)
  }

  turnAwayFromFull(): ServerError {
    this.counts.queue_full++
    return (this.#full ??= unreadQueueFullError(this.#settings.modelName))
  }

  /** A request came. */
  arrived(nowNs: number): void {
    const control = this.#control
    if (control === null) return
    this.#nowNs = nowNs
    this.#isEmpty = false
    this.#sinceStart++
    control.arrived(nowNs)
    if (this.#arrivals.isNewestFirst === control.isCalm) this.#follow(control)
  }

  /** A request found an idle Instance and did not wait. HOT. */
  passed(nowNs: number): void {
    const control = this.#control
    if (control === null || control.isCalm) return
    this.#sinceStart = 0
    control.passed(nowNs)
    if (control.isCalm) this.#follow(control)
  }

  /** So many requests begin to run, the first of them after this delay. */
  started(count: number, delayNs: number, nowNs: number, instanceCount: number): void {
    const control = this.#control
    if (control === null) return
    this.#sinceStart = 0
    control.started(count, delayNs, nowNs, instanceCount)
    if (this.#arrivals.isNewestFirst === control.isCalm) this.#follow(control)
  }

  /** A request left because its client gave it up, or its time was over. */
  quit(): void {
    this.#control?.quit()
  }

  /** Nobody waits any more. */
  emptied(): void {
    this.#isEmpty = true
    this.#control?.emptied()
  }

  /** To be called before the queue is asked who runs next: whether the order follows the shares of tenants. */
  arrange(size: number, bound: number): void {
    const least = this.#control === null ? bound : Math.min(bound, this.#control.bound)
    this.#arrivals.isFair = 2 * size > least
    this.#arrivals.creditRows = least === Infinity ? 0 : least
  }

  /**
   * Why `request` may not join `line`, which belongs to a queue of `size` requests; null: the request may join. `leave` takes
   * a request out of the queue, to make room.
   */
  refusalOf<T extends Queued<T>>(
    request: InferenceRequest,
    line: FairLine<T>,
    size: number,
    bound: number,
    leave: (item: T) => void,
  ): ServerError | null {
    if (size >= bound && !this.#makeRoom(request, line, size, leave)) {
      this.#count(request, 'queue_full')
      return queueFullError(request)
    }
    return this.#control === null ? null : this.#refusalIn(this.#control, request, size)
  }

  /** Refuses requests that will not run in time. `leave` takes one out of the queue. */
  refuseSurplus<T extends Queued<T>>(queue: Refusable<T>, nowNs: number, leave: (item: T) => void): void {
    const control = this.#control
    if (control === null || control.state !== 'REFUSING') return
    for (let i = 0; i < refusedAtOnce; i++) {
      const item = this.#surplus(control, queue, nowNs)
      if (item === null) return
      leave(item)
      item.request.fail(this.#overloadError(item.request, queue.size))
    }
  }

  #surplus<T extends Queued<T>>(control: OverloadControl, queue: Refusable<T>, nowNs: number): T | null {
    if (this.#arrivals.freshCount > control.bound) return outermost(queue.stalest())
    const oldest = queue.oldestBacklog()
    const isTooOld = oldest !== null && nowNs - oldest.request.queueStartNs > longestBacklogWaitNs
    return isTooOld && !oldest.request.isInner ? oldest : null
  }

  #makeRoom<T extends Queued<T>>(
    request: InferenceRequest,
    line: FairLine<T>,
    size: number,
    leave: (item: T) => void,
  ): boolean {
    const victim = line.victimFor(request)
    if (victim === null) return false
    leave(victim)
    this.#count(victim.request, 'fair_share')
    victim.request.fail(fairShareError(victim.request, this.#retryAfterSecs(size)))
    return true
  }

  #refusalIn(control: OverloadControl, request: InferenceRequest, size: number): ServerError | null {
    if (request.isInner) return null
    const { keepsOrder } = this.#settings
    if (keepsOrder && control.state === 'REFUSING' && size >= control.bound) return this.#overloadError(request, size)
    // Nobody waits for the answer, and those who wait for theirs need the time.
    if (request.isShadow && !control.isCalm) return this.#overloadError(request, size)
    // Where the newest request runs first, it need not wait for the others.
    if (!control.isDelayed || this.#arrivals.isNewestFirst) return null
    const leftNs = timeLeftNs(request, this.#nowNs)
    const waitNs = control.drainNs(size)
    if (waitNs <= leftNs) return null
    this.#count(request, 'deadline')
    return deadlineError(request, waitNs, this.#retryAfterSecs(size))
  }

  #overloadError(request: InferenceRequest, size: number): ServerError {
    this.#count(request, 'overload')
    return overloadError(request.errorPrefix, request.modelName, this.#retryAfterSecs(size))
  }

  #count(request: InferenceRequest, reason: QueueRefusal): void {
    this.counts[reason]++
    request.refusal = reason
  }

  /** When the requests that wait now have run. */
  #retryAfterSecs(size: number): number {
    return Math.min(longestRetrySecs, Math.max(1, Math.ceil((this.#control?.drainNs(size) ?? 0) / 1e9)))
  }

  #follow(control: OverloadControl): void {
    if (!this.#settings.keepsOrder) this.#arrivals.setNewestFirst(!control.isCalm)
  }
}

/** How long the request may wait, by its own time-out and by the deadline of its call. */
function timeLeftNs({ timeoutUs, deadlineNs }: InferenceRequest, nowNs: number): number {
  const timeoutNs = timeoutUs === 0n ? Infinity : Number(timeoutUs) * 1000
  return deadlineNs === 0 ? timeoutNs : Math.min(timeoutNs, deadlineNs - nowNs)
}

/**
 * A request of an ensemble or of a model's code is not refused half way: the work that was done for it would be lost. The
 * request that it serves is refused at the door. Null when none of the next requests can be refused.
 */
function outermost<T extends Queued<T>>(stalest: T | null): T | null {
  let item = stalest
  for (let i = 0; i < searchedAtOnce && item !== null && item.request.isInner; i++) item = item.next
  return item === null || item.request.isInner ? null : item
}
