// One tool call as models write it, {"name": …, "arguments": {…}}, read piece by piece. The arguments are passed on as they
// come, so that a client sees them grow.

export type ToolCallEvent =
  | { readonly kind: 'name'; readonly name: string }
  /** A piece of the JSON text of the arguments. */
  | { readonly kind: 'arguments'; readonly text: string }

type Place = 'before' | 'key' | 'colon' | 'value' | 'behind' | 'done'

const argumentKeys: readonly string[] = ['arguments', 'parameters', 'args', 'input']
const nameKeys: readonly string[] = ['name', 'function']
const blank = /\s/

/** A text that breaks the form of JSON ends the call there. Nothing here throws. */
export class ToolCallReader {
  /** All that was read: it may turn out to be no call. */
  raw = ''
  #place: Place = 'before'
  #key = ''
  #value = ''
  /** Arguments that came before the name. */
  #early = ''
  #hasName = false
  #hasArguments = false
  /** Of the value that is being read. */
  #depth = 0
  #isInString = false
  #isEscaped = false
  #isStringValue = false

  get hasName(): boolean {
    return this.#hasName
  }

  get isDone(): boolean {
    return this.#place === 'done'
  }

  /** Returns how many characters belong to the call. Fewer than there are: the call ends there. */
  feed(text: string, events: ToolCallEvent[]): number {
    let at = 0
    while (at < text.length && this.#place !== 'done') at = this.#step(text, at, events)
    this.raw += text.slice(0, at)
    return at
  }

  /** The text has ended, or the call has. A call without arguments has none to give. */
  end(events: ToolCallEvent[]): void {
    if (!this.#hasName) return
    if (this.#place === 'value' && argumentKeys.includes(this.#key)) {
      if (this.#isStringValue) this.#giveArguments(unquoted(this.#value), events)
    } else if (!this.#hasArguments) this.#giveArguments('{}', events)
    this.#place = 'done'
  }

  #step(text: string, at: number, events: ToolCallEvent[]): number {
    const char = text[at] as string
    if (this.#place === 'value') return this.#readValue(text, at, events)
    if (this.#place === 'key') {
      this.#readKey(char)
      return at + 1
    }
    if (blank.test(char) || this.#readMark(char, events)) return at + 1
    // What cannot stand here is no part of the call.
    this.end(events)
    this.#place = 'done'
    return at
  }

  /** What stands between keys and values. False: the character has no place here. */
  #readMark(char: string, events: ToolCallEvent[]): boolean {
    if (this.#place === 'before') {
      this.#place = 'behind'
      return char === '{'
    }
    if (this.#place === 'colon') {
      this.#beginValue()
      return char === ':'
    }
    if (char === '"') {
      this.#place = 'key'
      this.#key = ''
    } else if (char === '}') {
      this.end(events)
      this.#place = 'done'
    } else return char === ','
    return true
  }

  #readKey(char: string): void {
    if (this.#isEscaped) this.#isEscaped = false
    else if (char === '\\') this.#isEscaped = true
    else if (char === '"') {
      this.#place = 'colon'
      return
    }
    this.#key += char
  }

  #beginValue(): void {
    this.#place = 'value'
    this.#value = ''
    this.#depth = 0
    this.#isInString = false
    this.#isStringValue = false
  }

  #readValue(text: string, from: number, events: ToolCallEvent[]): number {
    const isArguments = argumentKeys.includes(this.#key)
    let at = from
    let isOver = false
    for (; at < text.length; at++) {
      const char = text[at] as string
      if (this.#value === '' && at === from && blank.test(char)) return at + 1
      if (this.#isInString) this.#readStringChar(char)
      else if (char === '"') {
        this.#isInString = true
        if (this.#value === '' && at === from) this.#isStringValue = true
      } else if (char === '{' || char === '[') this.#depth++
      else if (char === '}' || char === ']') {
        if (this.#depth === 0) {
          isOver = true
          break
        }
        this.#depth--
        if (this.#depth === 0) {
          at++
          isOver = true
          break
        }
      } else if (char === ',' && this.#depth === 0) {
        isOver = true
        break
      }
    }
    const piece = text.slice(from, at)
    if (isArguments && !this.#isStringValue) this.#giveArguments(piece, events)
    this.#value += isArguments && !this.#isStringValue ? (piece === '' ? '' : ' ') : piece
    if (isOver) this.#endValue(isArguments, events)
    return at
  }

  #readStringChar(char: string): void {
    if (this.#isEscaped) this.#isEscaped = false
    else if (char === '\\') this.#isEscaped = true
    else if (char === '"') this.#isInString = false
  }

  #endValue(isArguments: boolean, events: ToolCallEvent[]): void {
    this.#place = 'behind'
    if (isArguments && this.#isStringValue) this.#giveArguments(unquoted(this.#value), events)
    else if (!isArguments && nameKeys.includes(this.#key) && this.#isStringValue && !this.#hasName) {
      this.#hasName = true
      events.push({ kind: 'name', name: unquoted(this.#value) })
      const early = this.#early
      this.#early = ''
      if (early !== '') events.push({ kind: 'arguments', text: early })
    }
  }

  #giveArguments(text: string, events: ToolCallEvent[]): void {
    if (text === '') return
    this.#hasArguments = true
    if (this.#hasName) events.push({ kind: 'arguments', text })
    else this.#early += text
  }
}

function unquoted(text: string): string {
  try {
    return String(JSON.parse(text.trim()))
  } catch {
    return text.trim().replace(/^"|"$/g, '')
  }
}
