// Blocks of a region: first fit, and free neighbours are merged. Only offsets and sizes: TensorRegions has the memory.

export const blockBytes = 64

export class BlockAllocator {
  /** Free runs by offset, ascending, never touching each other. */
  readonly #starts: number[] = []
  readonly #sizes: number[] = []
  readonly #used = new Map<number, number>()
  #capacity = 0
  #usedBytes = 0

  get capacity(): number {
    return this.#capacity
  }

  get usedBytes(): number {
    return this.#usedBytes
  }

  get isEmpty(): boolean {
    return this.#used.size === 0
  }

  /** The offset of a block, or -1 when the region must grow first. */
  take(bytes: number): number {
    const size = Math.max(Math.ceil(bytes / blockBytes), 1) * blockBytes
    for (let i = 0; i < this.#starts.length; i++) {
      const free = this.#sizes[i] as number
      if (free < size) continue
      const start = this.#starts[i] as number
      if (free === size) {
        this.#starts.splice(i, 1)
        this.#sizes.splice(i, 1)
      } else {
        this.#starts[i] = start + size
        this.#sizes[i] = free - size
      }
      this.#used.set(start, size)
      this.#usedBytes += size
      return start
    }
    return -1
  }

  /** False when no block starts there: then the worker named a block that it does not have. */
  free(offset: number): boolean {
    const size = this.#used.get(offset)
    if (size === undefined) return false
    this.#used.delete(offset)
    this.#usedBytes -= size
    this.#insert(offset, size)
    return true
  }

  grow(capacity: number): void {
    this.#insert(this.#capacity, capacity - this.#capacity)
    this.#capacity = capacity
  }

  /** The capacity at which `bytes` would fit at the end. */
  capacityFor(bytes: number): number {
    const last = this.#starts.length - 1
    const hasTail = last >= 0 && (this.#starts[last] as number) + (this.#sizes[last] as number) === this.#capacity
    const tail = hasTail ? (this.#sizes[last] as number) : 0
    return this.#capacity - tail + Math.ceil(bytes / blockBytes) * blockBytes
  }

  #insert(start: number, size: number): void {
    let low = 0
    let high = this.#starts.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#starts[middle] as number) < start) low = middle + 1
      else high = middle
    }
    if (low < this.#starts.length && start + size === this.#starts[low]) {
      size += this.#sizes[low] as number
      this.#starts.splice(low, 1)
      this.#sizes.splice(low, 1)
    }
    if (low > 0 && (this.#starts[low - 1] as number) + (this.#sizes[low - 1] as number) === start) {
      this.#sizes[low - 1] = (this.#sizes[low - 1] as number) + size
    } else {
      this.#starts.splice(low, 0, start)
      this.#sizes.splice(low, 0, size)
    }
  }
}
