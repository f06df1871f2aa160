/** A bound for memory that is kept between batches, for all models of one GPU together. What goes over it is kept by nobody. */
export class GpuMemoryBudget {
  readonly limitBytes: number
  #usedBytes = 0

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes
  }

  get usedBytes(): number {
    return this.#usedBytes
  }

  /** False: there is no room, and nothing was counted. */
  take(bytes: number): boolean {
    if (this.#usedBytes + bytes > this.limitBytes) return false
    this.#usedBytes += bytes
    return true
  }

  giveBack(bytes: number): void {
    this.#usedBytes -= bytes
  }
}
