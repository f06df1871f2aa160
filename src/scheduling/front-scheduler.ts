import type { Clock } from '../base/clock.ts'
import { Drain } from '../base/drain.ts'
import type { Instance } from '../model/backend.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { Scheduler, Sequences } from '../model/scheduler.ts'
import type { QueueReport } from '../model/queue-report.ts'
import { stoppedError } from './refusals.ts'
import { RequestWait } from './request-wait.ts'

/**
 * Wraps a model's scheduler: requests may wait here before they go on to the inner scheduler, or are answered without
 * it. All other calls go to the inner scheduler.
 */
export abstract class FrontScheduler implements Scheduler {
  protected readonly clock: Clock
  protected readonly inner: Scheduler
  readonly #waits = new Set<RequestWait>()
  readonly #drain = new Drain(() => this.#waits.size === 0)

  constructor(clock: Clock, inner: Scheduler) {
    this.clock = clock
    this.inner = inner
  }

  /** Takes a request that came before `drain`: it waits, goes on to the inner scheduler, or is answered. */
  protected abstract admit(request: InferenceRequest): void

  get pendingCount(): number {
    return this.inner.pendingCount + this.#waits.size
  }

  get sequences(): Sequences | null {
    return this.inner.sequences ?? null
  }

  get queue(): QueueReport | null {
    return this.inner.queue ?? null
  }

  get hasCache(): boolean {
    return this.inner.hasCache ?? false
  }

  enqueue(request: InferenceRequest): void {
    if (this.#drain.isRefusing) request.fail(stoppedError(request))
    // A copy that is compared must be computed, and must not become the answer of another request.
    else if (request.isShadow) this.inner.enqueue(request)
    else this.admit(request)
  }

  joinOrder(request: InferenceRequest): void {
    this.inner.joinOrder?.(request)
  }

  instancesChanged(): void {
    this.inner.instancesChanged()
  }

  setInstances(instances: readonly Instance[]): Promise<void> {
    return this.inner.setInstances?.(instances) ?? Promise.resolve()
  }

  /** A request that waits here may still go on, so the inner scheduler drains only when no request waits. */
  async drain(): Promise<void> {
    await this.#drain.drained()
    await this.inner.drain()
  }

  close(): void {
    this.#drain.refuse()
    this.inner.close()
    for (const wait of this.#waits) {
      this.endWait(wait)
      wait.request.fail(stoppedError(wait.request))
    }
  }

  protected get waitCount(): number {
    return this.#waits.size
  }

  /** `onLeave` is called when the request is cancelled or reaches its timeout during the wait. */
  protected startWait(request: InferenceRequest, onLeave: (wait: RequestWait) => void): RequestWait {
    const wait = new RequestWait(this.clock, request, (left) => {
      onLeave(left)
      this.#forget(left)
    })
    this.#waits.add(wait)
    return wait
  }

  /** The caller takes the request over, with the rest of its timeout. False: the request has been answered already. */
  protected endWait(wait: RequestWait): boolean {
    if (!this.#forget(wait)) return false
    wait.end()
    return true
  }

  #forget(wait: RequestWait): boolean {
    const wasThere = this.#waits.delete(wait)
    this.#drain.check()
    return wasThere
  }
}
