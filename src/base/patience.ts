/**
 * Waits for work until nobody wants to wait any longer. A `Promise.race` against a promise that lasts as long as the server
 * would keep something of every race until then: each reload of a model left such a rest.
 */
export class Patience {
  readonly #leave = new Set<() => void>()
  #hasEnded = false

  /** A patience that has ended: nothing is waited for. */
  static none(): Patience {
    const patience = new Patience()
    patience.end()
    return patience
  }

  /** How many waits are under way. */
  get waitingCount(): number {
    return this.#leave.size
  }

  end(): void {
    this.#hasEnded = true
    for (const leave of this.#leave) leave()
    this.#leave.clear()
  }

  /** Resolves when the work is done, or the patience ends. Rejects when the work does before. */
  async waitFor(work: Promise<unknown>): Promise<void> {
    const left = Promise.withResolvers<void>()
    if (this.#hasEnded) left.resolve()
    else this.#leave.add(left.resolve)
    try {
      await Promise.race([work, left.promise])
    } finally {
      this.#leave.delete(left.resolve)
    }
  }
}
