// Walks the fields of a protobuf message in a file, through a small window: what nobody asks for is never read.

import type { FileHandle } from 'node:fs/promises'

const windowBytes = 64 * 1024

/**
 * `value` is the number of a varint field, or the length of a length-delimited one, whose bytes lie between the
 * cursor's position and `end`. Wherever the visitor leaves the cursor, the walk goes on after the field.
 */
export type FieldVisitor = (field: number, value: number, end: number, isDelimited: boolean) => Promise<void> | void

export class ProtobufCursor {
  position = 0
  readonly #file: FileHandle
  readonly #corrupt: (position: number, problem: string) => Error
  readonly #window = Buffer.allocUnsafe(windowBytes)
  #windowStart = 0
  #windowLength = 0

  constructor(file: FileHandle, corrupt: (position: number, problem: string) => Error) {
    this.#file = file
    this.#corrupt = corrupt
  }

  async eachField(end: number, visit: FieldVisitor): Promise<void> {
    while (this.position < end) {
      const start = this.position
      const tag = await this.#varint(end)
      const field = Math.floor(tag / 8)
      if (tag < 8 || field > 0x1fffffff) throw this.#corrupt(start, 'a field has an impossible number')
      switch (tag % 8) {
        case 0:
          await visit(field, await this.#varint(end), this.position, false)
          break
        case 1:
          this.#skip(start, 8, end)
          break
        case 2: {
          const length = await this.#varint(end)
          const fieldEnd = this.position + length
          if (length < 0 || fieldEnd > end) throw this.#corrupt(start, 'a field is longer than what contains it')
          await visit(field, length, fieldEnd, true)
          this.position = fieldEnd
          break
        }
        case 5:
          this.#skip(start, 4, end)
          break
        default:
          throw this.#corrupt(start, 'a field has an unknown wire type')
      }
    }
  }

  async eachVarint(end: number, visit: (value: number) => void): Promise<void> {
    while (this.position < end) visit(await this.#varint(end))
  }

  /** UTF-8 text at the position. Longer than the limit is refused, not read. */
  async text(length: number, limit: number): Promise<string> {
    if (length > limit) throw this.#corrupt(this.position, `a text is longer than ${limit} bytes`)
    await this.#load(length)
    const at = this.position - this.#windowStart
    if (at + length > this.#windowLength) throw this.#corrupt(this.position, 'the file ends in the middle of a text')
    this.position += length
    return this.#window.toString('utf8', at, at + length)
  }

  #skip(start: number, bytes: number, end: number): void {
    this.position += bytes
    if (this.position > end) throw this.#corrupt(start, 'a field is longer than what contains it')
  }

  async #varint(end: number): Promise<number> {
    const start = this.position
    // Ten bytes are the longest varint there is.
    if (start < this.#windowStart || start + 10 > this.#windowStart + this.#windowLength) await this.#load(10)
    let value = 0
    let scale = 1
    for (let i = 0; i < 10; i++) {
      const at = this.position - this.#windowStart
      if (this.position >= end || at >= this.#windowLength)
        throw this.#corrupt(start, 'it ends in the middle of a number')
      const byte = this.#window[at] as number
      this.position++
      value += (byte & 0x7f) * scale
      scale *= 128
      // A negative int64 has all ten bytes; its low bits are lost in a double, but only its sign matters here.
      if (byte < 0x80) return i === 9 ? -1 : value
    }
    throw this.#corrupt(start, 'a number has more than ten bytes')
  }

  /** Makes `bytes` bytes at the position readable, or as many as the file has. */
  async #load(bytes: number): Promise<void> {
    const isInside =
      this.position >= this.#windowStart && this.position + bytes <= this.#windowStart + this.#windowLength
    if (isInside) return
    this.#windowStart = this.position
    this.#windowLength = 0
    while (this.#windowLength < windowBytes) {
      const { bytesRead } = await this.#file.read(
        this.#window,
        this.#windowLength,
        windowBytes - this.#windowLength,
        this.#windowStart + this.#windowLength,
      )
      if (bytesRead === 0) return
      this.#windowLength += bytesRead
    }
  }
}
