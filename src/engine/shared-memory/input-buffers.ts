/** Up to this size a fresh buffer costs next to nothing. */
const leastBytes = 64 * 1024

/** The most bytes that are kept for later, of all sizes together. */
const mostKeptBytes = 128 * 1024 * 1024

/**
 * Buffers that inputs are read into, used again. A fresh one of 4 MiB costs page faults and, because V8 counts what lies
 * outside of its heap, a collection of garbage every few requests: three quarters of the CPU of such a request
 * (bench/shared-memory.bench.ts).
 */
export class InputBuffers {
  /** By size: clients send the same tensor again and again. */
  readonly #kept = new Map<number, Buffer[]>()
  #keptBytes = 0

  get keptBytes(): number {
    return this.#keptBytes
  }

  /** Not cleared. Throws when the system has no memory. */
  take(byteSize: number): Buffer {
    if (byteSize < leastBytes) return Buffer.allocUnsafe(byteSize)
    const kept = this.#kept.get(byteSize)?.pop()
    if (kept === undefined) return Buffer.allocUnsafeSlow(byteSize)
    this.#keptBytes -= byteSize
    return kept
  }

  /** Nobody looks at the buffer any more. */
  give(buffer: Buffer): void {
    const { length } = buffer
    // A buffer that was handed to a thread has no bytes left.
    if (length < leastBytes) return
    if (this.#keptBytes + length > mostKeptBytes) this.clear()
    if (length > mostKeptBytes) return
    const kept = this.#kept.get(length)
    if (kept === undefined) this.#kept.set(length, [buffer])
    else kept.push(buffer)
    this.#keptBytes += length
  }

  clear(): void {
    this.#kept.clear()
    this.#keptBytes = 0
  }
}
