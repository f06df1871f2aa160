// preserve_ordering: answers leave in the order in which their requests came, not in the order of execution. With a
// decoupled model the first request in line streams, and the answers of all others are held. Held answers are bounded:
// a model with too many of them is paused, and the scheduler admits no more requests while too many finished requests, or too
// many bytes of them, wait for their turn.

import type { AnswerStage, InferenceRequest } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import { LinkedList, type Linked } from './linked-list.ts'

/** So much of one request is held before its model is paused. A slow reader gets the same limit. */
const maxHeldResponses = 64
const maxHeldBytes = 1 << 20
/** Inputs and answers of finished requests: with this much no more requests are admitted. Their clients may have gone away. */
const mostDoneBytes = 256 * 1024 * 1024

class Turn implements AnswerStage, Linked<Turn> {
  readonly request: InferenceRequest
  readonly held: InferenceResponse[] = []
  heldBytes = 0
  isOver = false
  /** The final answer of the request is held. */
  isDone = false
  /** This class paused the request and must resume it; a front end pauses requests too. */
  isPaused = false
  /** What it holds as a finished request. */
  doneBytes = 0
  list: LinkedList<Turn> | null = null
  previous: Turn | null = null
  next: Turn | null = null

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
  readonly #turns = new LinkedList<Turn>()
  #isReleasing = false
  #doneCount = 0
  #doneBytes = 0

  /** Requests that are done and wait for earlier requests. */
  get doneCount(): number {
    return this.#doneCount
  }

  /** Requests whose answers have not all left. */
  get size(): number {
    return this.#turns.size
  }

  /** So many finished requests wait, or so many bytes of them, that no more requests should come. */
  isFull(mostDone: number): boolean {
    return this.#doneCount >= mostDone || this.#doneBytes >= mostDoneBytes
  }

  /** From now on the request's answers wait for the answers of earlier requests. */
  join(request: InferenceRequest): void {
    const turn = new Turn(request, this.#take)
    this.#turns.push(turn)
    request.setStage('order', turn)
  }

  readonly #take = (turn: Turn, response: InferenceResponse): void => {
    if (response.isFinal) turn.isOver = true
    // No client waits for a cancelled request, so its end does not wait for its turn, and its inputs are not kept until then.
    if (response.error?.code === 'CANCELLED' && turn.request.isCancelled) {
      for (const held of turn.held.splice(0)) held.release()
      // A model may say so first and end the request later: until then it has its place.
      if (response.isFinal) this.#turns.remove(turn)
      turn.request.passOn('order', response)
    } else {
      turn.held.push(response)
      if (response.isFinal) {
        turn.isDone = true
        this.#doneCount++
        turn.doneBytes = bytesOf(turn)
        this.#doneBytes += turn.doneBytes
      }
      if (!response.isFinal && turn !== this.#turns.first) this.#hold(turn, response)
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
    for (let turn = this.#turns.first; turn !== null; turn = this.#turns.first) {
      // This comes before the first answer is delivered: after that the reader's own pauses apply.
      if (turn.isPaused) {
        turn.isPaused = false
        turn.request.setPaused(false)
      }
      for (let next = turn.held.shift(); next !== undefined; next = turn.held.shift())
        turn.request.passOn('order', next)
      if (!turn.isOver) break
      this.#turns.remove(turn)
      if (!turn.isDone) continue
      this.#doneCount--
      this.#doneBytes -= turn.doneBytes
    }
    this.#isReleasing = false
  }
}

function bytesOf({ request, held }: Turn): number {
  let bytes = 0
  for (const input of request.inputs) bytes += input.bytes.byteLength
  for (const { outputs } of held) for (const output of outputs) bytes += output.bytes.byteLength
  return bytes
}
