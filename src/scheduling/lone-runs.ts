// One request can make a whole batch fail: an index that is out of range, a text that the model's code cannot read. The other
// clients of the batch did nothing wrong. Each request of a batch of several that failed runs once more, alone, and the answer
// of that run is its answer: an error reaches the request that causes it and no other.

import type { InferenceRequest, RequestLender } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'

type Failed = { readonly request: InferenceRequest; readonly response: InferenceResponse }

/** Keeps the failures of one batch until the batch is executed: before that its Instance may still hold the requests. */
class BatchGuard implements RequestLender {
  readonly #runs: LoneRuns
  #failed: Failed[] | null = []

  constructor(runs: LoneRuns) {
    this.#runs = runs
  }

  /** A cancelled request has ended, and an error that the model itself answered with is the answer of that request. */
  takeFailure(request: InferenceRequest, response: InferenceResponse): boolean {
    if (this.#runs.isClosed || !response.isFinal || response.isAnswerOfModel) return false
    if (response.error?.code === 'CANCELLED') return false
    if (this.#failed === null) this.#runs.add(request, response)
    else this.#failed.push({ request, response })
    return true
  }

  /** An Instance may answer after this, in the same turn of the event loop. */
  executed(): void {
    const failed = this.#failed ?? []
    this.#failed = null
    for (const { request, response } of failed) this.#runs.add(request, response)
  }
}

export class LoneRuns {
  readonly #onAdded: () => void
  readonly #onLeft: () => void
  #waiting: Failed[] = []
  #isClosed = false

  /** `onAdded`: a request waits that waited not before. `onLeft`: a request that waited has ended. */
  constructor(onAdded: () => void, onLeft: () => void) {
    this.#onAdded = onAdded
    this.#onLeft = onLeft
  }

  get size(): number {
    return this.#waiting.length
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Called before an Instance gets a batch of several requests. */
  guard(requests: readonly InferenceRequest[]): BatchGuard {
    const guard = new BatchGuard(this)
    for (let i = 0; i < requests.length; i++) (requests[i] as InferenceRequest).lend(guard)
    return guard
  }

  /** The next request to run alone; there is one. What fails from now on has failed for good. */
  take(): InferenceRequest {
    const { request } = this.#waiting.shift() as Failed
    request.handOver(null)
    request.lend(null)
    return request
  }

  add(request: InferenceRequest, response: InferenceResponse): void {
    if (request.isCancelled || this.#isClosed) {
      request.lend(null)
      if (request.isCancelled) request.failCancelled()
      else request.respond(response)
      return
    }
    // The times of the run that counts are still to come.
    request.computeStartNs = request.computeInputEndNs = request.computeOutputStartNs = request.computeEndNs = 0
    const failed = { request, response }
    this.#waiting.push(failed)
    request.handOver({ onCancel: () => this.#leave(failed) })
    this.#onAdded()
  }

  /** Those that wait get the error of their batch. */
  close(): void {
    this.#isClosed = true
    const waiting = this.#waiting
    this.#waiting = []
    for (const { request, response } of waiting) {
      request.handOver(null)
      request.lend(null)
      request.respond(response)
    }
  }

  #leave(failed: Failed): void {
    this.#waiting = this.#waiting.filter((each) => each !== failed)
    failed.request.handOver(null)
    failed.request.lend(null)
    failed.request.failCancelled()
    this.#onLeft()
  }
}
