// One request for text: what it was asked, what it has said, and how far its prompt is computed.

import { AnswerText } from '../../../llm/answer-text.ts'
import type { SamplingParameters } from '../../../llm/sampling-parameters.ts'
import type { ChosenLogprob, FinishReason, GenerateOrder, GenerationEnd, TextMessage } from '../engine-protocol.ts'
import type { RuntimeSampler } from './language-runtime.ts'

export class Sequence {
  readonly key: number
  readonly priority: number
  readonly arrival: number
  readonly bornMs: number
  readonly sampling: SamplingParameters
  readonly sampler: RuntimeSampler
  readonly isStreamed: boolean
  /** The prompt, and after a preemption what was said before it. */
  tokens: number[]
  readonly inputTokens: number
  cachedTokens = 0
  outputTokens = 0
  /** The token that the next step computes; -1: the prompt is not computed to its end. */
  next = -1
  /** Where in the batch of this step its last token is; -1: nowhere. */
  row = -1
  isCancelled = false
  isPaused = false
  /** Whether a slot has looked for a beginning that others have computed. */
  hasLooked = false
  lastTokenMs = 0
  /** When the request first got a slot; -1: it has waited until now. */
  startedMs = -1
  /** When the first token was there; -1: it is not. */
  firstTokenMs = -1
  readonly #text: AnswerText
  #unsent = ''
  #logprobs: ChosenLogprob[] = []

  constructor(order: GenerateOrder, prompt: Int32Array, sampler: RuntimeSampler, arrival: number, bornMs: number) {
    this.key = order.key
    this.priority = order.priority
    this.sampling = order.sampling
    this.isStreamed = order.isStreamed
    this.arrival = arrival
    this.bornMs = bornMs
    this.tokens = [...prompt]
    this.inputTokens = prompt.length
    this.sampler = sampler
    this.#text = new AnswerText(order.sampling.stop)
  }

  /** Takes the next token and its bytes. The result is why the answer ends here; null: it goes on. */
  say(token: number, bytes: Uint8Array, isEnd: boolean, logprob: ChosenLogprob | null): FinishReason | null {
    const { ignoreEos, stopTokenIds, maxTokens } = this.sampling
    this.outputTokens++
    if ((isEnd && !ignoreEos) || stopTokenIds.includes(token)) return 'stop'
    if (logprob !== null) this.#logprobs.push(logprob)
    this.#unsent += this.#text.push(bytes)
    if (this.#text.isStopped) return 'stop'
    return this.outputTokens >= maxTokens || this.sampler.isComplete ? lengthOr(this.sampler) : null
  }

  /** What is to be sent after a step; null: nothing yet. */
  takeText(): TextMessage | null {
    if (!this.isStreamed || (this.#unsent === '' && this.#logprobs.length === 0)) return null
    return this.#message('', null)
  }

  /** The last message. */
  finish(reason: FinishReason, nowMs: number): TextMessage {
    const { inputTokens, outputTokens, cachedTokens, startedMs } = this
    const { cumulativeLogprob } = this.sampler
    const answeredMs = this.firstTokenMs < 0 ? nowMs : this.firstTokenMs
    const times = { promptMs: startedMs < 0 ? 0 : answeredMs - startedMs, answerMs: nowMs - answeredMs }
    const counts = { inputTokens, outputTokens, cachedTokens, cumulativeLogprob }
    return this.#message(this.#text.end(), { reason, ...counts, ...times })
  }

  #message(more: string, end: GenerationEnd | null): TextMessage {
    const text = this.#unsent + more
    const logprobs = this.sampling.logprobs === null ? null : this.#logprobs
    this.#unsent = ''
    this.#logprobs = []
    return { kind: 'text', key: this.key, text, logprobs, end }
  }
}

const lengthOr = ({ isComplete }: RuntimeSampler): FinishReason => (isComplete ? 'stop' : 'length')
