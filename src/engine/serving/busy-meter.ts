import type { Clock } from '../../base/clock.ts'
import type { Instance } from '../../model/backend.ts'
import type { Batch } from '../../model/batch.ts'

/** Measures how long an Instance was executing. It reads the clock twice per batch and allocates nothing. */
export class BusyMeter {
  readonly #clock: Clock
  /** Batches under way; more than one where an Instance prefetches. */
  #batchCount = 0
  #busySinceNs = 0
  #busyNs = 0

  /** Replaces `execute` of the Instance. A wrapper object would have to pass on all other members. */
  constructor(clock: Clock, instance: Instance) {
    this.#clock = clock
    const execute = instance.execute.bind(instance)
    instance.execute = (batch: Batch) => {
      if (this.#batchCount === 0) this.#busySinceNs = batch.startNs(this.#clock)
      this.#batchCount++
      batch.meter = this
      execute(batch)
    }
  }

  /** Called by each batch, once. Gives the time. */
  batchExecuted(): number {
    const nowNs = this.#clock.nowNs()
    this.#batchCount--
    if (this.#batchCount === 0) this.#busyNs += nowNs - this.#busySinceNs
    return nowNs
  }

  /** Includes the time so far of a batch that is executing. A page of metrics may ask with a time before the batch began. */
  busyNs(nowNs: number): number {
    return this.#busyNs + (this.#batchCount === 0 ? 0 : Math.max(0, nowNs - this.#busySinceNs))
  }
}
