// Keeps a sequence inside a grammar. To check the whole vocabulary costs much more than to check one token, so the token that
// the samplers choose is checked first, and the whole vocabulary only where the grammar forbids that token.

import { ServerError } from '../../../base/server-error.ts'
import { addressOf } from './llama-library.ts'
import type { SamplingSession } from './sampling-session.ts'

/** A candidate is a token, its logit and its probability. */
const candidateWords = 3

export class GrammarFilter {
  readonly #session: SamplingSession
  readonly #grammar: number
  readonly #ids: Int32Array
  readonly #values: Float32Array
  readonly #address: number
  #isComplete = false

  constructor(session: SamplingSession, text: string) {
    this.#session = session
    this.#grammar = session.library.grammar(session.vocabulary, text, 'root')
    if (this.#grammar === 0) {
      throw ServerError.withoutStack(
        'INVALID_ARG',
        "sampling_parameters: 'grammar' is not valid GBNF with a rule 'root'",
      )
    }
    const memory = new ArrayBuffer(session.vocabularySize * candidateWords * 4)
    this.#ids = new Int32Array(memory)
    this.#values = new Float32Array(memory)
    this.#address = addressOf(this.#ids)
  }

  /** True after an end token: the grammar allows no more. */
  get isComplete(): boolean {
    return this.#isComplete
  }

  pick(chain: number, logits: Float32Array): number {
    const { library } = this.#session
    this.#fill(logits)
    let token = this.#choose(chain, logits.length)
    if (!this.#allows(token)) {
      this.#fill(logits)
      library.applySampler(this.#grammar, this.#candidates(logits.length))
      token = this.#choose(chain, logits.length)
      // Where the grammar allows nothing, every candidate is as impossible as the others.
      if (!this.#allows(token)) {
        throw ServerError.withoutStack(
          'INVALID_ARG',
          "sampling_parameters: no token fits the 'grammar' or 'json_schema' here",
        )
      }
    }
    library.acceptToken(chain, token)
    if (this.#session.isEnd(token)) this.#isComplete = true
    else library.acceptToken(this.#grammar, token)
    return token
  }

  close(): void {
    this.#session.library.freeSampler(this.#grammar)
  }

  #fill(logits: Float32Array): void {
    for (let id = 0, at = 0; id < logits.length; id++, at += candidateWords) {
      this.#ids[at] = id
      this.#values[at + 1] = logits[id] as number
      this.#values[at + 2] = 0
    }
  }

  #candidates(size: number) {
    return { data: this.#address, size, selected: -1, sorted: false }
  }

  #choose(chain: number, size: number): number {
    const candidates = this.#candidates(size)
    this.#session.library.applySampler(chain, candidates)
    return this.#ids[candidates.selected * candidateWords] as number
  }

  #allows(token: number): boolean {
    this.#ids[0] = token
    this.#values[1] = 1
    this.#session.library.applySampler(this.#grammar, this.#candidates(1))
    return this.#values[1] !== -Infinity
  }
}
