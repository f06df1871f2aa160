// Keeps a sequence inside a grammar. To check the whole vocabulary costs as much as a decode (5 to 15 ms for 49,152 tokens), and
// no other sequence goes on meanwhile. So the token that the samplers choose is checked first, then the likeliest tokens, and
// the whole vocabulary only where the tokens that the grammar allows may be among the others.

import { ServerError } from '../../../base/server-error.ts'
import { addressOf } from './llama-library.ts'
import { likeliestTokens } from './likeliest-tokens.ts'
import type { SamplingSession } from './sampling-session.ts'

/** A candidate is a token, its logit and its probability. */
const candidateWords = 3
/** Tokens that are checked before the whole vocabulary is. */
const firstCandidates = 256
/** What the other tokens may have of the probability of all that is left. A choice among the first ones is then as good. */
const restShare = 1e-3
/** Of the vocabulary, tokens that are checked in one call. */
const candidatesPerCall = 2048
/**
 * The time of the processor that a grammar may take for one token. All other sequences wait meanwhile. What takes long is a grammar that
 * can go on in thousands of ways.
 */
const mostMsPerToken = 1000

export class GrammarFilter {
  readonly #session: SamplingSession
  readonly #grammar: number
  readonly #ids: Int32Array
  readonly #values: Float32Array
  readonly #address: number
  #isComplete = false
  /** When the work for this token began. */
  #startUs: number

  readonly #temperature: number
  readonly #source: 'grammar' | 'json_schema'

  /** `temperature` 0: the samplers take the likeliest token. */
  constructor(session: SamplingSession, text: string, temperature: number, source: 'grammar' | 'json_schema') {
    this.#session = session
    this.#temperature = temperature
    this.#source = source
    this.#startUs = session.threadUs()
    this.#grammar = session.library.grammar(session.vocabulary, text, 'root')
    if (this.#grammar === 0) {
      throw ServerError.withoutStack(
        'INVALID_ARG',
        source === 'grammar'
          ? "sampling_parameters: 'grammar' is not valid GBNF with a rule 'root'"
          : "sampling_parameters: 'json_schema' refers to itself without anything between: no answer could end",
      )
    }
    try {
      this.#requireTime()
    } catch (reason) {
      this.close()
      throw reason
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
    this.#startUs = this.#session.threadUs()
    this.#fill(logits)
    let token = this.#choose(chain, logits.length)
    if (!this.#allows(token)) {
      token = this.#chooseAllowed(chain, logits)
      // Where the grammar allows nothing, every candidate is as impossible as the others.
      if (!this.#allows(token)) {
        throw ServerError.withoutStack('INVALID_ARG', `sampling_parameters: '${this.#source}' allows no token here`)
      }
    }
    library.acceptToken(chain, token)
    if (this.#session.isEnd(token)) this.#isComplete = true
    else library.acceptToken(this.#grammar, token)
    this.#requireTime()
    return token
  }

  close(): void {
    this.#session.library.freeSampler(this.#grammar)
  }

  #chooseAllowed(chain: number, logits: Float32Array): number {
    const { library } = this.#session
    const likeliest = likeliestTokens(logits, firstCandidates)
    for (const [place, id] of likeliest.entries()) this.#put(place, id, logits[id] as number)
    library.applySampler(this.#grammar, this.#candidates(likeliest.length))
    if (this.#coversTheRest(likeliest, logits)) return this.#choose(chain, likeliest.length)
    this.#fill(logits)
    for (let from = 0; from < logits.length; from += candidatesPerCall) {
      const size = Math.min(candidatesPerCall, logits.length - from)
      library.applySampler(this.#grammar, this.#candidates(size, from))
      this.#requireTime()
    }
    return this.#choose(chain, logits.length)
  }

  #requireTime(): void {
    const ms = Math.round((this.#session.threadUs() - this.#startUs) / 1000)
    if (ms <= mostMsPerToken) return
    throw ServerError.withoutStack(
      'INVALID_ARG',
      `sampling_parameters: '${this.#source}' took ${ms} ms for one token, at most ${mostMsPerToken} are allowed: it can go on in too many ways`,
    )
  }

  /** Whether what the grammar allows of the likeliest tokens outweighs all tokens that were not checked. */
  #coversTheRest(likeliest: readonly number[], logits: Float32Array): boolean {
    let allowed = 0
    let checked = 0
    const scale = this.#temperature === 0 ? 1 : 1 / this.#temperature
    const highest = logits[likeliest[0] as number] as number
    for (const [place, id] of likeliest.entries()) {
      const weight = Math.exp(((logits[id] as number) - highest) * scale)
      checked += weight
      if (this.#values[place * candidateWords + 1] !== -Infinity) allowed += weight
    }
    if (this.#temperature === 0) return allowed > 0
    let all = 0
    for (let id = 0; id < logits.length; id++) all += Math.exp(((logits[id] as number) - highest) * scale)
    return all - checked <= restShare * allowed
  }

  #put(place: number, id: number, logit: number): void {
    this.#ids[place * candidateWords] = id
    this.#values[place * candidateWords + 1] = logit
    this.#values[place * candidateWords + 2] = 0
  }

  #fill(logits: Float32Array): void {
    for (let id = 0, at = 0; id < logits.length; id++, at += candidateWords) {
      this.#ids[at] = id
      this.#values[at + 1] = logits[id] as number
      this.#values[at + 2] = 0
    }
  }

  #candidates(size: number, from = 0) {
    return { data: this.#address + from * candidateWords * 4, size, selected: -1, sorted: false }
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
