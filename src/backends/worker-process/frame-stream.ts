// Cuts the bytes that arrive from a worker into frames. A frame that lies inside one chunk is a view on it.

import { headerBytes } from './frames.ts'

export class FrameStream {
  readonly #onFrame: (frame: Buffer) => void
  readonly #maxFrameBytes: number
  /** The frame being put together, and how much of it is there; or the start of a header. */
  #partial: Buffer | null = null
  #filled = 0

  constructor(onFrame: (frame: Buffer) => void, maxFrameBytes: number) {
    this.#onFrame = onFrame
    this.#maxFrameBytes = maxFrameBytes
  }

  /** Throws when the bytes cannot be frames: then other code of the process has written to the socket. */
  push(chunk: Buffer): void {
    let offset = 0
    while (offset < chunk.length) {
      if (this.#partial !== null) {
        offset += this.#fill(chunk, offset)
        continue
      }
      const left = chunk.length - offset
      const size = left < headerBytes ? Infinity : this.#frameBytes(chunk, offset)
      if (size > left) {
        this.#partial = Buffer.allocUnsafe(size === Infinity ? headerBytes : size)
        this.#filled = 0
        continue
      }
      this.#onFrame(size === chunk.length ? chunk : chunk.subarray(offset, offset + size))
      offset += size
    }
  }

  #fill(chunk: Buffer, offset: number): number {
    const partial = this.#partial as Buffer
    const take = Math.min(chunk.length - offset, partial.length - this.#filled)
    chunk.copy(partial, this.#filled, offset, offset + take)
    this.#filled += take
    if (this.#filled < partial.length) return take
    const size = this.#frameBytes(partial, 0)
    if (size === partial.length) {
      this.#partial = null
      this.#onFrame(partial)
    } else {
      // Only the header was there: now the size is known.
      this.#partial = Buffer.allocUnsafe(size)
      partial.copy(this.#partial, 0)
    }
    return take
  }

  #frameBytes(chunk: Buffer, offset: number): number {
    const size = chunk.readUInt32LE(offset)
    if (size < headerBytes || size % 16 !== 0 || size > this.#maxFrameBytes) {
      throw new Error(`a frame of ${size} bytes is not possible`)
    }
    return size
  }
}
