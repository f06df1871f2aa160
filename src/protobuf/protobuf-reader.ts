// Walks the wire form of a protobuf message that lies in memory. The reader checks every length against the message that
// contains it before it makes anything of that length.

import { isUtf8 } from 'node:buffer'

import { ServerError, withoutStack } from '../base/server-error.ts'
import { specimens } from '../base/specimens.ts'

/** Clients can cause thousands of these errors a second: `malformed` makes one without a stack. */
export class MalformedMessage extends ServerError {
  readonly problem: string

  constructor(problem: string) {
    super('INVALID_ARG', `the message is not valid protobuf: ${problem}`)
    this.problem = problem
  }
}

export const malformed = (problem: string): MalformedMessage => withoutStack(() => new MalformedMessage(problem))

/**
 * How much of one message a reader reads before it gives up. Every field counts, known or not, also one that comes again
 * and again: a compressed message of a few KiB may hold millions of them.
 */
export type ReaderLimits = {
  readonly mostFields: number
  /** Of all texts together. Texts are decoded at once, bytes are views and cost nothing. */
  readonly mostTextBytes: number
}

/** For messages of clients: none needs more, and reading both takes a few milliseconds. */
export const requestReaderLimits: ReaderLimits = { mostFields: 16_384, mostTextBytes: 4 * 1024 * 1024 }
/** For messages of our own, from files, and for readers that read in steps. */
/** The limits are small integers, as those above: a reader whose counts are sometimes fractions is slower for everybody. */
export const noReaderLimits: ReaderLimits = { mostFields: 2 ** 31 - 1, mostTextBytes: 2 ** 31 - 1 }

/** Groups are no part of proto3. They are skipped, and the depth of the recursion for that has a limit. */
const deepestGroup = 32

type KnownText = { readonly bytes: Uint8Array; readonly text: string }

/** Decoding a short text costs more than comparing it with one that was decoded. bench/grpc-infer.bench.ts */
const longestKnown = 40
const knownCount = 256
const knownTexts: KnownText[] = Array.from({ length: knownCount }, () => ({ bytes: new Uint8Array(0), text: '' }))

function isSame(bytes: Uint8Array, at: number, known: Uint8Array): boolean {
  for (let i = 0; i < known.length; i++) if (bytes[at + i] !== known[i]) return false
  return true
}

export class ProtobufReader {
  readonly bytes: Buffer
  at: number
  end: number
  readonly #limits: ReaderLimits
  #fieldsLeft: number
  #textBytesLeft: number

  constructor(bytes: Buffer, at = 0, end = bytes.length, limits = requestReaderLimits) {
    this.bytes = bytes
    this.at = at
    this.end = end
    this.#limits = limits
    this.#fieldsLeft = limits.mostFields
    this.#textBytesLeft = limits.mostTextBytes
  }

  /** One more field, or one more element of a packed one. `tag` counts by itself. */
  spendField(): void {
    if (--this.#fieldsLeft < 0) throw malformed(`it has more than ${this.#limits.mostFields} fields`)
  }

  /** Field number × 8 + wire type. */
  tag(): number {
    this.spendField()
    const start = this.at
    // Nearly every tag has one byte.
    if (start < this.end) {
      const byte = this.bytes[start] as number
      if (byte < 0x80 && byte >= 8) {
        this.at = start + 1
        return byte
      }
    }
    const tag = this.uint32()
    // A tag has 32 bits: five bytes, and of the last one only the lower half.
    const length = this.at - start
    if (length >= 5 && (length > 5 || (this.bytes[this.at - 1] as number) > 0x0f)) {
      throw malformed('a field has an impossible number')
    }
    if (tag < 8) throw malformed('a field has the number 0')
    return tag
  }

  /** A varint cut to 32 bits, as tags, lengths and the 32-bit types are read. HOT. */
  uint32(): number {
    const { bytes } = this
    let at = this.at
    let value = 0
    for (let shift = 0; shift < 70; shift += 7) {
      if (at >= this.end) throw malformed('it ends in the middle of a number')
      const byte = bytes[at++] as number
      if (shift < 32) value |= (byte & 0x7f) << shift
      if (byte < 0x80) {
        this.at = at
        return value >>> 0
      }
    }
    throw malformed('a number has more than ten bytes')
  }

  int32(): number {
    return this.uint32() | 0
  }

  bool(): boolean {
    return (this.#words() | this.#high) !== 0
  }

  uint64(): bigint {
    const low = this.#words()
    return (BigInt(this.#high) << 32n) | BigInt(low)
  }

  int64(): bigint {
    return BigInt.asIntN(64, this.uint64())
  }

  /** An int64 that is a size or a dimension: exact to 2^53, beyond that only large. HOT. */
  int64Number(): number {
    const low = this.#words()
    return (this.#high | 0) * 4_294_967_296 + low
  }

  #high = 0

  /** The low word of a 64-bit varint; the high one is left in `#high`. */
  #words(): number {
    const { bytes } = this
    let low = 0
    let high = 0
    for (let i = 0; i < 10; i++) {
      if (this.at >= this.end) throw malformed('it ends in the middle of a number')
      const byte = bytes[this.at++] as number
      const bits = byte & 0x7f
      if (i < 4) low |= bits << (7 * i)
      else if (i === 4) {
        low |= bits << 28
        high |= bits >> 4
      } else high |= bits << (7 * i - 32)
      if (byte < 0x80) {
        this.#high = high >>> 0
        return low >>> 0
      }
    }
    throw malformed('a number has more than ten bytes')
  }

  float(): number {
    const at = this.#take(4)
    return this.bytes.readFloatLE(at)
  }

  double(): number {
    const at = this.#take(8)
    return this.bytes.readDoubleLE(at)
  }

  fixed32(): number {
    return this.bytes.readUInt32LE(this.#take(4))
  }

  fixed64(): bigint {
    return this.bytes.readBigUInt64LE(this.#take(8))
  }

  /** Where a length-delimited field ends; the reader stands at its first byte. */
  lengthEnd(): number {
    let length = 0x80
    // Most lengths have one byte.
    if (this.at < this.end) length = this.bytes[this.at] as number
    if (length < 0x80) this.at++
    else length = this.uint32()
    if (length > this.end - this.at) throw malformed('a field is longer than what contains it')
    return this.at + length
  }

  /** Goes into the message at which the reader stands. Returns the end of the one around it, for `isInside`. */
  enter(): number {
    const outer = this.end
    this.end = this.lengthEnd()
    return outer
  }

  /** False at the end of the message: the reader is back in the one around it. HOT. */
  isInside(outer: number): boolean {
    if (this.at < this.end) return true
    this.end = outer
    return false
  }

  string(): string {
    const end = this.lengthEnd()
    const start = this.at
    this.#textBytesLeft -= end - start
    if (this.#textBytesLeft < 0) throw malformed(`its texts have more than ${this.#limits.mostTextBytes} bytes`)
    const text = this.bytes.toString('utf8', start, end)
    // Node puts U+FFFD for bytes that are no UTF-8. The bytes of U+FFFD itself are valid.
    if (text.includes('\ufffd') && !isUtf8(this.bytes.subarray(start, end))) throw malformed('a text is not UTF-8')
    this.at = end
    return text
  }

  /** A text that comes with every request, as the name of a model does: the reader returns the string of the last time. */
  name(): string {
    const start = this.at
    const length = this.lengthEnd() - this.at
    if (length === 0 || length > longestKnown) {
      this.at = start
      return this.string()
    }
    const { bytes, at } = this
    const place = (length * 31 + (bytes[at] as number) * 7 + (bytes[at + length - 1] as number)) & (knownCount - 1)
    const known = knownTexts[place] as KnownText
    if (known.bytes.length === length && isSame(bytes, at, known.bytes)) {
      this.at = at + length
      return known.text
    }
    this.at = start
    const text = this.string()
    knownTexts[place] = { bytes: Uint8Array.prototype.slice.call(bytes, at, at + length), text }
    return text
  }

  /** A view, not a copy. */
  view(): Buffer {
    const end = this.lengthEnd()
    const view = this.bytes.subarray(this.at, end)
    this.at = end
    return view
  }

  /** Skips a field that nobody asked for. */
  skip(tag: number, depth = 0): void {
    switch (tag & 7) {
      case 0:
        this.#words()
        return
      case 1:
        this.#take(8)
        return
      case 2:
        this.at = this.lengthEnd()
        return
      case 3:
        if (depth >= deepestGroup) throw malformed('groups are nested too deeply')
        for (;;) {
          const inner = this.tag()
          if ((inner & 7) === 4) {
            if (inner >>> 3 !== tag >>> 3) throw malformed('a group ends that did not begin')
            return
          }
          this.skip(inner, depth + 1)
        }
      case 5:
        this.#take(4)
        return
      default:
        throw malformed('a field has an unknown wire type')
    }
  }

  #take(bytes: number): number {
    const at = this.at
    if (bytes > this.end - at) throw malformed('it ends in the middle of a number')
    this.at = at + bytes
    return at
  }
}

specimens.add(() => new ProtobufReader(Buffer.alloc(0)))
