/**
 * Lets one job be alone among those that call CUDA. While a graph is recorded, a call of any other thread of the process that
 * takes or frees memory makes the recording invalid, and ONNX Runtime goes on with a graph that computes nothing.
 *
 * A job that wants to be alone holds those behind it back, else it would never be alone. Not so while a session is made, which may take
 * minutes: nobody shall wait for two.
 */
export class QuietGate {
  #running = 0
  #isAlone = false
  /** Sessions that are being made. */
  #longCount = 0
  readonly #waiting: { readonly isAlone: boolean; readonly start: () => void }[] = []

  /** A job that is to be alone would have to wait for a session now. */
  get isOccupied(): boolean {
    return this.#longCount > 0
  }

  /** Calls `start` now, or when those before it have left. In the order of arrival. */
  enter(isAlone: boolean, start: () => void): void {
    const isFirst = this.#waiting.length === 0 || (!isAlone && this.#longCount > 0)
    if (isFirst && this.#isOpen(isAlone)) this.#begin(isAlone, start)
    else this.#waiting.push({ isAlone, start })
  }

  leave(): void {
    this.#running--
    this.#isAlone = false
    for (;;) {
      const [next] = this.#waiting
      if (next === undefined || !this.#isOpen(next.isAlone)) return
      this.#waiting.shift()
      this.#begin(next.isAlone, next.start)
    }
  }

  /** For work that is no program of a thread of a GPU, such as making a session. */
  async among<Result>(work: () => Promise<Result>): Promise<Result> {
    await new Promise<void>((resolve) => {
      this.enter(false, () => {
        this.#longCount++
        resolve()
      })
    })
    // Those that came before a session began to be made need not wait for it either.
    this.#letOthersIn()
    try {
      return await work()
    } finally {
      this.#longCount--
      this.leave()
    }
  }

  #letOthersIn(): void {
    const others = this.#waiting.filter(({ isAlone }) => !isAlone)
    if (others.length === 0) return
    const alone = this.#waiting.filter(({ isAlone }) => isAlone)
    this.#waiting.splice(0, Infinity, ...alone)
    for (const { start } of others) this.#begin(false, start)
  }

  #isOpen(isAlone: boolean): boolean {
    return isAlone ? this.#running === 0 : !this.#isAlone
  }

  #begin(isAlone: boolean, start: () => void): void {
    this.#running++
    this.#isAlone = isAlone
    start()
  }
}
