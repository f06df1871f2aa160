import { RingQueue } from '../base/ring-queue.ts'

/** `max_inflight_requests`: how many requests one step may have in flight, over all requests to its ensemble. */
export class EnsembleGate {
  readonly #limit: number
  readonly #waiting = new RingQueue<() => boolean>()
  #inflightCount = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Calls `start` now or when there is room. `start` returns false for a request that has ended, else call `leave`. */
  enter(start: () => boolean): void {
    if (this.#inflightCount >= this.#limit) {
      this.#waiting.push(start)
      return
    }
    this.#inflightCount++
    if (!start()) this.leave()
  }

  leave(): void {
    this.#inflightCount--
    while (this.#inflightCount < this.#limit) {
      const start = this.#waiting.take()
      if (start === undefined) return
      this.#inflightCount++
      if (start()) return
      this.#inflightCount--
    }
  }
}
