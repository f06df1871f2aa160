import { InferenceError } from './inference-error.ts'
import type { ModelResponse } from './model-response.ts'

export type SendOptions = {
  /** This was the last response. A model that is not decoupled sends just one, which is always final. */
  readonly final?: boolean
}

/**
 * Answers one request, from inside `execute` or later. A decoupled model sends as many responses as it likes and ends
 * with `{ final: true }` or `close()`.
 */
export class ResponseSender {
  readonly #isDecoupled: boolean
  readonly #deliver: (response: ModelResponse | InferenceError | null, isFinal: boolean) => void
  #isClosed = false

  constructor(
    isDecoupled: boolean,
    deliver: (response: ModelResponse | InferenceError | null, isFinal: boolean) => void,
  ) {
    this.#isDecoupled = isDecoupled
    this.#deliver = deliver
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** An InferenceError ends the request of a model that is not decoupled; a decoupled one may go on. */
  send(response: ModelResponse | InferenceError, options: SendOptions = {}): void {
    if (this.#isClosed) throw new InferenceError(this.#isDecoupled ? closedText : oneResponseText)
    if (response === null || response === undefined) throw new InferenceError(noResponseText)
    const isFinal = options.final === true || !this.#isDecoupled
    this.#isClosed = isFinal
    this.#deliver(response, isFinal)
  }

  /** Says that no response follows. */
  close(): void {
    if (this.#isClosed) throw new InferenceError(closedText)
    if (!this.#isDecoupled) throw new InferenceError(earlyFinalText)
    this.#isClosed = true
    this.#deliver(null, true)
  }
}

const closedText = 'Unable to send response. Response sender has been closed.'
const oneResponseText = 'Unable to send response. Non-decoupled model cannot send more than one response.'
const earlyFinalText =
  'Unable to send response. Non-decoupled model cannot send complete final before sending a response.'
const noResponseText = 'Inference Response object must be provided when the response flags is set to zero.'
