// Triton's dynamic batcher: requests wait a little, run together, and each gets its own answer. planBatch decides what
// runs next; this class holds the queue, the idle Instances and the timers.

import type { Cancel, Clock } from '../base/clock.ts'
import { Drain } from '../base/drain.ts'
import type { ServerError } from '../base/server-error.ts'
import type { Instance } from '../model/backend.ts'
import { Batch } from '../model/batch.ts'
import type { BatchPadding } from '../config/batch-padding.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { AdaptiveDelay } from './adaptive-delay.ts'
import { BatchPrefetch } from './batch-prefetch.ts'
import { BatchQueue, type WaitingRequest } from './batch-queue.ts'
import { Deadlines } from './deadlines.ts'
import type { DynamicBatchSettings } from './dynamic-batch-settings.ts'
import { canBegin, claimantsOf, InstanceSeat, reseat } from './instance-seat.ts'
import { LoneRuns } from './lone-runs.ts'
import { padBatch } from './pad-batch.ts'
import { planBatch, type BatchLimits } from './plan-batch.ts'
import { QueueGuard } from './queue-guard.ts'
import { queueFullError, stoppedError, timeoutError } from './refusals.ts'
import { ResponseOrder } from './response-order.ts'
import { mayStart, type StartHold } from './start-hold.ts'

/**
 * A batch may leave so much of its delay early. Without that the event loop turns until the last microsecond of the delay,
 * and this costs as much as a small model.
 */
const earlyShare = 1 / 8
const mostEarlyNs = 50e3

export type DynamicBatchDependencies = {
  readonly clock: Clock
  /**
   * Calls back at the end of this turn of the event loop. So all requests that arrive in one turn are in the queue
   * before the first of them goes to an idle Instance. Without this an Instance that executes in the server's thread
   * would never get two requests together.
   */
  readonly afterThisTurn: (fire: () => void) => void
}

export class DynamicBatchScheduler implements Scheduler {
  readonly #clock: Clock
  readonly #afterThisTurn: DynamicBatchDependencies['afterThisTurn']
  readonly #limits: BatchLimits
  readonly #queue: BatchQueue
  readonly #guard: QueueGuard
  readonly #order: ResponseOrder | null
  /** How many finished requests may be held back to keep the order; above it no request is admitted. */
  readonly #maxDoneCount: number
  readonly #maxQueueSize: number
  readonly #padding: BatchPadding | null
  readonly #adaptive: AdaptiveDelay | null
  /** Empty, but for the moment in which a batch is made. */
  readonly #taken: WaitingRequest[] = []
  readonly #prefetch = new BatchPrefetch()
  #isPrefetching = false
  /** Null: a batch that failed is not run again. */
  readonly #loneRuns: LoneRuns | null
  /** Idle Instances. The one that became idle last stands at the end and is used first: its caches are the warmest. */
  #idle: InstanceSeat[]
  #seats: readonly InstanceSeat[]
  #claimants: readonly Instance[]
  readonly #drain = new Drain(() => this.#isEmpty && this.#runningCount === 0)
  /** Null as soon as the scheduler has begun. */
  #hold: StartHold | null
  #isDispatching = false
  #isTurnAwaited = false
  #runningCount = 0
  #cancelWake: Cancel | null = null
  #wakeNs = Infinity
  /** Batches that were to leave until then leave now. It can lie a little ahead of the clock. */
  #reachedNs = -Infinity
  readonly #deadlines: Deadlines<WaitingRequest>

  constructor(
    dependencies: DynamicBatchDependencies,
    instances: readonly Instance[],
    { limits, queue, preservesOrder, padding = null, sloNs = null, ...more }: DynamicBatchSettings,
  ) {
    this.#clock = dependencies.clock
    this.#afterThisTurn = dependencies.afterThisTurn
    this.#seats = instances.map((instance) => new InstanceSeat(instance))
    this.#claimants = claimantsOf(this.#seats)
    this.#idle = this.#seats.toReversed()
    this.#limits = limits
    this.#queue = new BatchQueue(queue)
    this.#guard = new QueueGuard(
      {
        modelName: more.modelName ?? '',
        overload: more.overload ?? null,
        keepsOrder: preservesOrder,
        hasPriorities: queue.priorityLevels > 1n,
        // The queue may be full of requests of this turn, which idle Instances can take at once.
        isFullFor:
          more.refusesUnread === true ? (tenant) => !this.#isTurnAwaited && this.#queue.isFullFor(tenant) : null,
      },
      this.#queue.arrivals,
    )
    this.#deadlines = new Deadlines(this.#clock, (nowNs) => {
      this.#expire(nowNs)
      this.#dispatch()
    })
    this.#order = preservesOrder ? new ResponseOrder() : null
    this.#maxQueueSize = queue.defaultMaxQueueSize
    // Answers take memory that nobody counts, so fewer of them wait than requests may.
    this.#maxDoneCount = Math.min(this.#maxQueueSize, Math.max(100, 8 * limits.maxBatchSize * instances.length))
    this.#padding = padding
    this.#hold = more.startHold ?? null
    this.#adaptive = sloNs === null ? null : new AdaptiveDelay(sloNs, limits)
    this.#loneRuns =
      more.runsFailedAlone === true
        ? new LoneRuns(
            () => this.#dispatchAfterThisTurn(),
            () => this.#drain.check(),
          )
        : null
  }

  get queue(): QueueGuard {
    return this.#guard
  }

  get door(): QueueGuard {
    return this.#guard
  }

  get pendingCount(): number {
    return this.#queue.size + (this.#loneRuns?.size ?? 0)
  }

  /** Nothing waits for an Instance. */
  get #isEmpty(): boolean {
    return this.#queue.size === 0 && (this.#loneRuns === null || this.#loneRuns.size === 0)
  }

  // HOT: once per request.
  enqueue(request: InferenceRequest): void {
    if (this.#drain.isRefusing) {
      request.fail(stoppedError(request))
      return
    }
    const nowNs = this.#clock.nowNs()
    const refusal = this.#refusalOf(request, nowNs)
    if (refusal !== null) {
      request.fail(refusal)
      return
    }
    request.queueStartNs = nowNs
    const waiting = this.#queue.push(request, nowNs)
    request.handOver({ onCancel: () => this.#leave(waiting, failCancelled) })
    this.#order?.join(request)
    this.#adaptive?.arrived(waiting.rows, nowNs)
    this.#deadlines.add(waiting, nowNs)
    this.#guard.refuseSurplus(this.#queue, nowNs, this.#drop)
    if (this.#idle.length === 0) {
      if (this.#queue.rows >= this.#limits.maxBatchSize) this.#prefetchAfterThisTurn()
      return
    }
    if (this.#queue.rows >= this.#limits.maxBatchSize) this.#dispatch()
    else this.#dispatchAfterThisTurn()
  }

  #refusalOf(request: InferenceRequest, nowNs: number): ServerError | null {
    this.#guard.arrived(nowNs)
    let joined = this.#queue.joinedBy(request)
    // The queue may be full of requests of this turn, which idle Instances can take at once.
    if (joined.size >= joined.bound && this.#isTurnAwaited) {
      this.#dispatch()
      joined = this.#queue.joinedBy(request)
    }
    if (this.#order?.isFull(this.#maxDoneCount) === true) return queueFullError(request)
    return this.#guard.refusalOf(request, joined.line, joined.size, joined.bound, this.#drop)
  }

  /** For an answer that needs no execution, as one from the response cache: it leaves in the order of the requests. */
  joinOrder(request: InferenceRequest): void {
    this.#order?.join(request)
  }

  instancesChanged(): void {
    this.#dispatch()
  }

  setInstances(instances: readonly Instance[]): Promise<void> {
    const { seats, left } = reseat(this.#seats, instances)
    this.#seats = seats
    this.#claimants = claimantsOf(seats)
    this.#idle = seats.filter((seat) => seat.runningCount === 0).toReversed()
    this.#dispatch()
    return left
  }

  /** Batches that wait for more requests run now, because no more requests will come. */
  drain(): Promise<void> {
    this.#drain.refuse()
    this.#dispatch()
    return this.#drain.idle()
  }

  close(): void {
    this.#drain.refuse()
    for (let waiting = this.#queue.first(); waiting !== null; waiting = this.#queue.first()) {
      this.#leave(waiting, (request) => request.fail(stoppedError(request)))
    }
    this.#loneRuns?.close()
    this.#drain.check()
  }

  /** Takes a waiting request out of the queue; another one comes in its place. */
  readonly #drop = (waiting: WaitingRequest): void => {
    this.#queue.remove(waiting)
    this.#deadlines.remove(waiting)
    waiting.request.handOver(null)
  }

  /** Takes a waiting request out of the queue and ends it. Does nothing for a request that already executes. */
  #leave(waiting: WaitingRequest, end: (request: InferenceRequest) => void): void {
    if (waiting.list === null) return
    this.#drop(waiting)
    this.#guard.quit()
    if (this.#queue.size === 0) this.#guard.emptied()
    // No request waits, so no timer is needed: an idle model costs no CPU.
    if (this.#isEmpty) {
      this.#forgetWake()
      this.#withdraw()
    }
    end(waiting.request)
    // Without the request that left, the waiting batch may be complete or have a preferred size.
    this.#dispatchAfterThisTurn()
    this.#drain.check()
  }

  #dispatchAfterThisTurn(): void {
    if (this.#isTurnAwaited || this.#isEmpty) return
    this.#isTurnAwaited = true
    this.#afterThisTurn(this.#endTurn)
  }

  readonly #endTurn = (): void => {
    if (this.#isTurnAwaited) this.#dispatch()
  }

  /** Hands batches to idle Instances. The guard is there because an Instance may finish inside `execute`. */
  #dispatch(): void {
    if (this.#isDispatching) return
    this.#isTurnAwaited = false
    if (this.#hold !== null && !mayStart(this.#hold, this.#queue.size, 0) && !this.#drain.isRefusing) return
    this.#hold = null
    this.#isDispatching = true
    let isWaiting = false
    let isHeldUp = false
    while (!this.#isEmpty) {
      const at = this.#idleAt()
      isHeldUp = at < 0
      if (isHeldUp) break
      // First those that began before anybody who waits.
      if (this.#loneRuns !== null && this.#loneRuns.size > 0) {
        const [seat] = this.#idle.splice(at, 1)
        this.#executeAlone(seat as InstanceSeat, this.#loneRuns.take())
        continue
      }
      const nowNs = this.#clock.nowNs()
      if (nowNs >= this.#deadlines.nextNs) {
        this.#expire(nowNs)
        continue
      }
      if (this.#queue.hasRivals) this.#guard.arrange(this.#queue.size, this.#maxQueueSize)
      const plan = planBatch(this.#queue, this.#limits, Math.max(nowNs, this.#reachedNs), this.#delayNs(nowNs))
      if (plan.kind === 'idle') break
      if (plan.kind === 'wait' && !this.#drain.isRefusing) {
        this.#wakeAt(plan.untilNs, nowNs)
        isWaiting = true
        break
      }
      const [seat] = this.#idle.splice(at, 1)
      this.#execute(seat as InstanceSeat, plan.requestCount, plan.batchSize, nowNs)
    }
    this.#isDispatching = false
    if (!isWaiting) this.#forgetWake()
    if (!isHeldUp) this.#withdraw()
    if (this.#queue.size > 0 && this.#idle.length === 0 && this.#queue.rows >= this.#limits.maxBatchSize)
      this.#prefetchAfterThisTurn()
    this.#drain.check()
  }

  #execute(seat: InstanceSeat, requestCount: number, batchSize: number, nowNs: number): void {
    const requests = this.#takeFirst(requestCount)
    const delayNs = nowNs - (requests[0] as InferenceRequest).queueStartNs
    this.#guard.started(requestCount, delayNs, nowNs, this.#seats.length)
    if (this.#queue.size === 0) this.#guard.emptied()
    if (this.#padding !== null) padBatch(this.#padding, requests)
    this.#runningCount++
    seat.begin()
    const startNs = this.#adaptive === null ? 0 : this.#clock.nowNs()
    const guard = this.#loneRuns === null || requestCount < 2 ? null : this.#loneRuns.guard(requests)
    const batch = new Batch(requests, batchSize, () => {
      guard?.executed()
      this.#runningCount--
      if (seat.end()) this.#idle.push(seat)
      this.#adaptive?.executed(batchSize, this.#clock.nowNs() - startNs)
      this.#dispatch()
    })
    if (!this.#prefetch.isEmpty) batch.prepared = this.#prefetch.take(requests)
    seat.instance.execute(batch)
  }

  /** Takes the next requests out of the queue. The order may change with the first that leaves, so all are found before. */
  #takeFirst(count: number): InferenceRequest[] {
    const taken = this.#taken
    for (let waiting = this.#queue.first(); waiting !== null && taken.length < count;) {
      taken.push(waiting)
      waiting = this.#queue.after(waiting)
    }
    const requests: InferenceRequest[] = []
    for (let i = 0; i < taken.length; i++) {
      const waiting = taken[i] as WaitingRequest
      this.#queue.take(waiting)
      this.#deadlines.remove(waiting)
      waiting.request.handOver(null)
      requests.push(waiting.request)
    }
    taken.length = 0
    return requests
  }

  #executeAlone(seat: InstanceSeat, request: InferenceRequest): void {
    this.#runningCount++
    seat.begin()
    seat.instance.execute(
      new Batch([request], Math.max(1, request.batchSize), () => {
        this.#runningCount--
        if (seat.end()) this.#idle.push(seat)
        this.#dispatch()
      }),
    )
  }

  #delayNs(nowNs: number): number {
    if (this.#adaptive === null) return this.#limits.maxQueueDelayNs
    const oldestNs = this.#queue.first()?.enqueuedNs ?? nowNs
    return this.#adaptive.delayNs(this.#queue.rows, nowNs - oldestNs, nowNs, this.#seats.length)
  }

  /** A model with padding prepares nothing: padding changes requests, and waiting requests must stay unchanged. */
  #prefetchAfterThisTurn(): void {
    if (this.#isPrefetching || !this.#prefetch.isEmpty || this.#padding !== null) return
    // The next request that comes would run before those that were prepared.
    if (this.#queue.arrivals.isNewestFirst) return
    if (this.#seats[0]?.instance.prepare === undefined) return
    this.#isPrefetching = true
    this.#afterThisTurn(this.#prefetchNow)
  }

  readonly #prefetchNow = (): void => {
    this.#isPrefetching = false
    const instance = this.#seats[0]?.instance
    if (instance === undefined || this.#idle.length > 0 || this.#queue.rows < this.#limits.maxBatchSize) return
    this.#prefetch.make(this.#queue, this.#limits, this.#clock.nowNs(), instance)
  }

  #idleAt(): number {
    for (let i = this.#idle.length - 1; i >= 0; i--) if (canBegin((this.#idle[i] as InstanceSeat).instance)) return i
    return -1
  }

  /** No batch waits for an Instance, so the Instances leave the line for shared resources. */
  #withdraw(): void {
    for (const instance of this.#claimants) instance.withdraw?.()
  }

  #expire(nowNs: number): void {
    for (let due = this.#deadlines.takeDue(nowNs); due !== null; due = this.#deadlines.takeDue(nowNs)) {
      if (!this.#queue.expire(due)) continue
      this.#guard.quit()
      const { request } = due
      request.fail(timeoutError())
    }
  }

  #wakeAt(untilNs: number, nowNs: number): void {
    if (this.#wakeNs === untilNs) return
    this.#cancelWake?.()
    this.#wakeNs = untilNs
    const leftNs = untilNs - nowNs
    const wake = (): void => {
      this.#cancelWake = null
      this.#wakeNs = Infinity
      this.#reachedNs = untilNs
      this.#dispatch()
    }
    this.#cancelWake = this.#clock.afterExactly(leftNs, wake, Math.min(leftNs * earlyShare, mostEarlyNs))
  }

  #forgetWake(): void {
    this.#cancelWake?.()
    this.#cancelWake = null
    this.#wakeNs = Infinity
  }
}

const failCancelled = (request: InferenceRequest): void => request.failCancelled()
