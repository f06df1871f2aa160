// Chooses the next token of one sequence. Penalties, biases and forbidden tokens change the logits in place, as vLLM means
// them; temperature, min_p, top_k and top_p are samplers of llama.cpp, in the order of vLLM.

import { ServerError } from '../../../base/server-error.ts'
import type { SamplingParameters } from '../../../llm/sampling-parameters.ts'
import type { ChosenLogprob, TokenLogprob } from '../engine-protocol.ts'
import { GrammarFilter } from './grammar-filter.ts'
import type { RuntimeSampler } from './language-runtime.ts'
import { likeliestTokens } from './likeliest-tokens.ts'
import type { SamplingSession } from './sampling-session.ts'

/** Below it vLLM takes the most likely token. */
const greedyBelow = 1e-5

/** A seed that the library would replace by a random one. */
const reservedSeed = 0xffffffff

export class TokenSampler implements RuntimeSampler {
  readonly #session: SamplingSession
  readonly #sampling: SamplingParameters
  readonly #chain: number
  readonly #grammar: GrammarFilter | null
  readonly #endTokens: readonly number[]
  /** How often each token was generated; null where no penalty needs it. */
  readonly #counts: Map<number, number> | null
  readonly #seen: Set<number> | null
  #generated = 0
  cumulativeLogprob = 0

  /** `grammar` is GBNF; '': none. Throws where llama.cpp does not take it. */
  constructor(session: SamplingSession, sampling: SamplingParameters, prompt: Int32Array, grammar: string) {
    this.#session = session
    this.#sampling = sampling
    const beyond = [...sampling.logitBias.keys(), ...sampling.stopTokenIds].find((id) => id >= session.vocabularySize)
    if (beyond !== undefined) {
      const most = session.vocabularySize - 1
      throw ServerError.withoutStack(
        'INVALID_ARG',
        `sampling_parameters: token ${beyond} is not known, the last one is ${most}`,
      )
    }
    const temperature = isGreedy(sampling) ? 0 : sampling.temperature
    const source = sampling.jsonSchema === '' ? 'grammar' : 'json_schema'
    this.#grammar = grammar === '' ? null : new GrammarFilter(session, grammar, temperature, source)
    this.#chain = createChain(session, sampling)
    const isPenal = sampling.presencePenalty !== 0 || sampling.frequencyPenalty !== 0
    this.#counts = isPenal ? new Map() : null
    this.#seen = sampling.repetitionPenalty === 1 ? null : new Set(prompt)
    this.#endTokens = sampling.minTokens > 0 ? [...session.endTokens, ...sampling.stopTokenIds] : []
  }

  /** The next token. `row` is the place of the last token in the batch. */
  pick(row: number): { readonly token: number; readonly logprob: ChosenLogprob | null } {
    const { logprobs } = this.#sampling
    const needsLogits = logprobs !== null || this.#changesLogits || this.#grammar !== null
    const logits = needsLogits ? this.#session.logitsAt(row) : null
    const raw = logits !== null && logprobs !== null ? logProbabilities(logits) : null
    if (logits !== null) this.#change(logits)
    const token =
      this.#grammar !== null && logits !== null
        ? this.#grammar.pick(this.#chain, logits)
        : this.#session.sample(this.#chain, row)
    this.#generated++
    this.#counts?.set(token, (this.#counts.get(token) ?? 0) + 1)
    this.#seen?.add(token)
    if (raw === null || logprobs === null) return { token, logprob: null }
    this.cumulativeLogprob += raw[token] as number
    const top = likeliestTokens(raw, logprobs).map((id) => this.#told(id, raw))
    return { token, logprob: { ...this.#told(token, raw), top } }
  }

  /** Whether the grammar has been followed to one of its ends, and allows nothing more. */
  get isComplete(): boolean {
    return this.#grammar?.isComplete ?? false
  }

  close(): void {
    this.#session.library.freeSampler(this.#chain)
    this.#grammar?.close()
  }

  get #changesLogits(): boolean {
    const { minTokens, logitBias } = this.#sampling
    return this.#generated < minTokens || logitBias.size > 0 || this.#counts !== null || this.#seen !== null
  }

  #change(logits: Float32Array): void {
    const { presencePenalty, frequencyPenalty, repetitionPenalty, logitBias, minTokens } = this.#sampling
    for (const token of this.#seen ?? []) {
      const value = logits[token] as number
      logits[token] = value > 0 ? value / repetitionPenalty : value * repetitionPenalty
    }
    for (const [token, count] of this.#counts ?? []) {
      logits[token] = (logits[token] as number) - count * frequencyPenalty - presencePenalty
    }
    for (const [token, bias] of logitBias) logits[token] = (logits[token] as number) + bias
    if (this.#generated < minTokens) for (const token of this.#endTokens) logits[token] = -Infinity
  }

  #told(id: number, raw: Float32Array): TokenLogprob {
    const bytes = this.#session.pieceOf(id, true)
    return {
      id,
      token: new TextDecoder().decode(bytes),
      bytes: [...bytes],
      logprob: Math.max(-9999, raw[id] as number),
    }
  }
}

const isGreedy = ({ temperature }: SamplingParameters): boolean => temperature < greedyBelow

function createChain({ library }: SamplingSession, sampling: SamplingParameters): number {
  const chain = library.createChain(library.chainDefaults())
  const { temperature, minP, topK, topP, seed } = sampling
  if (isGreedy(sampling)) {
    library.addToChain(chain, library.greedy())
    return chain
  }
  // top_k 1 and a top_p of 0 leave one token, whatever the temperature is.
  library.addToChain(chain, library.temperature(temperature))
  if (minP > 0) library.addToChain(chain, library.minP(minP, 1))
  if (topK > 0) library.addToChain(chain, library.topK(topK))
  if (topP < 1) library.addToChain(chain, library.topP(topP, 1))
  library.addToChain(chain, library.random(seedOf(seed)))
  return chain
}

/** A number of 32 bits from any number. */
function seedOf(seed: number | null): number {
  const whole = seed === null ? Math.floor(Math.random() * reservedSeed) : Number(BigInt.asUintN(32, BigInt(seed)))
  return whole === reservedSeed ? 0 : whole
}

function logProbabilities(logits: Float32Array): Float32Array {
  let highest = -Infinity
  for (let i = 0; i < logits.length; i++) if ((logits[i] as number) > highest) highest = logits[i] as number
  let sum = 0
  for (let i = 0; i < logits.length; i++) sum += Math.exp((logits[i] as number) - highest)
  const shift = highest + Math.log(sum)
  return logits.map((value) => value - shift)
}
