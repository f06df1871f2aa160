/** What becomes of those who come while so many wait. */
type WaitingLine = { readonly most: number; readonly refusal: () => Error }

/** Lets so many pass at a time; the others wait in the order they came. */
export class Turnstile {
  #free: number
  readonly #waiting: (() => void)[] = []
  readonly #line: WaitingLine | null

  /** Without a bound for the line, all may wait. */
  constructor(width: number, line: WaitingLine | null = null) {
    this.#free = width
    this.#line = line
  }

  async pass<Value>(action: () => Promise<Value>): Promise<Value> {
    if (this.#free > 0) this.#free--
    else if (this.#line !== null && this.#waiting.length >= this.#line.most) throw this.#line.refusal()
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await action()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free++
      else next()
    }
  }
}
