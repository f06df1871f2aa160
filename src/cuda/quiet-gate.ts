/**
 * Lets one job be alone among those that call CUDA. While a graph is recorded, a call of any other thread of the process that
 * takes or frees memory makes the recording invalid, and ONNX Runtime goes on with a graph that computes nothing.
 */
export class QuietGate {
  #running = 0
  #isAlone = false
  readonly #waiting: { readonly isAlone: boolean; readonly start: () => void }[] = []

  /** Calls `start` now, or when those before it have left. In the order of arrival. */
  enter(isAlone: boolean, start: () => void): void {
    if (this.#waiting.length === 0 && this.#isOpen(isAlone)) this.#begin(isAlone, start)
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
    await new Promise<void>((resolve) => this.enter(false, resolve))
    try {
      return await work()
    } finally {
      this.leave()
    }
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
