import { InferenceError } from './inference-error.ts'
import type { ModelResponse } from './model-response.ts'
import type { ResponseWindow } from './response-window.ts'

export type SendOptions = {
  /** Marks the last response. A model that is not decoupled sends one response, which is always final. */
  readonly final?: boolean
}

/**
 * Answers one request, from inside `execute` or later. A decoupled model sends any number of responses and ends with
 * `{ final: true }` or `close()`.
 */
export class ResponseSender {
  readonly #isDecoupled: boolean
  readonly #deliver: (response: ModelResponse | InferenceError | null, isFinal: boolean) => void
  readonly #window: ResponseWindow
  #isClosed = false

  constructor(
    isDecoupled: boolean,
    window: ResponseWindow,
    deliver: (response: ModelResponse | InferenceError | null, isFinal: boolean) => void,
  ) {
    this.#isDecoupled = isDecoupled
    this.#window = window
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

  /**
   * Resolves when the client keeps up with the responses. A model that sends many responses should wait for this
   * between two of them; otherwise the request of a client that falls too far behind ends.
   */
  ready(): Promise<void> {
    return this.#window.ready()
  }

  /** Ends the request: no response follows. */
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
