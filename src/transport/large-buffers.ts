// Memory of large bodies, used again. V8 counts what lies outside of its heap: a fresh buffer of 10 MB for each request made
// it collect garbage for longer than all the rest of such a request took (bench/large-tensor.bench.ts).

/** Smaller bodies have fresh memory. */
export const leastLargeBytes = 1024 * 1024

/** Sizes are rounded up to a multiple: a head that is a few bytes longer than the last one needs no other buffer. */
const stepBytes = 64 * 1024

/** The most bytes that are kept for later, and the most pieces. */
export const mostKeptBytes = 1024 * 1024 * 1024
const mostKept = 256

/** A buffer may be larger than what it is taken for by this part of it. */
const mostWaste = 1 / 8

/** Kept memory that nobody took for so long goes back to the system. */
const keptNs = 10e9

/** Memory that a GPU copies from by itself. */
export interface PinnedSource {
  readonly limitBytes: number
  readonly usedBytes: number
  /** Null: there is none of that size now. */
  take(byteLength: number): Buffer | null
  /** False: the memory is not of this source. */
  giveBack(memory: ArrayBufferLike): boolean
}

export class LargeBuffers {
  readonly #pinned: PinnedSource | null
  readonly #mostBytes: number
  #kept: Buffer[] = []
  #keptBytes = 0
  #isIdle = true
  #idleSinceNs = 0

  constructor(mostBytes: number, pinned: PinnedSource | null = null) {
    this.#pinned = pinned
    this.#mostBytes = Math.min(mostBytes, mostKeptBytes)
  }

  get keptBytes(): number {
    return this.#keptBytes
  }

  /** Not cleared, and at least so long; null: nothing fits. */
  take(byteLength: number): Buffer | null {
    if (byteLength < leastLargeBytes) return null
    this.#isIdle = false
    const pinned = this.#pinned?.take(Math.ceil(byteLength / stepBytes) * stepBytes) ?? null
    if (pinned !== null) return pinned
    const kept = this.#kept
    for (let i = kept.length - 1; i >= 0; i--) {
      const buffer = kept[i] as Buffer
      if (buffer.length < byteLength || buffer.length * (1 - mostWaste) > byteLength) continue
      kept.splice(i, 1)
      this.#keptBytes -= buffer.length
      return buffer
    }
    return null
  }

  /** Nobody looks at the memory of these bytes any more. Never called twice for the same body. */
  give({ buffer: memory }: Buffer): void {
    const { byteLength } = memory
    // Memory that was handed to a thread has no bytes left.
    if (byteLength < leastLargeBytes || this.#pinned?.giveBack(memory) === true) return
    while (this.#kept.length > 0 && (this.#keptBytes + byteLength > this.#mostBytes || this.#kept.length >= mostKept)) {
      this.#keptBytes -= (this.#kept.shift() as Buffer).length
    }
    if (byteLength > this.#mostBytes) return
    this.#kept.push(Buffer.from(memory))
    this.#keptBytes += byteLength
  }

  /** From the transports, every second. */
  sweep(nowNs: number): void {
    if (!this.#isIdle) {
      this.#isIdle = true
      this.#idleSinceNs = nowNs
    } else if (this.#keptBytes > 0 && nowNs - this.#idleSinceNs > keptNs) {
      this.#kept = []
      this.#keptBytes = 0
    }
  }
}
