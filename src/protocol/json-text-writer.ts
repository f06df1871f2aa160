import { escapedBytesAtMost, escapeJsonString } from './json-string-escape.ts'

/** Writes compact JSON into one growing buffer. Keys keep their order, strings are escaped as by RapidJSON. */
export class JsonTextWriter {
  bytes: Buffer<ArrayBuffer>
  length = 0

  constructor(expectedBytes = 512) {
    this.bytes = Buffer.allocUnsafe(expectedBytes)
  }

  /** Makes room for so many bytes behind `length`. */
  reserve(count: number): void {
    const needed = this.length + count
    if (needed <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2))
    this.bytes.copy(larger, 0, 0, this.length)
    this.bytes = larger
  }

  /** Writes text of the server: ASCII, nothing to escape. */
  raw(text: string): void {
    this.reserve(text.length)
    const { bytes } = this
    let { length } = this
    for (let i = 0; i < text.length; i++) bytes[length++] = text.charCodeAt(i)
    this.length = length
  }

  string(text: string): void {
    if (isPlain(text)) {
      this.reserve(text.length + 2)
      this.bytes[this.length++] = 0x22
      this.raw(text)
      this.bytes[this.length++] = 0x22
      return
    }
    const utf8 = Buffer.from(text)
    this.stringBytes(utf8, 0, utf8.length)
  }

  /** Writes bytes as a string; bytes that are not UTF-8 stay as they are. */
  stringBytes(source: Uint8Array, start: number, end: number): void {
    // Most strings need no escape, so the room for the worst case is reserved piece by piece.
    this.reserve(2)
    this.bytes[this.length++] = 0x22
    for (let from = start; from < end; from += pieceBytes) {
      const to = Math.min(end, from + pieceBytes)
      this.reserve(escapedBytesAtMost(to - from) + 1)
      this.length = escapeJsonString(source, from, to, this.bytes, this.length)
    }
    this.reserve(1)
    this.bytes[this.length++] = 0x22
  }

  /** The written text. The writer must not be used afterwards. */
  finish(): Buffer {
    return this.bytes.subarray(0, this.length)
  }
}

const pieceBytes = 1024

/** Short, printable ASCII without a quote or backslash: the names and ids of nearly every response. */
function isPlain(text: string): boolean {
  if (text.length > 64) return false
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c < 0x20 || c > 0x7e || c === 0x22 || c === 0x5c) return false
  }
  return true
}
