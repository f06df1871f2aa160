// Triton's default scheduler: first in, first out, one request per execution. An idle Instance never waits while a
// request does. The queue has a bound; what comes above it is refused at once.

import type { Cancel, Clock } from '../base/clock.ts'
import { RingQueue } from '../base/ring-queue.ts'
import { ServerError } from '../base/server-error.ts'
import type { Instance } from '../model/backend.ts'
import { Batch } from '../model/batch.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { Scheduler } from '../model/scheduler.ts'

export type DirectSchedulerLimits = {
  /** Requests that may wait; Infinity for none. */
  readonly maxQueueSize: number
}

export class DirectScheduler implements Scheduler {
  readonly #clock: Clock
  readonly #limits: DirectSchedulerLimits
  /** Instances that execute nothing, the one that became idle last at the end: its caches are the warmest. */
  readonly #idle: Instance[]
  /**
   * The Instance of a model that has just one: it may be handed batches ahead of time (`prefetchDepth`). With several a
   * batch parked behind a long execution could wait while another Instance becomes idle, and an idle Instance with
   * eligible work is a bug. With one the order is the same wherever a request waits.
   */
  readonly #sole: Instance | null
  readonly #queue = new RingQueue<InferenceRequest>()
  readonly #timeouts = new Map<InferenceRequest, Cancel>()
  #isDraining = false
  #isDispatching = false
  #runningCount = 0
  #onDrained: (() => void) | null = null

  constructor(dependencies: { clock: Clock }, instances: readonly Instance[], limits: DirectSchedulerLimits) {
    this.#clock = dependencies.clock
    this.#idle = instances.toReversed()
    this.#sole = instances.length === 1 ? (instances[0] as Instance) : null
    this.#limits = limits
  }

  get pendingCount(): number {
    return this.#queue.size
  }

  enqueue(request: InferenceRequest): void {
    if (this.#isDraining) {
      this.#refuse(request)
      return
    }
    request.queueStartNs = this.#clock.nowNs()
    if (this.#queue.size === 0 && !this.#isDispatching) {
      const instance = this.#takeInstance(request)
      if (instance !== null) {
        this.#execute(instance, request)
        this.#dispatch()
        return
      }
    }
    if (this.#queue.size >= this.#limits.maxQueueSize) {
      request.fail(ServerError.withoutStack('UNAVAILABLE', `${request.errorPrefix}Exceeds maximum queue size`))
      return
    }
    this.#wait(request)
    this.#dispatch()
  }

  instancesChanged(): void {
    this.#dispatch()
  }

  drain(): Promise<void> {
    this.#isDraining = true
    return new Promise((resolve) => {
      this.#onDrained = resolve
      this.#checkDrained()
    })
  }

  close(): void {
    this.#isDraining = true
    for (let request = this.#queue.take(); request !== undefined; request = this.#queue.take()) {
      this.#forgetTimeout(request)
      this.#refuse(request)
    }
    this.#checkDrained()
  }

  #refuse(request: InferenceRequest): void {
    request.fail(ServerError.withoutStack('UNAVAILABLE', `${request.errorPrefix}${stoppedText}`))
  }

  #wait(request: InferenceRequest): void {
    this.#queue.push(request)
    request.onCancel = (cancelled) => this.#leave(cancelled, () => cancelled.failCancelled())
    if (request.timeoutUs > 0n) {
      const expire = (): void =>
        this.#leave(request, () => request.fail(ServerError.withoutStack('UNAVAILABLE', 'Request timeout expired')))
      this.#timeouts.set(request, this.#clock.after(Number(request.timeoutUs) * 1000, expire))
    }
  }

  /** Takes a waiting request out of the queue and ends it; one that is already running is not ours any more. */
  #leave(request: InferenceRequest, end: () => void): void {
    if (!this.#queue.remove(request)) return
    this.#forgetTimeout(request)
    request.onCancel = null
    end()
    this.#checkDrained()
  }

  #forgetTimeout(request: InferenceRequest): void {
    if (this.#timeouts.size === 0) return
    this.#timeouts.get(request)?.()
    this.#timeouts.delete(request)
  }

  /** Hands waiting requests to idle Instances. An Instance may finish before `execute` returns: hence the guard, not recursion. */
  #dispatch(): void {
    if (this.#isDispatching) return
    this.#isDispatching = true
    while (this.#queue.size > 0) {
      const instance = this.#takeInstance(this.#queue.peek() as InferenceRequest)
      if (instance === null) break
      const request = this.#queue.take() as InferenceRequest
      this.#forgetTimeout(request)
      this.#execute(instance, request)
    }
    this.#isDispatching = false
    this.#checkDrained()
  }

  #execute(instance: Instance, request: InferenceRequest): void {
    request.onCancel = null
    this.#runningCount++
    instance.execute(
      new Batch([request], Math.max(1, request.batchSize), () => {
        this.#runningCount--
        if (this.#sole === null) this.#idle.push(instance)
        this.#dispatch()
      }),
    )
  }

  /** The Instance that takes `request` now: an idle one, or the sole one when it takes batches ahead of time. */
  #takeInstance(request: InferenceRequest): Instance | null {
    if (this.#sole !== null) return this.#canTake(this.#sole, request) ? this.#sole : null
    const idle = this.#idle
    for (let i = idle.length - 1; i >= 0; i--) {
      const instance = idle[i] as Instance
      if (!instance.isReady) continue
      idle.splice(i, 1)
      return instance
    }
    return null
  }

  #canTake(sole: Instance, request: InferenceRequest): boolean {
    if (!sole.isReady) return false
    if (this.#runningCount === 0) return true
    // One with a timeout waits here, where it can still expire.
    return request.timeoutUs === 0n && this.#runningCount <= (sole.prefetchDepth ?? 0)
  }

  #checkDrained(): void {
    if (this.#onDrained === null || this.#queue.size > 0 || this.#runningCount > 0) return
    const onDrained = this.#onDrained
    this.#onDrained = null
    onDrained()
  }
}

const stoppedText = 'Server is stopping, scheduler for model has stopped accepting new inference requests'
