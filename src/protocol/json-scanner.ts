// Reads JSON text the way RapidJSON does in Triton: the same grammar (NaN and Inf allowed, a BOM skipped, a NUL byte ends
// the text), the same error texts at the same offsets. It builds no values: callers ask for the few they need.
// docs/internals/json-tokenizer.md says why.

import { jsonSyntaxError, type JsonSyntaxProblem } from './json-syntax-error.ts'
import { standsFor, unescapeJsonString } from './json-string-escape.ts'

export const char = {
  tab: 0x09,
  newLine: 0x0a,
  carriageReturn: 0x0d,
  space: 0x20,
  quote: 0x22,
  plus: 0x2b,
  comma: 0x2c,
  minus: 0x2d,
  dot: 0x2e,
  zero: 0x30,
  nine: 0x39,
  colon: 0x3a,
  leftBracket: 0x5b,
  backslash: 0x5c,
  rightBracket: 0x5d,
  leftBrace: 0x7b,
  rightBrace: 0x7d,
} as const

/** Stands for an array or object that the scanner passed over, for callers that need only plain values. */
class JsonContainer {
  readonly isArray: boolean
  constructor(isArray: boolean) {
    this.isArray = isArray
  }
}
const arrayContainer = new JsonContainer(true)
const objectContainer = new JsonContainer(false)

/** As in RapidJSON an integer that fits 64 bits (signed or unsigned) is a bigint, every other number a number. */
export type JsonScalar = string | bigint | number | boolean | null
export type JsonValue = JsonScalar | JsonContainer

const maxUint64 = 2n ** 64n - 1n
const minInt64 = -(2n ** 63n)

const noNesting = new Uint8Array(0)

const isDigit = (c: number): boolean => c >= char.zero && c <= char.nine

/** Where a JSON document starts: after a UTF-8 byte order mark, if there is one. */
const documentStart = (bytes: Uint8Array, end: number): number =>
  end >= 3 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0

export class JsonScanner {
  readonly bytes: Buffer
  readonly end: number
  position: number
  /** The place of the last scanned string, without its quotes. */
  stringStart = 0
  stringEnd = 0
  hasEscapes = false
  /** Whether the last scanned number has no fraction and no exponent and is finite. */
  isInteger = false
  #lastBracket = -2
  /** One entry per open container inside the skipped value: 1 for an array. Never larger than the text. */
  #nesting = noNesting

  constructor(bytes: Uint8Array, end = bytes.length) {
    this.bytes = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.end = end
    this.position = documentStart(bytes, end)
  }

  /** The last `]` of the text; -1: none. A loop that starts before it and stops at any `]` stays inside the text. */
  get lastBracket(): number {
    if (this.#lastBracket === -2) {
      this.#lastBracket = this.end === 0 ? -1 : this.bytes.lastIndexOf(char.rightBracket, this.end - 1)
    }
    return this.#lastBracket
  }

  /** The byte at the position; 0 at the end of the text. A NUL byte also ends a text. */
  peek(): number {
    return this.position < this.end ? this.bytes[this.position]! : 0
  }

  /** Moves to the next byte that is not white space and returns it. */
  next(): number {
    const { bytes, end } = this
    let position = this.position
    while (position < end) {
      const c = bytes[position]!
      if (c > char.space || (c !== char.space && c !== char.newLine && c !== char.carriageReturn && c !== char.tab)) {
        this.position = position
        return c
      }
      position++
    }
    this.position = position
    return 0
  }

  fail(problem: JsonSyntaxProblem, offset = this.position): never {
    throw jsonSyntaxError(problem, offset, this.bytes, this.end)
  }

  /** Moves onto the document's value; an empty document is an error of its own. */
  startDocument(): number {
    const c = this.next()
    if (c === 0) this.fail('documentEmpty')
    return c
  }

  endDocument(): void {
    if (this.next() !== 0) this.fail('rootNotSingular')
  }

  /**
   * Inside an object, at its `{` or after a value: moves to the value of the next member and returns true; the member's
   * name is the last scanned string. False: the object has ended.
   */
  nextMember(isFirst: boolean): boolean {
    let c: number
    if (isFirst) {
      this.position++
      c = this.next()
      if (c === char.rightBrace) {
        this.position++
        return false
      }
    } else {
      c = this.next()
      if (c === char.rightBrace) {
        this.position++
        return false
      }
      if (c !== char.comma) this.fail('missingCommaOrBrace')
      this.position++
      c = this.next()
    }
    if (c !== char.quote) this.fail('missingName')
    this.scanString()
    if (this.next() !== char.colon) this.fail('missingColon')
    this.position++
    this.next()
    return true
  }

  /** The same for an array: true when the position is at another element. */
  nextElement(isFirst: boolean): boolean {
    if (isFirst) {
      this.position++
      if (this.next() !== char.rightBracket) return true
      this.position++
      return false
    }
    const c = this.next()
    this.position++
    if (c === char.rightBracket) return false
    if (c !== char.comma) this.fail('missingCommaOrBracket', this.position - 1)
    this.next()
    return true
  }

  /** From an opening quote to behind the closing one. */
  scanString(): void {
    const { bytes, end } = this
    let position = this.position + 1
    this.stringStart = position
    this.hasEscapes = false
    for (;;) {
      const c = position < end ? bytes[position]! : 0
      if (c === char.quote) break
      if (c === char.backslash) {
        this.hasEscapes = true
        position = this.#scanEscape(position)
      } else if (c < 0x20) {
        this.fail(c === 0 ? 'missingQuote' : 'escapeInvalid', position)
      } else {
        position++
      }
    }
    this.stringEnd = position
    this.position = position + 1
  }

  /** The string last scanned. Bytes that are no UTF-8 become U+FFFD: names and ids are text, unlike the elements of BYTES. */
  stringValue(): string {
    const { bytes, stringStart, stringEnd } = this
    if (!this.hasEscapes) return bytes.toString('utf8', stringStart, stringEnd)
    const text = Buffer.allocUnsafe(stringEnd - stringStart)
    return text.toString('utf8', 0, unescapeJsonString(bytes, stringStart, stringEnd, text, 0))
  }

  /** Whether the string last scanned is this one, which is ASCII. */
  stringIs(expected: Uint8Array): boolean {
    const { bytes, stringStart } = this
    if (this.hasEscapes) return standsFor(bytes, stringStart, this.stringEnd, expected)
    if (this.stringEnd - stringStart !== expected.length) return false
    for (let i = 0; i < expected.length; i++) if (bytes[stringStart + i] !== expected[i]) return false
    return true
  }

  /** From the first byte of a value that is no string, array or object to behind it. */
  scanLiteralOrNumber(): void {
    const c = this.peek()
    if (c === 0x74) this.#scanWord(trueWord)
    else if (c === 0x66) this.#scanWord(falseWord)
    else if (c === 0x6e) this.#scanWord(nullWord)
    else this.scanNumber()
  }

  scanNumber(): void {
    const { bytes, end } = this
    const start = this.position
    let position = start
    this.isInteger = false
    let c = position < end ? bytes[position]! : 0
    if (c === char.minus) c = ++position < end ? bytes[position]! : 0
    const digitsStart = position
    if (c === char.zero) {
      c = ++position < end ? bytes[position]! : 0
    } else if (isDigit(c)) {
      do c = ++position < end ? bytes[position]! : 0
      while (isDigit(c))
      // RapidJSON refuses an integer once the digits before the last one reach this.
      if (
        position - digitsStart > 308 &&
        Number(bytes.toString('latin1', digitsStart, position - 1)) >= largestPrefix
      ) {
        this.fail('numberTooBig', start)
      }
    } else {
      this.position = position
      this.#scanNotFinite()
      return
    }
    let fractionDigits = 0
    let isInteger = true
    if (c === char.dot) {
      isInteger = false
      const fractionStart = position + 1
      do c = ++position < end ? bytes[position]! : 0
      while (isDigit(c))
      fractionDigits = position - fractionStart
      if (fractionDigits === 0) this.fail('missingFraction', position)
    }
    if (c === 0x65 || c === 0x45) {
      isInteger = false
      c = ++position < end ? bytes[position]! : 0
      const isNegative = c === char.minus
      if (isNegative || c === char.plus) c = ++position < end ? bytes[position]! : 0
      if (!isDigit(c)) this.fail('missingExponent', position)
      let exponent = 0
      do {
        if (exponent < 1e6) exponent = exponent * 10 + (c - char.zero)
        c = ++position < end ? bytes[position]! : 0
      } while (isDigit(c))
      if (!isNegative && exponent > 308 + fractionDigits) this.fail('numberTooBig', start)
    }
    this.isInteger = isInteger
    this.position = position
  }

  /** The number between two positions, which `scanNumber` has just passed. */
  numberValue(start: number): bigint | number {
    const text = this.bytes.toString('latin1', start, this.position)
    if (this.isInteger) {
      // Longer integers are doubles in any case; BigInt() of a megabyte of digits would be a stall.
      if (text.length <= 20) {
        const value = BigInt(text)
        if (value >= minInt64 && value <= maxUint64) return value
      }
      return Number(text)
    }
    return finiteOrNamed(text)
  }

  /** Reads one value at the position. An array or object is checked and passed over, and a JsonContainer returned. */
  readValue(): JsonValue {
    const c = this.peek()
    if (c === char.quote) {
      this.scanString()
      return this.stringValue()
    }
    if (c === char.leftBracket || c === char.leftBrace) {
      this.skipValue()
      return c === char.leftBracket ? arrayContainer : objectContainer
    }
    const start = this.position
    this.scanLiteralOrNumber()
    if (c === 0x74) return true
    if (c === 0x66) return false
    if (c === 0x6e) return null
    return this.numberValue(start)
  }

  /** Passes over one value of any depth, checking its grammar. No recursion: depth costs a byte per level. */
  skipValue(): void {
    let depth = 0
    for (;;) {
      // At a value.
      const c = this.peek()
      let isOpen = false
      if (c === char.quote) this.scanString()
      else if (c === char.leftBracket || c === char.leftBrace) {
        const isArray = c === char.leftBracket
        if (isArray ? this.nextElement(true) : this.nextMember(true)) {
          if (depth === this.#nesting.length) this.#growNesting()
          this.#nesting[depth++] = isArray ? 1 : 0
          isOpen = true
        }
      } else this.scanLiteralOrNumber()
      if (isOpen) continue
      // After a value: closes the containers that end here.
      for (;;) {
        if (depth === 0) return
        if (this.#nesting[depth - 1] === 1 ? this.nextElement(false) : this.nextMember(false)) break
        depth--
      }
    }
  }

  #growNesting(): void {
    const larger = new Uint8Array(Math.max(64, this.#nesting.length * 2))
    larger.set(this.#nesting)
    this.#nesting = larger
  }

  /** From a backslash to behind the escape. */
  #scanEscape(start: number): number {
    const { bytes, end } = this
    const c = start + 1 < end ? bytes[start + 1]! : 0
    if (c !== 0x75) {
      if (!isShortEscape(c)) this.fail('escapeInvalid', start)
      return start + 2
    }
    const unit = this.#hexUnit(start + 2, start)
    if (unit < 0xd800 || unit > 0xdbff) return start + 6
    // A high surrogate must have its other half; a low one alone passes, as in RapidJSON, and keeps its three bytes.
    if (start + 7 >= end || bytes[start + 6] !== char.backslash || bytes[start + 7] !== 0x75) {
      this.fail('surrogateInvalid', start)
    }
    const low = this.#hexUnit(start + 8, start)
    if (low < 0xdc00 || low > 0xdfff) this.fail('surrogateInvalid', start)
    return start + 12
  }

  #hexUnit(position: number, escapeStart: number): number {
    let unit = 0
    for (let i = position; i < position + 4; i++) {
      const digit = i < this.end ? hexDigit(this.bytes[i]!) : -1
      if (digit < 0) this.fail('hexInvalid', escapeStart)
      unit = unit * 16 + digit
    }
    return unit
  }

  #scanWord(word: Uint8Array): void {
    for (let i = 0; i < word.length; i++) {
      if (this.peek() !== word[i]) this.fail('valueInvalid')
      this.position++
    }
  }

  #scanNotFinite(): void {
    const c = this.peek()
    if (c === 0x4e) this.#scanWord(nanWord)
    else if (c === 0x49) {
      this.#scanWord(infWord)
      if (this.peek() === 0x69) this.#scanWord(inityWord)
    } else this.fail('valueInvalid')
  }
}

const largestPrefix = Number.MAX_VALUE / 10
const word = (text: string): Uint8Array => new TextEncoder().encode(text)
const trueWord = word('true')
const falseWord = word('false')
const nullWord = word('null')
const nanWord = word('NaN')
const infWord = word('Inf')
const inityWord = word('inity')

function hexDigit(c: number): number {
  if (c >= 0x30 && c <= 0x39) return c - 0x30
  if (c >= 0x41 && c <= 0x46) return c - 0x37
  if (c >= 0x61 && c <= 0x66) return c - 0x57
  return -1
}

const isShortEscape = (c: number): boolean =>
  c === 0x22 || c === 0x5c || c === 0x2f || c === 0x62 || c === 0x66 || c === 0x6e || c === 0x72 || c === 0x74

/** The value of a number's text that is no 64-bit integer. */
export function finiteOrNamed(text: string): number {
  const value = Number(text)
  if (!Number.isNaN(value)) return value
  if (text.endsWith('N')) return Number.NaN
  return text.startsWith('-') ? -Infinity : Infinity
}
