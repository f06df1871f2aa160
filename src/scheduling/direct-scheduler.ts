// Triton's default scheduler: first in, first out, one request per execution. No Instance is idle while a request
// waits. The queue has a limit; a request that comes when the queue is full is refused at once.

import type { Clock } from '../base/clock.ts'
import { Drain } from '../base/drain.ts'
import { specimens } from '../base/specimens.ts'
import type { Instance } from '../model/backend.ts'
import { Batch } from '../model/batch.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { Deadlines, type Expiring } from './deadlines.ts'
import { Arrivals, FairLine, type Queued } from './fair-line.ts'
import { canBegin, claimantsOf, InstanceSeat, reseat } from './instance-seat.ts'
import type { LinkedList } from './linked-list.ts'
import type { OverloadSettings } from './overload-control.ts'
import { QueueGuard } from './queue-guard.ts'
import { stoppedError, timeoutError } from './refusals.ts'

type DirectSchedulerLimits = {
  readonly modelName?: string
  /** How many requests may wait; Infinity: no limit. */
  readonly maxQueueSize: number
  /** Null or absent: an overload is not looked for. */
  readonly overload?: OverloadSettings | null
  /** True: a request that finds the queue full is refused before it is read. */
  readonly refusesUnread?: boolean
}

class WaitingRequest implements Expiring, Queued<WaitingRequest> {
  readonly request: InferenceRequest
  readonly rows: number
  order = 0
  readonly deadlineNs: number
  deadlinePlace = -1
  deadlineOrder = 0
  list: LinkedList<WaitingRequest> | null = null
  previous: WaitingRequest | null = null
  next: WaitingRequest | null = null

  constructor(request: InferenceRequest, nowNs: number) {
    const { timeoutUs } = request
    this.request = request
    this.rows = Math.max(1, request.batchSize)
    this.deadlineNs = timeoutUs === 0n ? Infinity : nowNs + Number(timeoutUs) * 1000
  }
}

export class DirectScheduler implements Scheduler {
  readonly #clock: Clock
  /** Idle Instances. The one that became idle last stands at the end and is used first: its caches are the warmest. */
  #idle: InstanceSeat[]
  #seats: readonly InstanceSeat[]
  #claimants: readonly Instance[]
  /**
   * The Instance of a model that has only one: it may get batches ahead of time (`prefetchDepth`). With several
   * Instances a batch could wait behind a long execution while another Instance is idle, and that would be a bug. With
   * one Instance the order is the same wherever a request waits.
   */
  #sole: InstanceSeat | null
  readonly #arrivals = new Arrivals()
  readonly #queue = new FairLine<WaitingRequest>(this.#arrivals)
  readonly #guard: QueueGuard
  readonly #maxQueueSize: number
  readonly #deadlines: Deadlines<WaitingRequest>
  readonly #drain = new Drain(() => this.#queue.size === 0 && this.#runningCount === 0)
  #isDispatching = false
  #runningCount = 0

  constructor(dependencies: { clock: Clock }, instances: readonly Instance[], limits: DirectSchedulerLimits) {
    this.#clock = dependencies.clock
    this.#seats = instances.map((instance) => new InstanceSeat(instance))
    this.#claimants = claimantsOf(this.#seats)
    this.#idle = this.#seats.toReversed()
    this.#sole = this.#seats.length === 1 ? (this.#seats[0] as InstanceSeat) : null
    this.#maxQueueSize = limits.maxQueueSize
    this.#guard = new QueueGuard(
      {
        modelName: limits.modelName ?? '',
        overload: limits.overload ?? null,
        keepsOrder: false,
        isFullFor: limits.refusesUnread === true ? (tenant) => this.#isFullFor(tenant) : null,
      },
      this.#arrivals,
    )
    this.#deadlines = new Deadlines(this.#clock, (nowNs) => this.#expire(nowNs))
  }

  get queue(): QueueGuard {
    return this.#guard
  }

  get door(): QueueGuard {
    return this.#guard
  }

  get pendingCount(): number {
    return this.#queue.size
  }

  enqueue(request: InferenceRequest): void {
    if (this.#drain.isRefusing) {
      request.fail(stoppedError(request))
      return
    }
    const nowNs = this.#clock.nowNs()
    request.queueStartNs = nowNs
    if (this.#queue.size === 0 && !this.#isDispatching) {
      const seat = this.#takeSeat(request)
      if (seat !== null) {
        this.#guard.passed(nowNs)
        this.#execute(seat, request)
        this.#dispatch()
        return
      }
    }
    this.#guard.arrived(nowNs)
    const refusal = this.#guard.refusalOf(request, this.#queue, this.#queue.size, this.#maxQueueSize, this.#leave)
    if (refusal !== null) {
      this.#withdrawIfDone()
      request.fail(refusal)
      return
    }
    this.#wait(request, nowNs)
    this.#guard.refuseSurplus(this.#queue, nowNs, this.#leave)
    this.#dispatch()
  }

  #isFullFor(tenant: string): boolean {
    return this.#queue.size >= this.#maxQueueSize && this.#queue.isAllOf(tenant)
  }

  instancesChanged(): void {
    this.#dispatch()
  }

  setInstances(instances: readonly Instance[]): Promise<void> {
    const { seats, left } = reseat(this.#seats, instances)
    this.#seats = seats
    this.#claimants = claimantsOf(seats)
    this.#idle = seats.filter((seat) => seat.runningCount === 0).toReversed()
    this.#sole = seats.length === 1 ? (seats[0] as InstanceSeat) : null
    this.#dispatch()
    return left
  }

  drain(): Promise<void> {
    return this.#drain.drained()
  }

  close(): void {
    this.#drain.refuse()
    for (let waiting = this.#queue.first(); waiting !== null; waiting = this.#queue.first()) {
      this.#leave(waiting)
      waiting.request.fail(stoppedError(waiting.request))
    }
    this.#drain.check()
  }

  #wait(request: InferenceRequest, nowNs: number): void {
    const waiting = new WaitingRequest(request, nowNs)
    this.#queue.push(waiting)
    this.#deadlines.add(waiting, nowNs)
    request.handOver({
      onCancel: () => {
        this.#leave(waiting)
        this.#guard.quit()
        request.failCancelled()
        this.#drain.check()
      },
    })
  }

  #expire(nowNs: number): void {
    for (let due = this.#deadlines.takeDue(nowNs); due !== null; due = this.#deadlines.takeDue(nowNs)) {
      this.#leave(due)
      this.#guard.quit()
      due.request.fail(timeoutError())
    }
    this.#drain.check()
  }

  /** Takes a request out of the queue, because it ends. */
  readonly #leave = (waiting: WaitingRequest): void => {
    this.#queue.remove(waiting)
    this.#left(waiting)
  }

  /** Takes a request out of the queue, because it runs. */
  #take(waiting: WaitingRequest): void {
    if (this.#guard.isWatching) {
      const nowNs = this.#clock.nowNs()
      this.#guard.started(1, nowNs - waiting.request.queueStartNs, nowNs, this.#seats.length)
    }
    this.#queue.take(waiting)
    this.#left(waiting)
  }

  #left(waiting: WaitingRequest): void {
    this.#deadlines.remove(waiting)
    waiting.request.handOver(null)
    if (this.#queue.size === 0) this.#guard.emptied()
    this.#withdrawIfDone()
  }

  /** Hands waiting requests to idle Instances. The guard is there because an Instance may finish inside `execute`. */
  #dispatch(): void {
    if (this.#isDispatching) return
    this.#isDispatching = true
    while (this.#queue.size > 0) {
      if (this.#queue.hasRivals) this.#guard.arrange(this.#queue.size, this.#maxQueueSize)
      const waiting = this.#queue.first() as WaitingRequest
      const seat = this.#takeSeat(waiting.request)
      if (seat === null) break
      this.#take(waiting)
      this.#execute(seat, waiting.request)
    }
    this.#isDispatching = false
    this.#withdrawIfDone()
    this.#drain.check()
  }

  #execute(seat: InstanceSeat, request: InferenceRequest): void {
    this.#runningCount++
    seat.begin()
    seat.instance.execute(
      new Batch([request], Math.max(1, request.batchSize), () => {
        this.#runningCount--
        if (seat.end() && this.#sole === null) this.#idle.push(seat)
        this.#dispatch()
      }),
    )
  }

  /** The Instance that takes `request` now: an idle one, or the sole one when it takes batches ahead of time. */
  #takeSeat(request: InferenceRequest): InstanceSeat | null {
    if (this.#sole !== null) return this.#canTake(this.#sole, request) ? this.#sole : null
    const idle = this.#idle
    if (idle[0]?.instance.burden !== undefined) this.#lightestLast(request)
    for (let i = idle.length - 1; i >= 0; i--) {
      const seat = idle[i] as InstanceSeat
      if (!canBegin(seat.instance)) continue
      idle.splice(i, 1)
      return seat
    }
    return null
  }

  /** Those that compute several batches at a time are idle as long as they take more, so the last one would get them all. */
  #lightestLast(request: InferenceRequest): void {
    const burdens = this.#idle.map(({ instance }) => (instance.isReady ? (instance.burden?.(request) ?? 0) : Infinity))
    const [lightest] = this.#idle.splice(burdens.lastIndexOf(Math.min(...burdens)), 1)
    if (lightest !== undefined) this.#idle.push(lightest)
  }

  #canTake({ instance, runningCount }: InstanceSeat, request: InferenceRequest): boolean {
    if (runningCount === 0) return canBegin(instance)
    if (!instance.isReady) return false
    // A request with a timeout waits in this queue, where it can still expire.
    return request.timeoutUs === 0n && runningCount <= (instance.prefetchDepth ?? 0)
  }

  /** When no request waits, the Instances leave the line for shared resources. */
  #withdrawIfDone(): void {
    if (this.#queue.size === 0) for (const instance of this.#claimants) instance.withdraw?.()
  }
}

specimens.add(() => new WaitingRequest({ timeoutUs: 0n, batchSize: 1 } as InferenceRequest, 0))
