// What the worker may send before it must wait: it is told how many answers were passed on, and told nothing while their
// reader is behind (python/galatea_worker/flow.py).

import type { InferenceRequest } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'

/** Told when this much was taken: the worker may be twice as far ahead. */
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

  /** HOT: once per answer that is not the last, after it was passed on: its reader may have said that it is too much. */
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

  /** Whatever the worker still sends for a request that ended by other hands is dropped: nobody is behind. */
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
