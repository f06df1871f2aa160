import type { OutputEvent } from './chat-output.ts'
import type { AnswerFacts, AnswerForm, Choice, TokenUsage, WireEvent } from './generation-answer.ts'
import type { JsonObject } from './request-fields.ts'

type Item = Record<string, unknown> & { readonly id: string; readonly type: string }

/** `response`, whole and as the events of the Responses API. */
export class ResponsesAnswer implements AnswerForm {
  readonly #facts: AnswerFacts
  readonly #asked: JsonObject
  readonly endsWithDone = false
  /** The items of the answer, each open until the next one begins. */
  readonly #items: Item[] = []
  #sequence = 0

  constructor(facts: AnswerFacts, asked: JsonObject) {
    this.#facts = facts
    this.#asked = asked
  }

  open(): WireEvent[] {
    const response = this.#response('in_progress', [], null)
    return [this.#event('response.created', { response }), this.#event('response.in_progress', { response })]
  }

  delta(choice: Choice, events: readonly OutputEvent[]): WireEvent[] {
    return events.flatMap((event) => this.#tell(choice, event))
  }

  close(): WireEvent[] {
    return this.#closeItem()
  }

  end([choice]: readonly Choice[], usage: TokenUsage | null): WireEvent[] {
    const { status, details } = statusOf(choice)
    const response = { ...this.#response(status, this.#items, usage), incomplete_details: details }
    return [this.#event(`response.${status}`, { response })]
  }

  whole([choice]: readonly Choice[], usage: TokenUsage | null): unknown {
    if (choice !== undefined) {
      if (choice.reasoning !== '') this.#tell(choice, { kind: 'reasoning', text: choice.reasoning })
      if (choice.content !== '' || choice.calls.length === 0)
        this.#tell(choice, { kind: 'content', text: choice.content })
      choice.calls.forEach(({ name, arguments: text }, index) => {
        this.#tell(choice, { kind: 'call', index, name })
        this.#tell(choice, { kind: 'arguments', index, text })
      })
      this.#closeItem()
    }
    const { status, details } = statusOf(choice)
    return { ...this.#response(status, this.#items, usage), incomplete_details: details }
  }

  #tell(choice: Choice, event: OutputEvent): WireEvent[] {
    if (event.kind === 'content') return [...this.#needItem('message'), ...this.#addText(event.text)]
    if (event.kind === 'reasoning') return [...this.#needItem('reasoning'), ...this.#addReasoning(event.text)]
    if (event.kind === 'call') return this.#openItem(this.#callItem(choice, event.index, event.name))
    const item = this.#items.at(-1) as Item
    item['arguments'] = `${item['arguments'] as string}${event.text}`
    return [this.#ofItem('response.function_call_arguments.delta', { delta: event.text })]
  }

  #callItem({ calls }: Choice, index: number, name: string): Item {
    return {
      id: this.#id('fc'),
      type: 'function_call',
      status: 'in_progress',
      call_id: calls[index]?.id ?? '',
      name,
      arguments: '',
    }
  }

  #needItem(type: 'message' | 'reasoning'): WireEvent[] {
    if (this.#items.at(-1)?.type === type) return []
    if (type === 'reasoning') return this.#openItem({ id: this.#id('rs'), type, summary: [], content: [] })
    const opened = this.#openItem({ id: this.#id('msg'), type, status: 'in_progress', role: 'assistant', content: [] })
    const part = { type: 'output_text', text: '', annotations: [], logprobs: [] }
    ;((this.#items.at(-1) as Item)['content'] as object[]).push(part)
    return [...opened, this.#ofItem('response.content_part.added', { content_index: 0, part: { ...part } })]
  }

  #openItem(item: Item): WireEvent[] {
    const closed = this.#closeItem()
    this.#items.push(item)
    const output_index = this.#items.length - 1
    return [...closed, this.#event('response.output_item.added', { output_index, item: copyOf(item) })]
  }

  #addText(text: string): WireEvent[] {
    const part = partOf(this.#items.at(-1))
    part['text'] = `${part['text'] as string}${text}`
    return [this.#ofItem('response.output_text.delta', { content_index: 0, delta: text, logprobs: [] })]
  }

  #addReasoning(text: string): WireEvent[] {
    const item = this.#items.at(-1) as Item
    const content = item['content'] as { type: string; text: string }[]
    if (content.length === 0) content.push({ type: 'reasoning_text', text: '' })
    ;(content[0] as { text: string }).text += text
    return [this.#ofItem('response.reasoning_text.delta', { content_index: 0, delta: text })]
  }

  #closeItem(): WireEvent[] {
    const item = this.#items.at(-1)
    if (item === undefined || item['isClosed'] === true) return []
    const events: WireEvent[] = []
    if (item.type === 'message') {
      item['status'] = 'completed'
      const part = partOf(item)
      events.push(this.#ofItem('response.output_text.done', { content_index: 0, text: part['text'], logprobs: [] }))
      events.push(this.#ofItem('response.content_part.done', { content_index: 0, part: { ...part } }))
    } else if (item.type === 'function_call') {
      item['status'] = 'completed'
      const done = { name: item['name'], arguments: item['arguments'] }
      events.push(this.#ofItem('response.function_call_arguments.done', done))
    }
    events.push(this.#event('response.output_item.done', { output_index: this.#items.length - 1, item: copyOf(item) }))
    Object.defineProperty(item, 'isClosed', { value: true, enumerable: false })
    return events
  }

  #id(prefix: string): string {
    return `${prefix}_${this.#facts.id.slice(this.#facts.id.indexOf('_') + 1)}${this.#items.length}`
  }

  #ofItem(name: string, members: object): WireEvent {
    return this.#event(name, {
      item_id: this.#items.at(-1)?.id ?? '',
      output_index: this.#items.length - 1,
      ...members,
    })
  }

  #event(name: string, members: object): WireEvent {
    return { name, json: { type: name, sequence_number: this.#sequence++, ...members } }
  }

  #response(status: string, output: readonly Item[], usage: TokenUsage | null): JsonObject {
    const { id, created, model } = this.#facts
    return {
      id,
      object: 'response',
      created_at: created,
      status,
      background: false,
      error: null,
      incomplete_details: null,
      instructions: this.#asked['instructions'] ?? null,
      max_output_tokens: this.#asked['max_output_tokens'] ?? null,
      model,
      output: output.map(copyOf),
      parallel_tool_calls: this.#asked['parallel_tool_calls'] ?? true,
      previous_response_id: null,
      reasoning: this.#asked['reasoning'] ?? { effort: null, summary: null },
      store: false,
      temperature: this.#asked['temperature'] ?? null,
      text: this.#asked['text'] ?? { format: { type: 'text' } },
      tool_choice: this.#asked['tool_choice'] ?? 'auto',
      tools: this.#asked['tools'] ?? [],
      top_p: this.#asked['top_p'] ?? null,
      truncation: 'disabled',
      usage: usageOf(usage),
      user: this.#asked['user'] ?? null,
      metadata: this.#asked['metadata'] ?? {},
    }
  }
}

const copyOf = (item: Item): object => structuredClone({ ...item })

const partOf = (item: Item | undefined): Record<string, unknown> =>
  ((item?.['content'] as Record<string, unknown>[] | undefined) ?? [{}])[0] ?? {}

const statusOf = (choice: Choice | undefined): { status: 'completed' | 'incomplete'; details: object | null } =>
  choice?.finishReason === 'length'
    ? { status: 'incomplete', details: { reason: 'max_output_tokens' } }
    : { status: 'completed', details: null }

const usageOf = (usage: TokenUsage | null): unknown =>
  usage === null
    ? null
    : {
        input_tokens: usage.inputTokens,
        input_tokens_details: { cached_tokens: usage.cachedTokens },
        output_tokens: usage.outputTokens,
        output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
        total_tokens: usage.inputTokens + usage.outputTokens,
      }
