// Triton's dynamic batcher: requests wait a little, run together, and are answered each on its own. What runs next is
// decided by planBatch; this class holds the queue, the idle Instances and the timers.

import type { Cancel, Clock } from '../base/clock.ts'
import { ServerError } from '../base/server-error.ts'
import type { Instance } from '../model/backend.ts'
import { Batch } from '../model/batch.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { BatchQueue, type WaitingRequest } from './batch-queue.ts'
import type { DynamicBatchSettings } from './dynamic-batch-settings.ts'
import { planBatch, type BatchLimits } from './plan-batch.ts'
import { ResponseOrder } from './response-order.ts'

export type DynamicBatchDependencies = {
  readonly clock: Clock
  /**
   * Calls back once what is happening now has happened: requests that arrive in the same turn of the event loop are
   * all in the queue before the first of them is sent to an idle Instance. Without it an Instance that executes
   * inline would never see two requests together.
   */
  readonly afterThisTurn: (fire: () => void) => void
}

export class DynamicBatchScheduler implements Scheduler {
  readonly #clock: Clock
  readonly #afterThisTurn: DynamicBatchDependencies['afterThisTurn']
  readonly #limits: BatchLimits
  readonly #queue: BatchQueue
  readonly #order: ResponseOrder | null
  /** Instances that execute nothing, the one that became idle last at the end: its caches are the warmest. */
  readonly #idle: Instance[]
  #isDraining = false
  #isDispatching = false
  #isTurnAwaited = false
  #runningCount = 0
  #onDrained: (() => void) | null = null
  #cancelWake: Cancel | null = null
  #wakeNs = Infinity
  #cancelSweep: Cancel | null = null
  #sweepNs = Infinity

  constructor(
    dependencies: DynamicBatchDependencies,
    instances: readonly Instance[],
    { limits, queue, preservesOrder }: DynamicBatchSettings,
  ) {
    this.#clock = dependencies.clock
    this.#afterThisTurn = dependencies.afterThisTurn
    this.#idle = instances.toReversed()
    this.#limits = limits
    this.#queue = new BatchQueue(queue)
    this.#order = preservesOrder ? new ResponseOrder() : null
  }

  get pendingCount(): number {
    return this.#queue.size
  }

  // HOT: once per request.
  enqueue(request: InferenceRequest): void {
    if (this.#isDraining) {
      this.#refuse(request)
      return
    }
    // A full queue may be full of requests of this very turn, which an idle Instance is about to take.
    if (this.#queue.isFullFor(request) && this.#isTurnAwaited) this.#dispatch()
    if (this.#queue.isFullFor(request)) {
      request.fail(ServerError.withoutStack('UNAVAILABLE', `${request.errorPrefix}Exceeds maximum queue size`))
      return
    }
    const nowNs = this.#clock.nowNs()
    request.queueStartNs = nowNs
    const waiting = this.#queue.push(request, nowNs)
    request.onCancel = (cancelled) => this.#leave(waiting, () => cancelled.failCancelled())
    this.#order?.join(request)
    if (waiting.deadlineNs < this.#sweepNs) this.#sweepAt(waiting.deadlineNs, nowNs)
    if (this.#idle.length === 0) return
    if (this.#queue.rows >= this.#limits.maxBatchSize) this.#dispatch()
    else this.#dispatchAfterThisTurn()
  }

  /** For an answer that was ready when its request came, as from the response cache: it keeps its place all the same. */
  joinOrder(request: InferenceRequest): void {
    this.#order?.join(request)
  }

  instancesChanged(): void {
    this.#dispatch()
  }

  /** What waits for more requests to come runs now: none will. */
  drain(): Promise<void> {
    this.#isDraining = true
    this.#dispatch()
    return new Promise((resolve) => {
      this.#onDrained = resolve
      this.#checkDrained()
    })
  }

  close(): void {
    this.#isDraining = true
    for (let waiting = this.#queue.first(); waiting !== null; waiting = this.#queue.first()) {
      this.#leave(waiting, (request) => this.#refuse(request))
    }
    this.#checkDrained()
  }

  #refuse(request: InferenceRequest): void {
    request.fail(ServerError.withoutStack('UNAVAILABLE', `${request.errorPrefix}${stoppedText}`))
  }

  /** Takes a waiting request out of the queue and ends it; one that is already running is not ours any more. */
  #leave(waiting: WaitingRequest, end: (request: InferenceRequest) => void): void {
    if (!this.#queue.remove(waiting)) return
    waiting.request.onCancel = null
    // Nothing waits, so nothing need wake us: an idle model costs no CPU and holds no timer.
    if (this.#queue.size === 0) {
      this.#forgetWake()
      this.#forgetSweep()
    }
    end(waiting.request)
    // The batch that waited may have been waiting for the one that left, or be a preferred size without it.
    this.#dispatchAfterThisTurn()
    this.#checkDrained()
  }

  #dispatchAfterThisTurn(): void {
    if (this.#isTurnAwaited || this.#queue.size === 0) return
    this.#isTurnAwaited = true
    this.#afterThisTurn(this.#endTurn)
  }

  readonly #endTurn = (): void => {
    if (this.#isTurnAwaited) this.#dispatch()
  }

  /** Hands batches to idle Instances. An Instance may finish before `execute` returns: hence the guard, not recursion. */
  #dispatch(): void {
    if (this.#isDispatching) return
    this.#isDispatching = true
    this.#isTurnAwaited = false
    let isWaiting = false
    while (this.#queue.size > 0) {
      const at = this.#idleAt()
      if (at < 0) break
      const nowNs = this.#clock.nowNs()
      if (nowNs >= this.#queue.nextDeadlineNs) {
        this.#expire(nowNs)
        continue
      }
      const plan = planBatch(this.#queue, this.#limits, nowNs)
      if (plan.kind === 'idle') break
      if (plan.kind === 'wait' && !this.#isDraining) {
        this.#wakeAt(plan.untilNs, nowNs)
        isWaiting = true
        break
      }
      const [instance] = this.#idle.splice(at, 1)
      this.#execute(instance as Instance, plan.requestCount, plan.batchSize)
    }
    this.#isDispatching = false
    if (!isWaiting) this.#forgetWake()
    if (this.#queue.size === 0) this.#forgetSweep()
    this.#checkDrained()
  }

  #execute(instance: Instance, requestCount: number, batchSize: number): void {
    const requests: InferenceRequest[] = []
    while (requests.length < requestCount) {
      const waiting = this.#queue.first() as WaitingRequest
      this.#queue.remove(waiting)
      waiting.request.onCancel = null
      requests.push(waiting.request)
    }
    this.#runningCount++
    instance.execute(
      new Batch(requests, batchSize, () => {
        this.#runningCount--
        this.#idle.push(instance)
        this.#dispatch()
      }),
    )
  }

  #idleAt(): number {
    for (let i = this.#idle.length - 1; i >= 0; i--) if (this.#idle[i]?.isReady === true) return i
    return -1
  }

  #expire(nowNs: number): void {
    for (const { request } of this.#queue.expire(nowNs)) {
      request.onCancel = null
      request.fail(ServerError.withoutStack('UNAVAILABLE', 'Request timeout expired'))
    }
  }

  #wakeAt(untilNs: number, nowNs: number): void {
    if (this.#wakeNs === untilNs) return
    this.#cancelWake?.()
    this.#wakeNs = untilNs
    this.#cancelWake = this.#clock.afterExactly(untilNs - nowNs, () => {
      this.#cancelWake = null
      this.#wakeNs = Infinity
      this.#dispatch()
    })
  }

  /** Refusals may be a millisecond late: many requests may have deadlines of their own, and exact waits are dear. */
  #sweepAt(deadlineNs: number, nowNs: number): void {
    this.#cancelSweep?.()
    this.#sweepNs = deadlineNs
    this.#cancelSweep = this.#clock.after(deadlineNs - nowNs, () => {
      this.#cancelSweep = null
      this.#sweepNs = Infinity
      const firedNs = this.#clock.nowNs()
      this.#expire(firedNs)
      const nextNs = this.#queue.nextDeadlineNs
      if (nextNs < this.#sweepNs) this.#sweepAt(nextNs, firedNs)
      this.#dispatch()
    })
  }

  #forgetWake(): void {
    this.#cancelWake?.()
    this.#cancelWake = null
    this.#wakeNs = Infinity
  }

  #forgetSweep(): void {
    this.#cancelSweep?.()
    this.#cancelSweep = null
    this.#sweepNs = Infinity
  }

  #checkDrained(): void {
    if (this.#onDrained === null || this.#queue.size > 0 || this.#runningCount > 0) return
    const onDrained = this.#onDrained
    this.#onDrained = null
    onDrained()
  }
}

const stoppedText = 'Server is stopping, scheduler for model has stopped accepting new inference requests'
