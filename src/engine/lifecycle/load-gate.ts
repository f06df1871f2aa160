/** Lets at most `limit` tasks run at a time; further tasks wait in line. */
export class LoadGate {
  #free: number
  readonly #line: (() => void)[] = []

  constructor(limit: number) {
    this.#free = Math.max(1, limit)
  }

  async run<T>(act: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--
    else await new Promise<void>((resolve) => this.#line.push(resolve))
    try {
      return await act()
    } finally {
      const next = this.#line.shift()
      if (next === undefined) this.#free++
      else next()
    }
  }
}
