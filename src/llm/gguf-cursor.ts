// Reads the header of a GGUF file piece by piece, with the size of every piece checked against the file before it is read.

import type { FileHandle } from 'node:fs/promises'

const windowBytes = 1024 * 1024

/** What is wrong with a file, in words for who gave it. */
export class GgufProblem extends Error {}

export class GgufCursor {
  readonly size: number
  readonly #file: FileHandle
  #window: Buffer = Buffer.alloc(0)
  /** Where in the file the window begins, and where in the window the next value does. */
  #start = 0
  #at = 0

  constructor(file: FileHandle, size: number) {
    this.#file = file
    this.size = size
  }

  get position(): number {
    return this.#start + this.#at
  }

  /** Whether so many bytes are at hand: then values are read without waiting. */
  has(bytes: number): boolean {
    return this.#at + bytes <= this.#window.length
  }

  /** Throws where the file ends before. */
  async need(bytes: number, what: string): Promise<void> {
    if (this.has(bytes)) return
    const start = this.position
    if (bytes > this.size - start) {
      throw new GgufProblem(
        `it ends in the middle of ${what}: ${bytes} bytes are needed at byte ${start}, the file has ${this.size}`,
      )
    }
    const length = Math.min(this.size - start, Math.max(bytes, windowBytes))
    const window = Buffer.allocUnsafe(length)
    const { bytesRead } = await this.#file.read(window, 0, length, start)
    if (bytesRead < bytes) throw new GgufProblem(`it ends in the middle of ${what}`)
    this.#window = window.subarray(0, bytesRead)
    this.#start = start
    this.#at = 0
  }

  /** Goes to a place of the file. */
  moveTo(position: number): void {
    const at = position - this.#start
    if (at >= 0 && at <= this.#window.length) this.#at = at
    else {
      this.#window = Buffer.alloc(0)
      this.#start = position
      this.#at = 0
    }
  }

  u32(): number {
    const value = this.#window.readUInt32LE(this.#at)
    this.#at += 4
    return value
  }

  /** A number beyond what JavaScript counts exactly becomes Infinity, which no check lets through. */
  u64(): number {
    const value = this.#window.readBigUInt64LE(this.#at)
    this.#at += 8
    return value > BigInt(Number.MAX_SAFE_INTEGER) ? Infinity : Number(value)
  }

  bytes(length: number): Buffer {
    const bytes = this.#window.subarray(this.#at, this.#at + length)
    this.#at += length
    return bytes
  }
}
