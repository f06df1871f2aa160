// Writes the wire form of a protobuf message into one buffer that grows. Large bytes need not be copied: the message
// then has several pieces, and one of them is a view on those bytes.

import { specimens } from '../base/specimens.ts'

const leastBytes = 256
/** Copying this much is cheaper than one more piece to write. */
export const smallBytes = 8 * 1024

/** A message in pieces. The pieces in their order are the bytes of the message. */
export type MessageParts = {
  readonly parts: readonly Uint8Array[]
  readonly byteLength: number
  /** True when a piece is a view on memory of somebody else, which must stay until it is written. */
  readonly hasViews: boolean
}

/** A view stands in the message before the byte at `at` of the buffer. */
type PlacedView = { at: number; readonly view: Uint8Array }

export class ProtobufWriter {
  bytes: Buffer
  length = 0
  /** Null while there is none. */
  #views: PlacedView[] | null = null

  constructor(capacity = leastBytes) {
    this.bytes = Buffer.allocUnsafe(capacity)
  }

  /** The message, when it has no view. */
  finish(): Buffer {
    return this.bytes.subarray(0, this.length)
  }

  /** The pieces of the message in their order. To be called at the end. */
  pieces(): Uint8Array[] {
    if (this.#views === null) return this.length > 0 ? [this.finish()] : []
    const pieces: Uint8Array[] = []
    let from = 0
    for (const { at, view } of this.#views) {
      if (at > from) pieces.push(this.bytes.subarray(from, at))
      pieces.push(view)
      from = at
    }
    if (this.length > from) pieces.push(this.bytes.subarray(from, this.length))
    return pieces
  }

  parts(): MessageParts {
    const parts = this.pieces()
    let byteLength = 0
    for (const part of parts) byteLength += part.length
    return { parts, byteLength, hasViews: this.#views !== null }
  }

  reserve(more: number): void {
    const needed = this.length + more
    if (needed <= this.bytes.length) return
    const grown = Buffer.allocUnsafe(Math.max(needed, this.bytes.length * 2))
    grown.set(this.bytes.subarray(0, this.length))
    this.bytes = grown
  }

  tag(field: number, wireType: number): void {
    this.uint32(field * 8 + wireType)
  }

  uint32(value: number): void {
    this.reserve(5)
    const { bytes } = this
    let at = this.length
    let rest = value >>> 0
    while (rest > 0x7f) {
      bytes[at++] = (rest & 0x7f) | 0x80
      rest >>>= 7
    }
    bytes[at++] = rest
    this.length = at
  }

  /** Any integer of up to 64 bits; a negative one is written as its two's complement, in ten bytes. */
  varint(value: number | bigint): void {
    if (typeof value === 'number' && value >= 0 && value <= 0xffffffff) {
      this.uint32(value)
      return
    }
    this.reserve(10)
    let rest = BigInt.asUintN(64, BigInt(value))
    while (rest > 0x7fn) {
      this.bytes[this.length++] = Number(rest & 0x7fn) | 0x80
      rest >>= 7n
    }
    this.bytes[this.length++] = Number(rest)
  }

  float(value: number): void {
    this.reserve(4)
    this.length = this.bytes.writeFloatLE(value, this.length)
  }

  double(value: number): void {
    this.reserve(8)
    this.length = this.bytes.writeDoubleLE(value, this.length)
  }

  fixed64(value: bigint): void {
    this.reserve(8)
    this.length = this.bytes.writeBigUInt64LE(value, this.length)
  }

  /** Length and UTF-8. */
  string(text: string): void {
    const { length } = text
    // A short text has at most 127 bytes of UTF-8, so its length takes one byte.
    if (length <= 42) {
      this.reserve(1 + length * 3)
      const written = this.#ascii(text) ? length : this.bytes.write(text, this.length + 1)
      this.bytes[this.length] = written
      this.length += 1 + written
      return
    }
    const size = Buffer.byteLength(text)
    this.uint32(size)
    this.reserve(size)
    this.length += this.bytes.write(text, this.length)
  }

  /** Most names are ASCII: this loop costs less than a call into Node. Returns false for a text that is not ASCII. */
  #ascii(text: string): boolean {
    const { bytes } = this
    const start = this.length + 1
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i)
      if (code > 0x7f) return false
      bytes[start + i] = code
    }
    return true
  }

  /** A whole field, whatever its value is. */
  textField(field: number, text: string): void {
    this.tag(field, 2)
    this.string(text)
  }

  integerField(field: number, value: number | bigint): void {
    this.tag(field, 0)
    this.varint(value)
  }

  raw(bytes: Uint8Array): void {
    this.uint32(bytes.length)
    this.reserve(bytes.length)
    this.bytes.set(bytes, this.length)
    this.length += bytes.length
  }

  /** As `raw`, but large bytes are not copied. */
  rawOrView(bytes: Uint8Array): void {
    this.uint32(bytes.length)
    this.fields(bytes)
  }

  /** Bytes of fields that were written before. Large ones are not copied. */
  fields(fields: Uint8Array): void {
    if (fields.length > smallBytes) {
      this.#views ??= []
      this.#views.push({ at: this.length, view: fields })
      return
    }
    this.reserve(fields.length)
    this.bytes.set(fields, this.length)
    this.length += fields.length
  }

  /** A message inside this one. Its length is known when it is written; then it is moved to make room for the length. */
  nested(field: number, write: () => void): void {
    const start = this.beginNested(field)
    write()
    this.endNested(start)
  }

  /** `nested` without a function: what is written until `endNested` gets the result is the inner message. */
  beginNested(field: number): number {
    this.tag(field, 2)
    this.reserve(5)
    const start = this.length
    this.length = start + 1
    return start
  }

  endNested(start: number): void {
    let size = this.length - start - 1
    if (this.#views !== null) size += this.#moveViews(start, 0)
    if (size <= 0x7f) {
      this.bytes[start] = size
      return
    }
    const extra = varintBytes(size) - 1
    this.reserve(extra)
    this.bytes.copyWithin(start + 1 + extra, start + 1, this.length)
    if (this.#views !== null) this.#moveViews(start, extra)
    const end = this.length + extra
    this.length = start
    this.uint32(size)
    this.length = end
  }

  /** Moves the views behind `start`, and returns how many bytes they have. */
  #moveViews(start: number, extra: number): number {
    let bytes = 0
    const views = this.#views ?? []
    // They stand in their order, so those behind `start` are the last ones.
    for (let i = views.length - 1; i >= 0; i--) {
      const each = views[i] as PlacedView
      if (each.at <= start) break
      each.at += extra
      bytes += each.view.length
    }
    return bytes
  }
}

function varintBytes(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5
}

specimens.add(() => new ProtobufWriter())
