import { Drain } from '../../base/drain.ts'

/** Requests that front ends have in hand and will pass on: an exit or a reload that begins meanwhile waits for them. */
export class ExpectedRequests {
  /** For each request, the functions to call when it was passed on or given up. */
  readonly #pending = new Set<(() => void)[]>()
  readonly #drain = new Drain(() => this.#pending.size === 0)

  /** The result is called once: the request was passed on, or given up. */
  expect(): () => void {
    const waiters: (() => void)[] = []
    this.#pending.add(waiters)
    return () => {
      this.#pending.delete(waiters)
      for (const tell of waiters) tell()
      this.#drain.check()
    }
  }

  /** Resolves when the requests that are expected now were passed on; null when there are none. */
  passedOn(): Promise<void> | null {
    if (this.#pending.size === 0) return null
    const ends = [...this.#pending].map((waiters) => new Promise<void>((resolve) => waiters.push(resolve)))
    return Promise.all(ends).then(() => undefined)
  }

  none(): Promise<void> {
    return this.#drain.idle()
  }
}
