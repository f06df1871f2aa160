// preserve_ordering: answers leave in the order in which their requests came, whatever order they were made in. Of a
// decoupled model the first request in line streams, the others' answers are held: all of the first come before any of
// the second. What is held is bounded: a model whose answers pile up is told to wait, and the scheduler admits no more
// requests while too many that are done wait for their turn.

import { RingQueue } from '../base/ring-queue.ts'
import type { AnswerStage, InferenceRequest } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'

/** What is held of one request before its model is told to wait: a slow reader may have as much. */
const maxHeldResponses = 64
const maxHeldBytes = 1 << 20

class Turn implements AnswerStage {
  readonly request: InferenceRequest
  readonly held: InferenceResponse[] = []
  heldBytes = 0
  isOver = false
  /** It holds its last answer. */
  isDone = false
  /** Set by us, and so to be taken back by us: a front end pauses requests too. */
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

  /** Requests that are done and wait for those before them. */
  get doneCount(): number {
    return this.#doneCount
  }

  /** From here on the request's answers wait for those of the requests that came before it. */
  join(request: InferenceRequest): void {
    const turn = new Turn(request, this.#take)
    this.#turns.push(turn)
    request.setStage('order', turn)
  }

  readonly #take = (turn: Turn, response: InferenceResponse): void => {
    if (response.isFinal) turn.isOver = true
    // Nobody waits for a cancelled request, so its end need not wait either.
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

  /** An answer may bring the next request, and that one an answer, before `passOn` returns: hence the guard. */
  #release(): void {
    if (this.#isReleasing) return
    this.#isReleasing = true
    for (let turn = this.#turns.peek(); turn !== undefined; turn = this.#turns.peek()) {
      // Before the first answer is delivered: from then on the reader's own pauses count.
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
