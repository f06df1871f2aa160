// preserve_ordering: answers leave in the order in which their requests came, not in the order of execution. With a
// decoupled model the first request in line streams, and the answers of all others are held. Held answers are bounded:
// a model with too many of them is paused, and the scheduler admits no more requests while too many finished requests
// wait for their turn.

import { RingQueue } from '../base/ring-queue.ts'
import type { AnswerStage, InferenceRequest } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'

/** So much of one request is held before its model is paused. A slow reader gets the same limit. */
const maxHeldResponses = 64
const maxHeldBytes = 1 << 20

class Turn implements AnswerStage {
  readonly request: InferenceRequest
  readonly held: InferenceResponse[] = []
  heldBytes = 0
  isOver = false
  /** The final answer of the request is held. */
  isDone = false
  /** This class paused the request and must resume it; a front end pauses requests too. */
  isPaused = false

  readonly #take: (turn: Turn, response: InferenceResponse) => void

  constructor(request: InferenceRequest, take: (turn: Turn, response: InferenceResponse) => void) {
    this.request = request
    this.#take = take
  }

  pass(response: InferenceResponse): null {
    this.#take(this, response)
    return null
  }
}

export class ResponseOrder {
  readonly #turns = new RingQueue<Turn>()
  #isReleasing = false
  #doneCount = 0

  /** Requests that are done and wait for earlier requests. */
  get doneCount(): number {
    return this.#doneCount
  }

  /** From now on the request's answers wait for the answers of earlier requests. */
  join(request: InferenceRequest): void {
    const turn = new Turn(request, this.#take)
    this.#turns.push(turn)
    request.setStage('order', turn)
  }

  readonly #take = (turn: Turn, response: InferenceResponse): void => {
    if (response.isFinal) turn.isOver = true
    // No client waits for a cancelled request, so its end does not wait for its turn.
    if (response.error?.code === 'CANCELLED' && turn.request.isCancelled) {
      for (const held of turn.held.splice(0)) held.release()
      turn.request.passOn('order', response)
    } else {
      turn.held.push(response)
      if (response.isFinal) {
        turn.isDone = true
        this.#doneCount++
      }
      if (!response.isFinal && turn !== this.#turns.peek()) this.#hold(turn, response)
    }
    this.#release()
  }

  #hold(turn: Turn, response: InferenceResponse): void {
    for (const output of response.outputs) turn.heldBytes += output.bytes.byteLength
    if (turn.isPaused || (turn.held.length < maxHeldResponses && turn.heldBytes < maxHeldBytes)) return
    turn.isPaused = true
    turn.request.setPaused(true)
  }

  /** The guard is there because an answer may cause the next request and its answer before `passOn` returns. */
  #release(): void {
    if (this.#isReleasing) return
    this.#isReleasing = true
    for (let turn = this.#turns.peek(); turn !== undefined; turn = this.#turns.peek()) {
      // This comes before the first answer is delivered: after that the reader's own pauses apply.
      if (turn.isPaused) {
        turn.isPaused = false
        turn.request.setPaused(false)
      }
      for (let next = turn.held.shift(); next !== undefined; next = turn.held.shift())
        turn.request.passOn('order', next)
      if (!turn.isOver) break
      this.#turns.take()
      if (turn.isDone) this.#doneCount--
    }
    this.#isReleasing = false
  }
}
