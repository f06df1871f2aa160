import type { Clock } from '../../base/clock.ts'
import type { Instance } from '../../model/backend.ts'
import type { Batch } from '../../model/batch.ts'

/** How long an Instance had something to execute. Costs two looks at the clock per batch, and makes nothing. */
export class BusyMeter {
  readonly #clock: Clock
  /** More than one where an Instance takes batches ahead. */
  #batchCount = 0
  #busySinceNs = 0
  #busyNs = 0

  /** Steps in front of `execute`: a wrapper would have to know everything else that an Instance can do. */
  constructor(clock: Clock, instance: Instance) {
    this.#clock = clock
    const execute = instance.execute.bind(instance)
    instance.execute = (batch: Batch) => {
      if (this.#batchCount === 0) this.#busySinceNs = this.#clock.nowNs()
      this.#batchCount++
      batch.meter = this
      execute(batch)
    }
  }

  /** Called by each batch, once. */
  batchExecuted(): void {
    this.#batchCount--
    if (this.#batchCount === 0) this.#busyNs += this.#clock.nowNs() - this.#busySinceNs
  }

  /** What executes now counts up to now. */
  busyNs(nowNs: number): number {
    return this.#busyNs + (this.#batchCount === 0 ? 0 : nowNs - this.#busySinceNs)
  }
}
