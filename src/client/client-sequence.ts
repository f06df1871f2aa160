import type { Inputs, InferOptions } from './infer-request.ts'
import type { InferResult } from './infer-result.ts'
import { InferenceError } from './inference-error.ts'

export type SequenceOptions = {
  /** Default: a random number that no other sequence is likely to have. */
  readonly id?: number | bigint | string
  readonly version?: string | number
}

export type SequenceInferOptions = Omit<InferOptions, 'sequence' | 'version'> & {
  /** This request is the last one. */
  readonly end?: boolean
}

type Infer = (model: string, inputs: Inputs, options: InferOptions) => Promise<InferResult>

/**
 * Requests to one model that share a correlation id. They are sent one after the other, in the order of the calls:
 * requests that travel on connections of their own would else overtake each other.
 */
export class ClientSequence {
  readonly model: string
  readonly id: number | bigint | string
  readonly #infer: Infer
  readonly #version: string | number | undefined
  #state: 'new' | 'started' | 'ended' = 'new'
  #last: Promise<unknown> = Promise.resolve()

  constructor(infer: Infer, model: string, options: SequenceOptions = {}) {
    this.#infer = infer
    this.model = model
    this.id = options.id ?? randomId()
    this.#version = options.version
  }

  get isEnded(): boolean {
    return this.#state === 'ended'
  }

  /** The first call starts the sequence; should it fail, the next one does. */
  infer(inputs: Inputs, options: SequenceInferOptions = {}): Promise<InferResult> {
    const turn = this.#last.then(() => this.#send(inputs, options))
    this.#last = turn.catch(() => null)
    return turn
  }

  /** The last request of the sequence. */
  end(inputs: Inputs, options: Omit<SequenceInferOptions, 'end'> = {}): Promise<InferResult> {
    return this.infer(inputs, { ...options, end: true })
  }

  async #send(inputs: Inputs, { end = false, ...options }: SequenceInferOptions): Promise<InferResult> {
    if (this.#state === 'ended') {
      throw InferenceError.ofArgument(`sequence ${this.id} of model '${this.model}' has ended: begin another one`)
    }
    const result = await this.#infer(this.model, inputs, {
      ...options,
      ...(this.#version === undefined ? {} : { version: this.#version }),
      sequence: { id: this.id, start: this.#state === 'new', end },
    })
    this.#state = end ? 'ended' : 'started'
    return result
  }
}

/** 1 to 2^52: exact as a number, and zero means "no sequence". */
function randomId(): number {
  const [low = 0, high = 0] = crypto.getRandomValues(new Uint32Array(2))
  return (high % 2 ** 20) * 2 ** 32 + low + 1
}
