// Walks the fields of a protobuf message in a file, through a small window. Bytes that nobody asks for are never read.

import type { FileHandle } from 'node:fs/promises'
import { MalformedMessage, noReaderLimits, ProtobufReader } from './protobuf-reader.ts'

const windowBytes = 64 * 1024
const longestVarint = 10

/**
 * `value` is the number of a varint field, or the length of a length-delimited one, whose bytes lie between the
 * cursor's position and `end`. Wherever the visitor leaves the cursor, the walk goes on after the field.
 */
type FieldVisitor = (field: number, value: number, end: number, isDelimited: boolean) => Promise<void> | void

export class ProtobufCursor {
  readonly #file: FileHandle
  readonly #corrupt: (position: number, problem: string) => Error
  /** Stands in the window, or outside of it when the next thing to read is not loaded. */
  readonly #reader = new ProtobufReader(Buffer.allocUnsafe(windowBytes), 0, 0, noReaderLimits)
  #windowStart = 0
  #windowLength = 0

  constructor(file: FileHandle, corrupt: (position: number, problem: string) => Error) {
    this.#file = file
    this.#corrupt = corrupt
  }

  get position(): number {
    return this.#windowStart + this.#reader.at
  }

  async eachField(end: number, visit: FieldVisitor): Promise<void> {
    while (this.position < end) {
      const start = this.position
      const tag = await this.#number('tag', end)
      const field = tag >>> 3
      switch (tag & 7) {
        case 0:
          await visit(field, await this.#number('int64Number', end), this.position, false)
          break
        case 1:
          this.#goTo(this.position + 8, start, end)
          break
        case 2: {
          const length = await this.#number('int64Number', end)
          const fieldEnd = length < 0 ? Infinity : this.position + length
          if (fieldEnd > end) throw this.#corrupt(start, 'a field is longer than what contains it')
          await visit(field, length, fieldEnd, true)
          this.#goTo(fieldEnd, start, end)
          break
        }
        case 5:
          this.#goTo(this.position + 4, start, end)
          break
        default:
          throw this.#corrupt(start, 'a field has an unknown wire type')
      }
    }
  }

  async eachVarint(end: number, visit: (value: number) => void): Promise<void> {
    while (this.position < end) visit(await this.#number('int64Number', end))
  }

  /** The UTF-8 text at the position. A text longer than the limit is refused and not read. */
  async text(length: number, limit: number): Promise<string> {
    if (length > limit) throw this.#corrupt(this.position, `a text is longer than ${limit} bytes`)
    if (!this.#isLoaded(length)) await this.#load()
    const { at, bytes } = this.#reader
    if (at + length > this.#windowLength) throw this.#corrupt(this.position, 'the file ends in the middle of a text')
    this.#reader.at += length
    return bytes.toString('utf8', at, at + length)
  }

  #goTo(position: number, start: number, end: number): void {
    if (position > end) throw this.#corrupt(start, 'a field is longer than what contains it')
    this.#reader.at = position - this.#windowStart
  }

  async #number(kind: 'tag' | 'int64Number', end: number): Promise<number> {
    if (!this.#isLoaded(longestVarint)) await this.#load()
    const start = this.position
    this.#reader.end = Math.min(this.#windowLength, end - this.#windowStart)
    try {
      return this.#reader[kind]()
    } catch (reason) {
      throw reason instanceof MalformedMessage ? this.#corrupt(start, reason.problem) : reason
    }
  }

  #isLoaded(bytes: number): boolean {
    return this.#reader.at >= 0 && this.#reader.at + bytes <= this.#windowLength
  }

  /** Fills the window from the position on, as far as the file goes. */
  async #load(): Promise<void> {
    this.#windowStart = this.position
    this.#reader.at = 0
    this.#windowLength = 0
    while (this.#windowLength < windowBytes) {
      const { bytesRead } = await this.#file.read(
        this.#reader.bytes,
        this.#windowLength,
        windowBytes - this.#windowLength,
        this.#windowStart + this.#windowLength,
      )
      if (bytesRead === 0) return
      this.#windowLength += bytesRead
    }
  }
}
