// Makes text of the bytes of tokens. A character may come in several tokens, and a stop text may too: what could become either
// is kept back until it is clear.

export class AnswerText {
  readonly #decoder = new TextDecoder()
  readonly #stops: readonly string[]
  #kept = ''
  #isStopped = false

  constructor(stops: readonly string[]) {
    this.#stops = stops
  }

  /** A stop text came; nothing after it is given out. */
  get isStopped(): boolean {
    return this.#isStopped
  }

  /** The text that is certain now. */
  push(bytes: Uint8Array): string {
    return this.#take(this.#decoder.decode(bytes, { stream: true }))
  }

  /** The rest, when no more bytes come. Half a character becomes a replacement character. */
  end(): string {
    const last = this.#take(this.#decoder.decode())
    const rest = this.#isStopped ? '' : this.#kept
    this.#kept = ''
    return last + rest
  }

  #take(text: string): string {
    if (this.#isStopped) return ''
    if (this.#stops.length === 0) return text
    const all = this.#kept + text
    const stop = firstOf(all, this.#stops)
    if (stop >= 0) {
      this.#isStopped = true
      this.#kept = ''
      return all.slice(0, stop)
    }
    const length = all.length - keptLength(all, this.#stops)
    this.#kept = all.slice(length)
    return all.slice(0, length)
  }
}

/** Where the first of the texts begins; -1: nowhere. */
function firstOf(text: string, stops: readonly string[]): number {
  let first = -1
  for (const stop of stops) {
    const at = text.indexOf(stop)
    if (at >= 0 && (first < 0 || at < first)) first = at
  }
  return first
}

/** How many characters at the end could be the beginning of a stop text. */
function keptLength(text: string, stops: readonly string[]): number {
  let most = 0
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > most; length--) {
      if (text.endsWith(stop.slice(0, length))) most = length
    }
  }
  return most
}
