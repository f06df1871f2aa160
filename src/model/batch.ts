import { assert } from '../base/assert.ts'
import type { Clock } from '../base/clock.ts'
import { specimens } from '../base/specimens.ts'
import type { InferenceRequest } from './inference-request.ts'

/** The work that an Instance has done for a Batch before the Batch executes. */
export interface PreparedBatch {
  /** Nobody will use the prepared batch: it gives back the memory that it holds. */
  drop(): void
}

/** Requests that an Instance executes together. */
export class Batch {
  readonly requests: readonly InferenceRequest[]
  /** Rows of all requests summed; not the number of requests. A request of a model without batching counts 1. */
  readonly batchSize: number
  /** The result of `prepare` for these requests; null when nothing was prepared. */
  prepared: PreparedBatch | null = null
  /** Measures how long instances are busy. The meter is the first to learn that this batch is done. */
  meter: { batchExecuted(): number } | null = null
  /** When the batch was executed; 0 where no meter was asked. */
  executedNs = 0
  /** False for an execution that the backend does not report, as one that failed. Triton does not count it either. */
  isCounted = true
  #startNs = 0
  #onExecuted: (() => void) | null

  constructor(requests: readonly InferenceRequest[], batchSize: number, onExecuted: () => void) {
    this.requests = requests
    this.batchSize = batchSize
    this.#onExecuted = onExecuted
  }

  /** When the Instance got the batch. Whoever asks first reads the clock. */
  startNs(clock: Clock): number {
    if (this.#startNs === 0) this.#startNs = clock.nowNs()
    return this.#startNs
  }

  /**
   * The Instance calls this exactly once, when it can take the next Batch. By then every request has ended or was
   * rescheduled, or the Instance answers it before control goes back to the event loop. A decoupled model may answer
   * later.
   */
  executed(): void {
    const onExecuted = this.#onExecuted
    assert(onExecuted !== null, 'a batch is executed once')
    this.#onExecuted = null
    if (this.meter !== null) this.executedNs = this.meter.batchExecuted()
    if (this.isCounted) this.#tellEngine()
    onExecuted()
  }

  /** The batch calls `first` before it tells its maker that it executed. */
  beforeExecuted(first: () => void): void {
    const then = this.#onExecuted
    assert(then !== null, 'a batch is executed once')
    this.#onExecuted = () => {
      first()
      then()
    }
  }

  /** All requests of a batch are of one version, so one of them tells it. Requests that only fill up have none. */
  #tellEngine(): void {
    for (let i = 0; i < this.requests.length; i++) {
      const request = this.requests[i] as InferenceRequest
      if (request.tellExecuted(this)) return
    }
  }
}

specimens.add(() => new Batch([], 0, () => undefined))
