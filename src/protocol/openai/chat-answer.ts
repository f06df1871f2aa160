import type { OutputEvent } from './chat-output.ts'
import {
  unnamed,
  usageJson,
  type AnswerFacts,
  type AnswerForm,
  type Choice,
  type TokenLogprob,
  type TokenUsage,
  type ToolCall,
  type WireEvent,
} from './generation-answer.ts'

const logprobJson = ({ token, logprob, bytes, top }: TokenLogprob, most: number): object => ({
  token,
  logprob,
  bytes,
  // Models may tell of the chosen token beside the likeliest ones.
  top_logprobs: top.slice(0, most).map((other) => ({ token: other.token, logprob: other.logprob, bytes: other.bytes })),
})

const callJson = ({ id, name, arguments: text }: ToolCall): object => ({
  id,
  type: 'function',
  function: { name, arguments: text },
})

/** `chat.completion` and `chat.completion.chunk`. */
export class ChatAnswer implements AnswerForm {
  readonly #facts: AnswerFacts
  readonly #topLogprobs: number | null
  readonly #includesUsage: boolean
  readonly endsWithDone = true

  /** `topLogprobs`: alternatives of each token; null: no probabilities at all. */
  constructor(facts: AnswerFacts, topLogprobs: number | null, includesUsage: boolean) {
    this.#facts = facts
    this.#topLogprobs = topLogprobs
    this.#includesUsage = includesUsage
  }

  open(choices: readonly Choice[]): WireEvent[] {
    return choices.map(({ index }) => this.#chunk(index, { role: 'assistant', content: '' }, null, []))
  }

  delta(choice: Choice, events: readonly OutputEvent[], logprobs: readonly TokenLogprob[]): WireEvent[] {
    // A token that is a part of a character has a probability and no text yet.
    const all: readonly OutputEvent[] = events.length === 0 ? [{ kind: 'content', text: '' }] : events
    return all.map((event, at) => {
      const told = at === all.length - 1 ? logprobs : []
      return this.#chunk(choice.index, deltaOf(choice, event), null, told)
    })
  }

  close({ index, finishReason }: Choice): WireEvent[] {
    return [this.#chunk(index, {}, finishReason, [])]
  }

  end(_: readonly Choice[], usage: TokenUsage | null): WireEvent[] {
    return this.#includesUsage
      ? [unnamed({ ...this.#head('chat.completion.chunk'), choices: [], usage: usageJson(usage) })]
      : []
  }

  whole(choices: readonly Choice[], usage: TokenUsage | null): unknown {
    return {
      ...this.#head('chat.completion'),
      choices: choices.map((choice) => ({
        index: choice.index,
        message: {
          role: 'assistant',
          content: choice.content === '' && choice.calls.length > 0 ? null : choice.content,
          refusal: null,
          ...(choice.reasoning === '' ? {} : { reasoning_content: choice.reasoning }),
          ...(choice.calls.length === 0 ? {} : { tool_calls: choice.calls.map(callJson) }),
        },
        logprobs: this.#logprobs(choice.logprobs),
        finish_reason: choice.finishReason,
      })),
      usage: usageJson(usage),
    }
  }

  #logprobs(logprobs: readonly TokenLogprob[]): object | null {
    const most = this.#topLogprobs
    return most === null ? null : { content: logprobs.map((each) => logprobJson(each, most)), refusal: null }
  }

  #head(object: string): object {
    const { id, created, model, fingerprint } = this.#facts
    return { id, object, created, model, system_fingerprint: fingerprint }
  }

  #chunk(index: number, delta: object, finishReason: string | null, logprobs: readonly TokenLogprob[]): WireEvent {
    const told = logprobs.length === 0 ? null : this.#logprobs(logprobs)
    return unnamed({
      ...this.#head('chat.completion.chunk'),
      choices: [{ index, delta, logprobs: told, finish_reason: finishReason }],
      ...(this.#includesUsage ? { usage: null } : {}),
    })
  }
}

function deltaOf({ calls }: Choice, event: OutputEvent): object {
  if (event.kind === 'content') return { content: event.text }
  if (event.kind === 'reasoning') return { reasoning_content: event.text }
  const { index } = event
  if (event.kind === 'arguments') return { tool_calls: [{ index, function: { arguments: event.text } }] }
  const id = calls[index]?.id ?? ''
  return { tool_calls: [{ index, id, type: 'function', function: { name: event.name, arguments: '' } }] }
}
