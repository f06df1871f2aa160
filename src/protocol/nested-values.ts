// The elements of one input out of nested lists of JSON, as rows of values: KServe v1 and TensorFlow Serving send them. All
// lists of one level have one size. The text is read once, straight into the bytes of the tensor.

import type { ServerError } from '../base/server-error.ts'
import type { InputSpec } from '../config/model-signature.ts'
import { elementBytes, integerBounds } from '../tensor/data-type.ts'
import { ElementBuffer } from './element-buffer.ts'
import { longFloat } from './json-float-reader.ts'
import { char, type JsonScanner } from './json-scanner.ts'
import { appendTextElement } from './json-text-element.ts'
import { JsonTextWriter } from './json-text-writer.ts'
import { tooManyDimensions, type RequestLimits } from './request-limits.ts'
import { noBytes } from './tensor-data-reader.ts'
import { jsonInputTooLarge } from './tensor-data-problem.ts'

/**
 * A list where an element has to stand, a list of another size than those before it, an element at another level than those
 * before it, a number of a type that has no form in the protocol, a value that is none of the type, an object that is no
 * `{"b64": "…"}`, a text that is no base64.
 */
export type NestedMistake = 'list' | 'size' | 'level' | 'form' | 'type' | 'b64' | 'base64'

/** No shape bounds the elements: the text does. */
const anyCount = 2 ** 31
/** Up to this many digits, with a power of ten up to this one, a division rounds once and is exact. */
const exactLimit = 2 ** 53
const powersOfTen = Array.from({ length: 23 }, (_, i) => Number(`1e${i}`))

export const b64Name = Buffer.from('b64')

export abstract class NestedValues {
  readonly name: string
  protected readonly scanner: JsonScanner
  protected readonly spec: InputSpec
  /** The sizes of the lists of each level, as far as they are known. */
  protected readonly sizes: number[] = []
  /** How deep the elements stand; -1 before the first one. */
  protected rank = -1
  protected elementCount = 0
  readonly #limits: RequestLimits
  readonly #hasForm: boolean
  readonly #isFloat: boolean
  readonly #width: number
  /** The smallest and the largest integer that is taken. */
  readonly #bounds: readonly [number, number]
  #elements: ElementBuffer | null = null
  /** Elements of text: lengths and bytes. */
  #texts: JsonTextWriter | null = null

  /** `hasForm`: the protocol has a form for elements of the type. Integers in the bounds of `widest` are taken: they wrap. */
  constructor(scanner: JsonScanner, spec: InputSpec, limits: RequestLimits, hasForm: boolean, widest = spec.dataType) {
    this.scanner = scanner
    this.spec = spec
    this.name = spec.name
    this.#limits = limits
    this.#hasForm = hasForm
    this.#isFloat = spec.dataType === 'FP32' || spec.dataType === 'FP64'
    this.#width = elementBytes[spec.dataType]
    this.#bounds = integerBounds[widest] ?? [0, 0]
  }

  /** The error in the words of the protocol. `start`: where the value begins; `count`: the size of the list. */
  protected abstract mistake(what: NestedMistake, start: number, level: number, count: number): ServerError

  /** The value at the position: an element, or a list of any depth. */
  readValue(): void {
    if (this.scanner.peek() === char.leftBracket) this.#readList(0)
    else this.#readElement(0)
  }

  #readList(level: number): void {
    const { scanner } = this
    const start = scanner.position
    if (level >= this.#limits.maxRank) throw tooManyDimensions(this.#limits.maxRank)
    if (this.rank >= 0 && level >= this.rank) throw this.mistake('list', start, level, 0)
    let count = 0
    for (let isElement = scanner.nextElement(true); isElement; isElement = scanner.nextElement(false)) {
      if (scanner.peek() === char.leftBracket) this.#readList(level + 1)
      else this.#readElement(level + 1)
      count++
    }
    if (count === 0 && this.rank < 0) this.rank = level + 1
    this.sizes[level] ??= count
    if (this.sizes[level] !== count) throw this.mistake('size', start, level, count)
  }

  /** The bytes of the tensor. */
  protected bytes(): Uint8Array {
    if (this.spec.dataType === 'BYTES') return this.#texts?.finish() ?? noBytes
    return this.#elements?.bytes.subarray(0, this.elementCount * this.#width) ?? noBytes
  }

  #readElement(level: number): void {
    if (this.rank < 0) this.rank = level
    const start = this.scanner.position
    if (level !== this.rank) throw this.mistake('level', start, level, 0)
    const { dataType } = this.spec
    if (dataType === 'BYTES') this.#readText(start)
    else if (dataType === 'BOOL') this.#readBoolean(start)
    else {
      const { view } = this.#room()
      this.#putNumber(view, start, this.#readNumber(start))
    }
    this.elementCount++
  }

  /** The buffer with room for one more element. */
  #room(): ElementBuffer {
    const { scanner } = this
    const byteSize = (this.elementCount + 1) * this.#width
    if (byteSize > this.#limits.maxInputBytes) throw jsonInputTooLarge(this.name, byteSize, this.#limits.maxInputBytes)
    const left = scanner.end - scanner.position
    this.#elements ??= new ElementBuffer(this.#width, anyCount, Math.min(1024, (left >> 1) + 1))
    if (this.elementCount === this.#elements.capacity) this.#elements.grow(left)
    return this.#elements
  }

  #readBoolean(start: number): void {
    const c = this.scanner.peek()
    if (c !== 0x74 && c !== 0x66) throw this.mistake('type', start, 0, 0)
    this.scanner.scanLiteralOrNumber()
    this.#room().bytes[this.elementCount] = c === 0x74 ? 1 : 0
  }

  /** Puts the number that the scanner has passed; `read` is NaN where it has to be read from its text. HOT: once per element. */
  #putNumber(view: DataView, start: number, read: number): void {
    const width = this.#width
    const at = this.elementCount * width
    const value = Number.isNaN(read) ? Number(this.scanner.numberValue(start)) : read
    if (this.#isFloat) {
      if (width === 4) view.setFloat32(at, value, true)
      else view.setFloat64(at, value, true)
    } else if (!this.#hasForm) throw this.mistake('form', start, 0, 0)
    else if (!this.#isInteger) throw this.mistake('type', start, 0, 0)
    else if (width === 8) view.setBigInt64(at, this.#readLong(start), true)
    else {
      const [lowest, highest] = this.#bounds
      if (!(value >= lowest && value <= highest)) throw this.mistake('type', start, 0, 0)
      if (width === 4) view.setInt32(at, value, true)
      else if (width === 2) view.setInt16(at, value, true)
      else view.setInt8(at, value)
    }
  }

  #readLong(start: number): bigint {
    const { bytes, position } = this.scanner
    const text = bytes.toString('latin1', start, position)
    const value = text.length > 20 ? null : BigInt(text)
    const isSigned = this.spec.dataType === 'INT64'
    const isFit = value !== null && (isSigned ? BigInt.asIntN(64, value) : BigInt.asUintN(64, value)) === value
    if (!isFit) throw this.mistake('type', start, 0, 0)
    return value
  }

  #isInteger = false

  /** A number of few digits, or NaN for every other. Moves behind the number. HOT. */
  #readNumber(start: number): number {
    const { scanner } = this
    const { bytes, end } = scanner
    let at = start
    let c = bytes[at] as number
    const isNegative = c === char.minus
    if (isNegative) c = bytes[++at] as number
    const digitsStart = at
    let mantissa = 0
    while (at < end && c >= char.zero && c <= char.nine) {
      mantissa = mantissa * 10 + (c - char.zero)
      c = bytes[++at] as number
    }
    const isPlain = at > digitsStart && (bytes[digitsStart] !== char.zero || at === digitsStart + 1)
    let decimals = 0
    this.#isInteger = true
    if (isPlain && at < end && c === char.dot) {
      this.#isInteger = false
      const pointAt = at
      c = bytes[++at] as number
      while (at < end && c >= char.zero && c <= char.nine) {
        mantissa = mantissa * 10 + (c - char.zero)
        c = bytes[++at] as number
      }
      decimals = at - pointAt - 1
    }
    const isEnd = at >= end || c === char.comma || c === char.rightBracket || c === char.rightBrace || c <= char.space
    const hasDigits = this.#isInteger || decimals > 0
    const isShort = mantissa < exactLimit || (this.#isFloat && at - digitsStart <= 25)
    if (!isPlain || !isEnd || !hasDigits || !isShort || decimals > 22) {
      if (bytes[start] === char.quote || bytes[start] === char.leftBrace) throw this.mistake('type', start, 0, 0)
      if (c === 0x74 || c === 0x66 || c === 0x6e) throw this.mistake('type', start, 0, 0)
      scanner.position = start
      scanner.scanNumber()
      this.#isInteger = scanner.isInteger
      return Number.NaN
    }
    scanner.position = at
    if (mantissa >= exactLimit) return longFloat(bytes, start, at, mantissa, decimals, this.#width === 4)
    const value = decimals === 0 ? mantissa : mantissa / (powersOfTen[decimals] as number)
    return isNegative ? -value : value
  }

  /** A string, or `{"b64": "…"}` for bytes that are no text. */
  #readText(start: number): void {
    const { scanner } = this
    const isEncoded = scanner.peek() === char.leftBrace
    if (isEncoded && !(scanner.nextMember(true) && scanner.stringIs(b64Name) && scanner.peek() === char.quote)) {
      throw this.mistake('b64', start, 0, 0)
    }
    if (scanner.peek() !== char.quote) throw this.mistake('type', start, 0, 0)
    scanner.scanString()
    const target = (this.#texts ??= new JsonTextWriter())
    if (!appendTextElement(scanner, target, isEncoded)) throw this.mistake('base64', start, 0, 0)
    if (isEncoded && scanner.nextMember(false)) throw this.mistake('b64', start, 0, 0)
    const { maxInputBytes } = this.#limits
    if (target.length > maxInputBytes) throw jsonInputTooLarge(this.name, target.length, maxInputBytes)
  }
}
