// What every form of an answer with generated text has: choices that grow, and the count of tokens.

import type { OutputEvent } from './chat-output.ts'

/** The answer to one call. */
export type AnswerFacts = {
  readonly id: string
  /** Seconds since 1970. */
  readonly created: number
  /** As the client wrote it. Behind a router: the model that answered. */
  model: string
  /** `<model>/<version>`: which version answered. */
  fingerprint: string | null
}

export type TokenLogprob = {
  readonly token: string
  readonly logprob: number
  readonly bytes: readonly number[] | null
  readonly top: readonly TokenLogprob[]
}

export type TokenUsage = { inputTokens: number; outputTokens: number; cachedTokens: number; reasoningTokens: number }

export type ToolCall = { readonly id: string; readonly name: string; arguments: string }

/** OpenAI's words. */
export type FinishReason = 'stop' | 'length' | 'tool_calls'

/** One answer of several, so far. */
export type Choice = {
  readonly index: number
  content: string
  reasoning: string
  readonly calls: ToolCall[]
  readonly logprobs: TokenLogprob[]
  finishReason: FinishReason
}

/** One event of a stream; `name` is '' for those without a name. */
export type WireEvent = { readonly name: string; readonly json: unknown }

export const unnamed = (json: unknown): WireEvent => ({ name: '', json })

/** How answers are written. */
export interface AnswerForm {
  /** The first events of a stream. */
  open(choices: readonly Choice[]): WireEvent[]
  delta(choice: Choice, events: readonly OutputEvent[], logprobs: readonly TokenLogprob[]): WireEvent[]
  /** The choice is whole. */
  close(choice: Choice): WireEvent[]
  /** All choices are whole. Null: the model does not count tokens. */
  end(choices: readonly Choice[], usage: TokenUsage | null): WireEvent[]
  /** The answer of a call that does not stream. */
  whole(choices: readonly Choice[], usage: TokenUsage | null): unknown
  /** False: the events tell of the end themselves. */
  readonly endsWithDone: boolean
}

export const usageJson = (usage: TokenUsage | null): unknown =>
  usage === null
    ? null
    : {
        prompt_tokens: usage.inputTokens,
        completion_tokens: usage.outputTokens,
        total_tokens: usage.inputTokens + usage.outputTokens,
        prompt_tokens_details: { cached_tokens: usage.cachedTokens },
        ...(usage.reasoningTokens === 0
          ? {}
          : { completion_tokens_details: { reasoning_tokens: usage.reasoningTokens } }),
      }
