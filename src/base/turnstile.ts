/** What becomes of those who come while so many wait. */
type WaitingLine = { readonly most: number; readonly refusal: () => Error }

type Waiting = { readonly places: number; readonly enter: () => void }

type Passage = {
  /** How many of them the action takes: 1 when left out. One that takes more than there are passes alone. */
  readonly places?: number
  /** With its abort an action that waits leaves the line; one that has begun goes on. */
  readonly signal?: AbortSignal
}

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

  /** Rejects with the reason of the signal where that comes before the action begins. */
  async pass<Value>(action: () => Promise<Value>, { places = 1, signal }: Passage = {}): Promise<Value> {
    signal?.throwIfAborted()
    const taken = Math.min(places, this.#width)
    if (this.#waiting.length === 0 && this.#free >= taken) this.#free -= taken
    else if (this.#line !== null && this.#waiting.length >= this.#line.most) throw this.#line.refusal()
    else await this.#wait(taken, signal)
    try {
      return await action()
    } finally {
      this.#free += taken
      this.#admit()
    }
  }

  #wait(places: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = (): void => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      const waiting = { places, enter }
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        // It may have been the one that needed too many places.
        this.#admit()
        reject(signal?.reason as Error)
      }
      this.#waiting.push(waiting)
      signal?.addEventListener('abort', leave, { once: true })
    })
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined && next.places <= this.#free; next = this.#waiting[0]) {
      this.#free -= next.places
      this.#waiting.shift()
      next.enter()
    }
  }
}
