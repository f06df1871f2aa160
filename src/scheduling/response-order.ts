// preserve_ordering: answers leave in the order in which their requests came, whatever order they were made in.

import { RingQueue } from '../base/ring-queue.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'

class Turn {
  readonly request: InferenceRequest
  readonly held: InferenceResponse[] = []
  isOver = false

  constructor(request: InferenceRequest) {
    this.request = request
  }
}

export class ResponseOrder {
  readonly #turns = new RingQueue<Turn>()
  #isReleasing = false

  /** From here on the request's answers wait for those of the requests that came before it. */
  join(request: InferenceRequest): void {
    const turn = new Turn(request)
    this.#turns.push(turn)
    request.gate = (response) => this.#take(turn, response)
  }

  #take(turn: Turn, response: InferenceResponse): void {
    if (response.isFinal) turn.isOver = true
    // Nobody waits for a cancelled request, so its end need not wait either.
    if (response.error?.code === 'CANCELLED' && turn.request.isCancelled) {
      for (const held of turn.held.splice(0)) held.release()
      turn.request.deliver(response)
    } else turn.held.push(response)
    this.#release()
  }

  /** An answer may bring the next request, and that one an answer, before `deliver` returns: hence the guard. */
  #release(): void {
    if (this.#isReleasing) return
    this.#isReleasing = true
    for (let turn = this.#turns.peek(); turn !== undefined; turn = this.#turns.peek()) {
      for (let next = turn.held.shift(); next !== undefined; next = turn.held.shift()) turn.request.deliver(next)
      if (!turn.isOver) break
      this.#turns.take()
    }
    this.#isReleasing = false
  }
}
