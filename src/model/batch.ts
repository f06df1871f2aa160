import { assert } from '../base/assert.ts'
import type { InferenceRequest } from './inference-request.ts'

/** What an Instance made of requests ahead of time. */
export interface PreparedBatch {
  /** Nobody will use it: what it holds goes back. */
  drop(): void
}

/** Requests that an Instance executes together. */
export class Batch {
  readonly requests: readonly InferenceRequest[]
  /** Rows of all requests summed; not the number of requests. A request of a model without batching counts 1. */
  readonly batchSize: number
  /** What an Instance of the model made of the requests ahead of time with `prepare`; null when nothing was. */
  prepared: PreparedBatch | null = null
  /** Set by whoever measures how long instances are busy: told before anybody else that this batch is done. */
  meter: { batchExecuted(): void } | null = null
  #onExecuted: (() => void) | null

  constructor(requests: readonly InferenceRequest[], batchSize: number, onExecuted: () => void) {
    this.requests = requests
    this.batchSize = batchSize
    this.#onExecuted = onExecuted
  }

  /**
   * Called by the Instance, exactly once, when it can take the next Batch. Of a model that is not decoupled every
   * request has ended or was rescheduled by then, or is answered before control goes back to the event loop; a decoupled one may go on
   * answering.
   */
  executed(): void {
    const onExecuted = this.#onExecuted
    assert(onExecuted !== null, 'a batch is executed once')
    this.#onExecuted = null
    this.meter?.batchExecuted()
    this.#tellEngine()
    onExecuted()
  }

  /** `first` is called before whoever made the batch is told that it executed. */
  beforeExecuted(first: () => void): void {
    const then = this.#onExecuted
    assert(then !== null, 'a batch is executed once')
    this.#onExecuted = () => {
      first()
      then()
    }
  }

  /** All requests of a batch are of one model version; a scheduler's own fillers belong to none. */
  #tellEngine(): void {
    for (let i = 0; i < this.requests.length; i++) {
      const request = this.requests[i] as InferenceRequest
      if (request.tellExecuted(this)) return
    }
  }
}
