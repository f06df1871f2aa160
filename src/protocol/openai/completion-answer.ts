import type { OutputEvent } from './chat-output.ts'
import {
  unnamed,
  usageJson,
  type AnswerFacts,
  type AnswerForm,
  type Choice,
  type TokenLogprob,
  type TokenUsage,
  type WireEvent,
} from './generation-answer.ts'

/** `text_completion`, whole and in pieces. */
export class CompletionAnswer implements AnswerForm {
  readonly #facts: AnswerFacts
  readonly #hasLogprobs: boolean
  readonly #includesUsage: boolean
  readonly endsWithDone = true
  /** Characters of each choice that were told, for the offsets of tokens. */
  readonly #offsets = new Map<number, number>()

  constructor(facts: AnswerFacts, hasLogprobs: boolean, includesUsage: boolean) {
    this.#facts = facts
    this.#hasLogprobs = hasLogprobs
    this.#includesUsage = includesUsage
  }

  open(): WireEvent[] {
    return []
  }

  delta(choice: Choice, events: readonly OutputEvent[], logprobs: readonly TokenLogprob[]): WireEvent[] {
    const text = events.map((event) => (event.kind === 'content' ? event.text : '')).join('')
    return text === '' && logprobs.length === 0 ? [] : [this.#chunk(choice.index, text, null, logprobs)]
  }

  close({ index, finishReason }: Choice): WireEvent[] {
    return [this.#chunk(index, '', finishReason, [])]
  }

  end(_: readonly Choice[], usage: TokenUsage | null): WireEvent[] {
    return this.#includesUsage ? [unnamed({ ...this.#head(), choices: [], usage: usageJson(usage) })] : []
  }

  whole(choices: readonly Choice[], usage: TokenUsage | null): unknown {
    return {
      ...this.#head(),
      choices: choices.map((choice) => ({
        index: choice.index,
        text: choice.content,
        logprobs: this.#logprobs(choice.index, choice.logprobs),
        finish_reason: choice.finishReason,
      })),
      usage: usageJson(usage),
    }
  }

  #head(): object {
    const { id, created, model, fingerprint } = this.#facts
    return { id, object: 'text_completion', created, model, system_fingerprint: fingerprint }
  }

  #chunk(index: number, text: string, finishReason: string | null, logprobs: readonly TokenLogprob[]): WireEvent {
    return unnamed({
      ...this.#head(),
      choices: [{ index, text, logprobs: this.#logprobs(index, logprobs), finish_reason: finishReason }],
      ...(this.#includesUsage ? { usage: null } : {}),
    })
  }

  #logprobs(index: number, tokens: readonly TokenLogprob[]): object | null {
    if (!this.#hasLogprobs || tokens.length === 0) return null
    let offset = this.#offsets.get(index) ?? 0
    const offsets = tokens.map(({ token }) => {
      const own = offset
      offset += token.length
      return own
    })
    this.#offsets.set(index, offset)
    return {
      tokens: tokens.map(({ token }) => token),
      token_logprobs: tokens.map(({ logprob }) => logprob),
      top_logprobs: tokens.map(({ top }) => Object.fromEntries(top.map(({ token, logprob }) => [token, logprob]))),
      text_offset: offsets,
    }
  }
}
