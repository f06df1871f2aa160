/** Counts the requests that use a region. A region that was asked to go leaves with the last of them. */
export class RegionHolders {
  #count = 0
  #onFree: (() => void) | null = null

  get isHeld(): boolean {
    return this.#count > 0
  }

  /** True once it was asked to go: nobody new may use it. */
  get isLeaving(): boolean {
    return this.#onFree !== null
  }

  hold(): void {
    this.#count++
  }

  release(): void {
    this.#count--
    if (this.#count === 0) this.#onFree?.()
  }

  /** Calls `gone` once: now, or when nobody holds the region any more. */
  leave(gone: () => void): void {
    if (this.isLeaving) return
    let isGone = false
    this.#onFree = () => {
      if (isGone) return
      isGone = true
      gone()
    }
    if (this.#count === 0) this.#onFree()
  }
}
