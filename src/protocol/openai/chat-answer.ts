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

const logprobJson = ({ token, logprob, bytes, top }: TokenLogprob): object => ({
  token,
  logprob,
  bytes,
  top_logprobs: top.map((other) => ({ token: other.token, logprob: other.logprob, bytes: other.bytes })),
})

const callJson = ({ id, name, arguments: text }: ToolCall): object => ({
  id,
  type: 'function',
  function: { name, arguments: text },
})

/** `chat.completion` and `chat.completion.chunk`. */
export class ChatAnswer implements AnswerForm {
  readonly #facts: AnswerFacts
  readonly #hasLogprobs: boolean
  readonly #includesUsage: boolean
  readonly endsWithDone = true

  constructor(facts: AnswerFacts, hasLogprobs: boolean, includesUsage: boolean) {
    this.#facts = facts
    this.#hasLogprobs = hasLogprobs
    this.#includesUsage = includesUsage
  }

  open(choices: readonly Choice[]): WireEvent[] {
    return choices.map(({ index }) => this.#chunk(index, { role: 'assistant', content: '' }, null, []))
  }

  delta(choice: Choice, events: readonly OutputEvent[], logprobs: readonly TokenLogprob[]): WireEvent[] {
    return events.map((event, at) => {
      const told = at === events.length - 1 ? logprobs : []
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
        logprobs: this.#hasLogprobs ? { content: choice.logprobs.map(logprobJson), refusal: null } : null,
        finish_reason: choice.finishReason,
      })),
      usage: usageJson(usage),
    }
  }

  #head(object: string): object {
    const { id, created, model, fingerprint } = this.#facts
    return { id, object, created, model, system_fingerprint: fingerprint }
  }

  #chunk(index: number, delta: object, finishReason: string | null, logprobs: readonly TokenLogprob[]): WireEvent {
    const told = this.#hasLogprobs && logprobs.length > 0 ? { content: logprobs.map(logprobJson), refusal: null } : null
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
