// How much the worker may send before it must wait. The server confirms answers that were passed on, and confirms none
// while their reader is behind (python/galatea_worker/flow.py).

import type { InferenceRequest } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'

/** The server confirms when this much was taken. The worker may be twice as far ahead. */
const takenAtResponses = 16
const takenAtBytes = 256 * 1024

class Taken {
  readonly handle: number
  count = 0
  bytes = 0

  constructor(handle: number) {
    this.handle = handle
  }
}

export class ResponseFlow {
  readonly #tell: (handle: number, count: number) => void
  readonly #open = new Map<InferenceRequest, Taken>()

  constructor(tell: (handle: number, count: number) => void) {
    this.#tell = tell
  }

  /** HOT: once per answer that is not the last. The answer was passed on before, and its reader may have paused then. */
  passedOn(request: InferenceRequest, handle: number, response: InferenceResponse): void {
    let taken = this.#open.get(request)
    if (taken === undefined) {
      taken = new Taken(handle)
      this.#open.set(request, taken)
    }
    taken.count++
    for (const output of response.outputs) taken.bytes += output.bytes.length
    const isWorthTelling = taken.count >= takenAtResponses || taken.bytes >= takenAtBytes
    if (isWorthTelling && !this.#mustWait(request)) this.#tellOf(taken)
  }

  changed(request: InferenceRequest): void {
    const taken = this.#open.get(request)
    if (taken !== undefined && !this.#mustWait(request)) this.#tellOf(taken)
  }

  forget(request: InferenceRequest): void {
    this.#open.delete(request)
  }

  clear(): void {
    this.#open.clear()
  }

  /** Answers to a request that has ended are dropped, so no reader is behind: the worker need not wait. */
  #mustWait(request: InferenceRequest): boolean {
    return request.isPaused && !request.isEnded
  }

  #tellOf(taken: Taken): void {
    const { count } = taken
    taken.count = 0
    taken.bytes = 0
    if (count > 0) this.#tell(taken.handle, count)
  }
}
