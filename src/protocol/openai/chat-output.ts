// The text of a chat model → content, reasoning and tool calls, piece by piece. Models of one family write tool calls alike:
//
//   Hermes, Qwen   <tool_call>{"name": …, "arguments": {…}}</tool_call>
//   Mistral        [TOOL_CALLS][{"name": …, "arguments": {…}}, …] and [TOOL_CALLS]name[ARGS]{…}
//   Llama 3        {"name": …, "parameters": {…}} as the whole answer, perhaps behind <|python_tag|>
//
// Reasoning stands between <think> and </think> at the beginning of the text.

import { ToolCallReader, type ToolCallEvent } from './tool-call-reader.ts'

export type OutputEvent =
  | { readonly kind: 'content'; readonly text: string }
  | { readonly kind: 'reasoning'; readonly text: string }
  | { readonly kind: 'call'; readonly index: number; readonly name: string }
  | { readonly kind: 'arguments'; readonly index: number; readonly text: string }

export type ChatOutputSettings = {
  /** Tools that may be called; empty: tool calls are not looked for. */
  readonly toolNames: ReadonlySet<string>
  readonly separatesReasoning: boolean
  /** The prompt has opened the reasoning. */
  readonly startsInReasoning: boolean
  /** The whole text is the arguments of this tool; '' : it is not. */
  readonly onlyTool: string
  /** What the model writes behind its first call is left out. */
  readonly callsOnce: boolean
}

const thinkStart = '<think>'
const thinkEnd = '</think>'
const pythonTag = '<|python_tag|>'
const mistralMark = '[TOOL_CALLS]'
const argsMark = '[ARGS]'
const hermesMark = '<tool_call>'
const hermesEnd = '</tool_call>'
const callMarks: readonly string[] = [hermesMark, mistralMark, pythonTag]
/** What may stand between two calls. */
const betweenCalls =
  /^(?:\[TOOL_CALLS\]|<\/tool_call>|<tool_call>|<\|python_tag\|>|<\|eom_id\|>|<\|eot_id\|>|[\s,;\]]|\[(?=\s*\{))+/
const partOfBetween: readonly string[] = [...callMarks, hermesEnd]

type Mode = 'start' | 'reasoning' | 'content' | 'calls' | 'call' | 'arguments' | 'over'

export class ChatOutput {
  readonly #settings: ChatOutputSettings
  #mode: Mode = 'start'
  #held = ''
  #callCount = 0
  #call: ToolCallReader | null = null
  /** Calls of the form that begins the answer, without a mark: they must name a tool. */
  #isUnmarked = false
  #isAfterReasoning = false

  constructor(settings: ChatOutputSettings) {
    this.#settings = settings
    if (settings.startsInReasoning && settings.separatesReasoning) this.#mode = 'reasoning'
  }

  get callCount(): number {
    return this.#callCount
  }

  push(text: string): OutputEvent[] {
    return this.#run(text, false)
  }

  /** The text has ended: what was held back is told now. */
  end(): OutputEvent[] {
    return this.#run('', true)
  }

  #run(text: string, isEnd: boolean): OutputEvent[] {
    const events: OutputEvent[] = []
    this.#held += text
    let before = ''
    // Each step takes something of the text or changes the mode, or leaves the rest until more comes.
    do {
      before = `${this.#mode} ${this.#held.length}`
      this.#step(events, isEnd)
    } while (`${this.#mode} ${this.#held.length}` !== before)
    return events
  }

  #step(events: OutputEvent[], isEnd: boolean): void {
    if (this.#mode === 'start') this.#start(isEnd)
    else if (this.#mode === 'reasoning') this.#reason(events, isEnd)
    else if (this.#mode === 'content') this.#tellContent(events, isEnd)
    else if (this.#mode === 'calls') this.#betweenCalls(events, isEnd)
    else if (this.#mode === 'call') this.#readCall(events, isEnd)
    else if (this.#mode === 'over') this.#held = ''
    else this.#tellArguments(events)
  }

  #start(isEnd: boolean): void {
    const { separatesReasoning, toolNames, onlyTool } = this.#settings
    const text = this.#held.trimStart()
    if (separatesReasoning && !this.#isAfterReasoning) {
      if (text.startsWith(thinkStart)) {
        this.#held = text.slice(thinkStart.length)
        this.#mode = 'reasoning'
        return
      }
      if (!isEnd && thinkStart.startsWith(text)) return
    }
    if (onlyTool !== '') {
      this.#mode = 'arguments'
      return
    }
    if (toolNames.size > 0) {
      if (text === '' && !isEnd) return
      const isList = text.startsWith('[') && !text.startsWith(mistralMark) && !mistralMark.startsWith(text)
      if (text.startsWith('{') || (isList && (text.length > 1 || isEnd) && /^\[\s*\{/.test(text))) {
        this.#isUnmarked = true
        this.#mode = 'calls'
        return
      }
      if (!isEnd && /^\[\s*$/.test(text)) return
    }
    this.#mode = 'content'
  }

  #reason(events: OutputEvent[], isEnd: boolean): void {
    const end = this.#held.indexOf(thinkEnd)
    if (end < 0) {
      this.#tell(events, 'reasoning', isEnd ? this.#held.length : safeLength(this.#held, [thinkEnd]))
      return
    }
    this.#tell(events, 'reasoning', end)
    this.#held = this.#held.slice(thinkEnd.length).replace(/^\s+/, '')
    this.#isAfterReasoning = true
    this.#mode = 'start'
  }

  #tellContent(events: OutputEvent[], isEnd: boolean): void {
    if (this.#isAfterReasoning) {
      // The blank lines behind the reasoning may come in a piece of their own.
      this.#held = this.#held.trimStart()
      if (this.#held !== '') this.#isAfterReasoning = false
    }
    if (this.#settings.toolNames.size === 0) {
      this.#tell(events, 'content', this.#held.length)
      return
    }
    const places = callMarks.map((mark) => this.#held.indexOf(mark)).filter((place) => place >= 0)
    if (places.length > 0) {
      this.#tell(events, 'content', Math.min(...places))
      this.#mode = 'calls'
    } else this.#tell(events, 'content', isEnd ? this.#held.length : safeLength(this.#held, callMarks))
  }

  #betweenCalls(events: OutputEvent[], isEnd: boolean): void {
    this.#held = this.#held.replace(betweenCalls, '')
    const text = this.#held
    if (text === '') return
    if (text.startsWith('{')) {
      this.#call = new ToolCallReader()
      this.#mode = 'call'
      return
    }
    if (!isEnd && (/^\[\s*$/.test(text) || partOfBetween.some((mark) => mark.startsWith(text)))) return
    this.#readNamedCall(events, isEnd)
  }

  /** `name[ARGS]{…}` and `name{…}` become a call in JSON. Other text behind calls is content. */
  #readNamedCall(events: OutputEvent[], isEnd: boolean): void {
    const named = /^([\w.-]{1,128})(?:\[CALL_ID\][\w-]*)?(?:\[ARGS\])?\s*(?=\{)/.exec(this.#held)
    if (named !== null && this.#settings.toolNames.has(named[1] ?? '')) {
      this.#held = `{"name":${JSON.stringify(named[1])},"arguments":${this.#held.slice(named[0].length)}`
      return
    }
    const isPart = /^[\w.-]{1,128}(?:\[[\w\]-]*)?\s*$/.test(this.#held)
    if (isPart && !isEnd && this.#held.length < 200 + argsMark.length) return
    this.#tell(events, 'content', this.#held.length)
    if (this.#callCount === 0) this.#mode = 'content'
  }

  #readCall(events: OutputEvent[], isEnd: boolean): void {
    const call = this.#call as ToolCallReader
    const found: ToolCallEvent[] = []
    const taken = call.feed(this.#held, found)
    const rest = this.#held.slice(taken)
    this.#held = rest
    if (isEnd && !call.isDone) call.end(found)
    this.#tellCall(found, events)
    if (!call.isDone && !isEnd) return
    if (!call.hasName || this.#call === null) {
      // It looked like a call and was none: an answer in JSON.
      if (this.#call !== null) events.push({ kind: 'content', text: call.raw })
      this.#mode = 'content'
    } else this.#mode = this.#settings.callsOnce ? 'over' : 'calls'
    this.#call = null
  }

  #tellCall(found: readonly ToolCallEvent[], events: OutputEvent[]): void {
    for (const event of found) {
      if (event.kind === 'name') {
        if (this.#isUnmarked && this.#callCount === 0 && !this.#settings.toolNames.has(event.name)) {
          events.push({ kind: 'content', text: (this.#call as ToolCallReader).raw })
          this.#call = null
          this.#mode = 'content'
          return
        }
        events.push({ kind: 'call', index: this.#callCount++, name: event.name })
      } else events.push({ kind: 'arguments', index: this.#callCount - 1, text: event.text })
    }
  }

  #tellArguments(events: OutputEvent[]): void {
    if (this.#held === '') return
    if (this.#callCount === 0) {
      events.push({ kind: 'call', index: 0, name: this.#settings.onlyTool })
      this.#callCount = 1
    }
    events.push({ kind: 'arguments', index: 0, text: this.#held })
    this.#held = ''
  }

  #tell(events: OutputEvent[], kind: 'content' | 'reasoning', length: number): void {
    if (length === 0) return
    events.push({ kind, text: this.#held.slice(0, length) })
    this.#held = this.#held.slice(length)
  }
}

/** How much of the text cannot be the beginning of a mark. */
function safeLength(text: string, marks: readonly string[]): number {
  const longest = Math.max(...marks.map((mark) => mark.length)) - 1
  for (let length = Math.min(longest, text.length); length > 0; length--) {
    const end = text.slice(text.length - length)
    if (marks.some((mark) => mark.startsWith(end))) return text.length - length
  }
  return text.length
}
