/** What becomes of those who come while so many wait. */
type WaitingLine = { readonly most: number; readonly refusal: () => Error }

type Waiting = { readonly places: number; readonly enter: () => void }

/** Lets so many pass at a time; the others wait in the order they came. */
export class Turnstile {
  readonly #width: number
  #free: number
  readonly #waiting: Waiting[] = []
  readonly #line: WaitingLine | null

  /** Without a bound for the line, all may wait. */
  constructor(width: number, line: WaitingLine | null = null) {
    this.#width = width
    this.#free = width
    this.#line = line
  }

  /** `places`: how many of them the action takes. One that takes more than there are passes alone. */
  async pass<Value>(action: () => Promise<Value>, places = 1): Promise<Value> {
    const taken = Math.min(places, this.#width)
    if (this.#waiting.length === 0 && this.#free >= taken) this.#free -= taken
    else if (this.#line !== null && this.#waiting.length >= this.#line.most) throw this.#line.refusal()
    else await new Promise<void>((enter) => this.#waiting.push({ places: taken, enter }))
    try {
      return await action()
    } finally {
      this.#free += taken
      this.#admit()
    }
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined && next.places <= this.#free; next = this.#waiting[0]) {
      this.#free -= next.places
      this.#waiting.shift()
      next.enter()
    }
  }
}
