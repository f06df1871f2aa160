/** Requests that front ends have in hand and will pass on: an exit that begins meanwhile waits for them. */
export class ExpectedRequests {
  #count = 0
  #onNone: (() => void) | null = null

  /** The result is called once: the request was passed on, or given up. */
  expect(): () => void {
    this.#count++
    return () => {
      this.#count--
      if (this.#count === 0) this.#onNone?.()
    }
  }

  none(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#count === 0) resolve()
      else this.#onNone = resolve
    })
  }
}
