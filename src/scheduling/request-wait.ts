import type { Cancel, Clock } from '../base/clock.ts'
import type { InferenceRequest, RequestHolder } from '../model/inference-request.ts'
import { timeoutError } from './refusals.ts'

/** A request that waits in front of its scheduler. It can be cancelled and can reach its timeout meanwhile. */
export class RequestWait implements RequestHolder {
  readonly request: InferenceRequest
  readonly #clock: Clock
  readonly #startNs: number
  readonly #stopTimer: Cancel | null
  /** Called when the request was cancelled or reached its timeout, before it is answered. */
  readonly #onLeave: (wait: RequestWait) => void

  constructor(clock: Clock, request: InferenceRequest, onLeave: (wait: RequestWait) => void) {
    this.#clock = clock
    this.request = request
    this.#onLeave = onLeave
    this.#startNs = clock.nowNs()
    request.handOver(this)
    const { timeoutUs } = request
    this.#stopTimer = timeoutUs > 0n ? clock.after(Number(timeoutUs) * 1000, () => this.#expire()) : null
  }

  onCancel(): void {
    this.#leave()
    this.request.failCancelled()
  }

  /** The request goes on to its scheduler, with the rest of its timeout. */
  end(): void {
    this.#stopTimer?.()
    const { request } = this
    request.handOver(null)
    if (request.timeoutUs === 0n) return
    const leftUs = request.timeoutUs - BigInt(Math.floor((this.#clock.nowNs() - this.#startNs) / 1000))
    // A timeout of 0 would mean that the request may wait for ever.
    request.timeoutUs = leftUs > 1n ? leftUs : 1n
  }

  #expire(): void {
    this.#leave()
    this.request.fail(timeoutError())
  }

  #leave(): void {
    this.#stopTimer?.()
    this.request.handOver(null)
    this.#onLeave(this)
  }
}
