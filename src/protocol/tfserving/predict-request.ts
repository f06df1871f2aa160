// The body of TensorFlow Serving's `:predict` → inputs. `instances` is a list of rows, `inputs` the rows of each input. The
// text is read once, straight into the tensors. What is wrong is told in TensorFlow Serving's words.

import { ServerError } from '../../base/server-error.ts'
import type { InputSpec, ModelSignature } from '../../config/model-signature.ts'
import { WordedError } from '../../model/worded-error.ts'
import { elementBytes, integerBounds } from '../../tensor/data-type.ts'
import type { Shape } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { ElementBuffer } from '../element-buffer.ts'
import { parseJsonDocument, type JsonNode } from '../json-document.ts'
import { longFloat } from '../json-float-reader.ts'
import { char, JsonScanner } from '../json-scanner.ts'
import { appendTextElement } from '../json-text-element.ts'
import { JsonTextWriter } from '../json-text-writer.ts'
import { tooManyDimensions, type RequestLimits } from '../request-limits.ts'
import { jsonInputTooLarge } from '../tensor-data-problem.ts'
import { jsonDebugText, jsonTypeName } from './json-debug-text.ts'
import { readSignatureName } from './signature-name.ts'
import { tensorflowName } from './tensorflow-type.ts'

export type ParsedTfPredict = {
  readonly inputs: Tensor[]
  /** The request had `inputs`, so the answer has `outputs`. */
  readonly isColumnar: boolean
}

export const invalid = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)

/** Throws INVALID_ARG, and UNSUPPORTED for types that JSON has no form for in TensorFlow Serving. */
export function readTfPredict(body: Uint8Array, signature: ModelSignature, limits: RequestLimits): ParsedTfPredict {
  try {
    return new TfPredictReader(body, signature, limits).readAtOnce()
  } catch {
    // What is wrong is told in TensorFlow Serving's order, which takes a pass over the document first.
    return readInOrder(body, signature, limits)
  }
}

function readInOrder(body: Uint8Array, signature: ModelSignature, limits: RequestLimits): ParsedTfPredict {
  try {
    return new TfPredictReader(body, signature, limits).readInOrder()
  } catch (reason) {
    throw inTheirWords(reason)
  }
}

/** RapidJSON's texts are those of the scanner; TensorFlow Serving has its own words around them. */
export function inTheirWords(reason: unknown): unknown {
  if (!(reason instanceof WordedError) || reason.kind !== 'jsonSyntax') return reason
  const { text, offset } = reason.facts as { readonly text: string; readonly offset: number }
  if (text === 'The document is empty.') return invalid('JSON Parse error: The document is empty')
  return invalid(`JSON Parse error: ${text} at offset: ${offset}`)
}

/** Where a member of the request begins; -1: it is not there. */
type Places = { instances: number; inputs: number; signatureName: number }

class TfPredictReader {
  readonly #scanner: JsonScanner
  readonly #signature: ModelSignature
  readonly #columns: readonly Column[]

  constructor(body: Uint8Array, signature: ModelSignature, limits: RequestLimits) {
    this.#scanner = new JsonScanner(body)
    this.#signature = signature
    this.#columns = signature.inputs.map((spec) => new Column(this.#scanner, spec, limits))
  }

  /** Reads members as they come. Throws anything for a request that `readInOrder` refuses. HOT: once per request. */
  readAtOnce(): ParsedTfPredict {
    const scanner = this.#scanner
    let [hasInstances, hasInputs] = [false, false]
    if (scanner.startDocument() !== char.leftBrace) throw invalid('')
    for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
      // Of two members of one name the first counts.
      if (!hasInstances && scanner.stringIs(instancesName)) {
        hasInstances = true
        this.#readInstances()
      } else if (!hasInputs && scanner.stringIs(inputsName)) {
        hasInputs = true
        this.#readInputs()
      } else if (scanner.stringIs(signatureMember)) {
        readSignatureName(scanner, () => '')
      } else scanner.skipValue()
    }
    if (hasInstances === hasInputs) throw invalid('')
    return this.#finish(hasInputs)
  }

  readInOrder(): ParsedTfPredict {
    const scanner = this.#scanner
    const places = this.#find()
    if (places.signatureName >= 0) {
      scanner.position = places.signatureName
      readSignatureName(scanner, () => jsonDebugText(this.#document()))
    }
    const { instances, inputs } = places
    if (instances >= 0 && inputs >= 0) {
      throw this.#misformed("Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ")
    }
    if (instances < 0 && inputs < 0) throw invalid("Missing 'inputs' or 'instances' key")
    scanner.position = Math.max(instances, inputs)
    if (instances >= 0) this.#readInstances()
    else this.#readInputs()
    return this.#finish(inputs >= 0)
  }

  #finish(isColumnar: boolean): ParsedTfPredict {
    const inputs: Tensor[] = []
    for (const column of this.#columns) if (column.isGiven) inputs.push(column.finish(this.#signature, isColumnar))
    return { inputs, isColumnar }
  }

  /** Passes over the whole document once, so that malformed JSON is told before anything else. */
  #find(): Places {
    const scanner = this.#scanner
    const places: Places = { instances: -1, inputs: -1, signatureName: -1 }
    if (scanner.startDocument() !== char.leftBrace) {
      throw invalid(`JSON Value: ${jsonDebugText(this.#document())} Is not object`)
    }
    for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
      // Of two members of one name the first counts.
      if (scanner.stringIs(instancesName)) places.instances = places.instances < 0 ? scanner.position : places.instances
      else if (scanner.stringIs(inputsName)) places.inputs = places.inputs < 0 ? scanner.position : places.inputs
      else if (scanner.stringIs(signatureMember)) places.signatureName = scanner.position
      scanner.skipValue()
    }
    return places
  }

  #document(): JsonNode {
    const { bytes, end } = this.#scanner
    const scanner = new JsonScanner(bytes, end)
    scanner.startDocument()
    const start = scanner.position
    scanner.skipValue()
    return nodeOf(bytes, start, scanner.position)
  }

  #misformed(what: string): ServerError {
    return invalid(`JSON Value: ${jsonDebugText(this.#document())} ${what}`)
  }

  #readInstances(): void {
    const scanner = this.#scanner
    if (scanner.peek() !== char.leftBracket) throw this.#misformed("Expecting 'instances' to be an list/array")
    if (!scanner.nextElement(true)) throw this.#misformed("No values in 'instances' array")
    const areObjects = this.#isPlainObject()
    if (!areObjects && this.#columns.length !== 1) {
      throw invalid(
        'instances is a plain list, but expecting list of objects as multiple input tensors required as per tensorinfo_map',
      )
    }
    let row = 0
    do {
      if (this.#isPlainObject() !== areObjects) {
        const expected = areObjects ? 'object but got list' : 'value/list but got object'
        throw invalid(`Expecting ${expected} at item ${row} of input list`)
      }
      if (areObjects) this.#readRow(row)
      else this.#readPlainRow(this.#columns[0] as Column, row)
      row++
    } while (scanner.nextElement(false))
  }

  #readPlainRow(column: Column, row: number): void {
    try {
      column.readRow()
    } catch (reason) {
      throw placed(reason, `Failed to process element: ${row} of 'instances' list.`)
    }
  }

  #readRow(row: number): void {
    const scanner = this.#scanner
    const start = scanner.position
    let count = 0
    for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
      const name = scanner.stringValue()
      const column = this.#columns[this.#signature.inputByName.get(name)?.index ?? -1]
      try {
        if (column === undefined) throw invalid(`JSON object: does not have named input: ${name}`)
        if (column.rowCount > row) throw invalid(`Duplicate key: ${name}`)
        column.readRow()
      } catch (reason) {
        throw placed(reason, `Failed to process element: ${row} key: ${name} of 'instances' list.`)
      }
      count++
    }
    // An optional input is in all rows or in none.
    const missing = this.#columns.some(({ rowCount, isOptional }) => rowCount <= row && !(isOptional && rowCount === 0))
    if (count <= this.#columns.length && !missing) return
    const text = jsonDebugText(nodeOf(scanner.bytes, start, scanner.position))
    const names = this.#columns.map(({ name }) => name).sort().join(',') // prettier-ignore
    throw invalid(
      `Failed to process element: ${row} of 'instances' list. JSON object: ${text} keys must be equal to: ${names}`,
    )
  }

  #readInputs(): void {
    const scanner = this.#scanner
    if (!this.#isPlainObject()) {
      if (this.#columns.length !== 1) {
        throw invalid(
          'inputs is a plain value/list, but expecting an object as multiple input tensors required as per tensorinfo_map',
        )
      }
      ;(this.#columns[0] as Column).readWhole()
      return
    }
    for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
      const column = this.#columns[this.#signature.inputByName.get(scanner.stringValue())?.index ?? -1]
      // Other members are passed over, as in TensorFlow Serving.
      if (column === undefined || column.isGiven) scanner.skipValue()
      else column.readWhole()
    }
    for (const { name, isGiven, isOptional } of this.#columns) {
      if (!isGiven && !isOptional) throw invalid(`Missing named input: ${name} in 'inputs' object.`)
    }
  }

  /** An object that is not `{"b64": "…"}`. */
  #isPlainObject(): boolean {
    const scanner = this.#scanner
    if (scanner.peek() !== char.leftBrace) return false
    const start = scanner.position
    const isB64 = scanner.nextMember(true) && scanner.stringIs(b64Name) && scanner.peek() === char.quote
    if (isB64) scanner.scanString()
    const isOnly = isB64 && !scanner.nextMember(false)
    scanner.position = start
    return !isOnly
  }
}

const instancesName = Buffer.from('instances')
const inputsName = Buffer.from('inputs')
const signatureMember = Buffer.from('signature_name')
const b64Name = Buffer.from('b64')

/** The mistake with its place before its text. */
function placed(reason: unknown, where: string): unknown {
  if (!(reason instanceof ServerError) || reason instanceof WordedError) return reason
  const code = reason.code === 'UNSUPPORTED' ? 'UNIMPLEMENTED' : 'INVALID_ARGUMENT'
  return invalid(`${where} Error: ${code}: ${reason.message}`)
}

/** A value for an error text: what is too large to be a document is shown as its beginning. */
function nodeOf(bytes: Buffer, start: number, end: number): JsonNode {
  try {
    return parseJsonDocument(bytes.subarray(start, end))
  } catch {
    return bytes.toString('utf8', start, Math.min(end, start + 256))
  }
}

/** No shape bounds the elements: the text does. */
const anyCount = 2 ** 31
/** Up to this many digits, with a power of ten up to this one, a division rounds once and is exact. */
const exactLimit = 2 ** 53
const powersOfTen = Array.from({ length: 23 }, (_, i) => Number(`1e${i}`))

/** The elements of one input: the rows of all instances, or one nested list. */
class Column {
  readonly name: string
  readonly isOptional: boolean
  rowCount = 0
  isGiven = false
  readonly #scanner: JsonScanner
  readonly #spec: InputSpec
  readonly #limits: RequestLimits
  readonly #isFloat: boolean
  readonly #width: number
  /** The sizes of the lists of each level, as far as they are known. */
  readonly #sizes: number[] = []
  /** How deep the elements stand; -1 before the first one. */
  #rank = -1
  #count = 0
  #elements: ElementBuffer | null = null
  /** Elements of text: lengths and bytes. */
  #texts: JsonTextWriter | null = null

  constructor(scanner: JsonScanner, spec: InputSpec, limits: RequestLimits) {
    this.#scanner = scanner
    this.#spec = spec
    this.#limits = limits
    this.name = spec.name
    this.isOptional = spec.isOptional
    this.#isFloat = spec.dataType === 'FP32' || spec.dataType === 'FP64'
    this.#width = elementBytes[spec.dataType]
  }

  readRow(): void {
    const before = this.#count
    const firstSize = this.rowCount === 0 ? -1 : before / this.rowCount
    this.readWhole()
    this.rowCount++
    const size = this.#count - before
    if (firstSize >= 0 && size !== firstSize) throw invalid(`Expecting tensor size: ${firstSize} but got: ${size}`)
  }

  readWhole(): void {
    this.isGiven = true
    if (this.#scanner.peek() === char.leftBracket) this.#readList(0)
    else this.#readElement(0)
  }

  #readList(level: number): void {
    const scanner = this.#scanner
    if (level >= this.#limits.maxRank) throw tooManyDimensions(this.#limits.maxRank)
    if (this.#rank >= 0 && level >= this.#rank) {
      throw invalid(`Encountered list at unexpected level: ${level} expected < ${this.#rank}`)
    }
    let count = 0
    for (let isElement = scanner.nextElement(true); isElement; isElement = scanner.nextElement(false)) {
      if (scanner.peek() === char.leftBracket) this.#readList(level + 1)
      else this.#readElement(level + 1)
      count++
    }
    if (count === 0 && this.#rank < 0) this.#rank = level + 1
    this.#sizes[level] ??= count
    if (this.#sizes[level] === count) return
    throw invalid(
      `Encountered list at unexpected size: ${count} at level: ${level} expected size: ${this.#sizes[level]}`,
    )
  }

  #readElement(level: number): void {
    if (this.#rank < 0) this.#rank = level
    const start = this.#scanner.position
    if (level !== this.#rank) {
      const text = jsonDebugText(this.#nodeAt(start))
      throw invalid(
        `JSON Value: ${text} found at incorrect level: ${level + 1} in the JSON DOM. Expected at level: ${this.#rank}`,
      )
    }
    const { dataType } = this.#spec
    if (dataType === 'BYTES') this.#readText(start)
    else if (dataType === 'BOOL') this.#readBoolean(start)
    else this.#readNumber(start)
    this.#count++
  }

  #nodeAt(start: number): JsonNode {
    const scanner = this.#scanner
    scanner.position = start
    scanner.skipValue()
    return nodeOf(scanner.bytes, start, scanner.position)
  }

  #typeError(start: number): ServerError {
    const node = this.#nodeAt(start)
    const type = tensorflowName(this.#spec.dataType)
    return invalid(`JSON Value: ${jsonDebugText(node)} Type: ${jsonTypeName(node)} is not of expected type: ${type}`)
  }

  /** The buffer with room for one more element. */
  #room(): ElementBuffer {
    const scanner = this.#scanner
    const byteSize = (this.#count + 1) * this.#width
    if (byteSize > this.#limits.maxInputBytes) throw jsonInputTooLarge(this.name, byteSize, this.#limits.maxInputBytes)
    const left = scanner.end - scanner.position
    this.#elements ??= new ElementBuffer(this.#width, anyCount, Math.min(1024, (left >> 1) + 1))
    if (this.#count === this.#elements.capacity) this.#elements.grow(left)
    return this.#elements
  }

  #readBoolean(start: number): void {
    const c = this.#scanner.peek()
    if (c !== 0x74 && c !== 0x66) throw this.#typeError(start)
    this.#scanner.scanLiteralOrNumber()
    this.#room().bytes[this.#count] = c === 0x74 ? 1 : 0
  }

  /** HOT: once per element. */
  #readNumber(start: number): void {
    const { dataType } = this.#spec
    const { view } = this.#room()
    const value = this.#fastNumber(start)
    if (this.#isFloat) {
      const float = Number.isNaN(value) ? this.#slowFloat(start) : value
      if (this.#width === 4) view.setFloat32(this.#count * 4, float, true)
      else view.setFloat64(this.#count * 8, float, true)
      return
    }
    if (dataType === 'FP16' || dataType === 'BF16' || dataType === 'UINT16') {
      const text = jsonDebugText(this.#nodeAt(start))
      throw ServerError.withoutStack(
        'UNSUPPORTED',
        `Conversion of JSON Value: ${text} to type: ${tensorflowName(dataType)}`,
      )
    }
    if (dataType === 'INT64' || dataType === 'UINT64') this.#putLong(view, start)
    else {
      const [lowest, highest] = integerBounds[dataType] ?? [0, 0]
      // The text of an integer that fits 32 bits is short, so the fast reader has read it exactly.
      if (!this.#isInteger || !(value >= lowest && value <= highest)) throw this.#typeError(start)
      this.#putInteger(view, value)
    }
  }

  #putInteger(view: DataView, value: number): void {
    const at = this.#count * this.#width
    if (this.#width === 4) view.setInt32(at, value, true)
    else if (this.#width === 2) view.setInt16(at, value, true)
    else view.setInt8(at, value)
  }

  #putLong(view: DataView, start: number): void {
    if (!this.#isInteger) throw this.#typeError(start)
    const { bytes, position } = this.#scanner
    const text = bytes.toString('latin1', start, position)
    const value = text.length > 20 ? null : BigInt(text)
    const isSigned = this.#spec.dataType === 'INT64'
    const isFit = value !== null && (isSigned ? BigInt.asIntN(64, value) : BigInt.asUintN(64, value)) === value
    if (!isFit) throw this.#typeError(start)
    view.setBigInt64(this.#count * 8, value, true)
  }

  #isInteger = false

  /** A number of few digits, or NaN for every other. Moves behind the number. HOT. */
  #fastNumber(start: number): number {
    const scanner = this.#scanner
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
      if (bytes[start] === char.quote || bytes[start] === char.leftBrace) throw this.#typeError(start)
      if (c === 0x74 || c === 0x66 || c === 0x6e) throw this.#typeError(start)
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

  #slowFloat(start: number): number {
    return Number(this.#scanner.numberValue(start))
  }

  /** A string, or `{"b64": "…"}` for bytes that are no text. */
  #readText(start: number): void {
    const scanner = this.#scanner
    const isEncoded = scanner.peek() === char.leftBrace
    if (isEncoded && !(scanner.nextMember(true) && scanner.stringIs(b64Name) && scanner.peek() === char.quote)) {
      throw invalid(`JSON Value: ${jsonDebugText(this.#nodeAt(start))} not formatted correctly for base64 data`)
    }
    if (scanner.peek() !== char.quote) throw this.#typeError(start)
    scanner.scanString()
    const target = (this.#texts ??= new JsonTextWriter())
    if (!appendTextElement(scanner, target, isEncoded)) throw invalid('Unable to base64 decode')
    if (isEncoded && scanner.nextMember(false)) {
      throw invalid(`JSON Value: ${jsonDebugText(this.#nodeAt(start))} not formatted correctly for base64 data`)
    }
    const { maxInputBytes } = this.#limits
    if (target.length > maxInputBytes) throw jsonInputTooLarge(this.name, target.length, maxInputBytes)
  }

  finish({ isBatching }: ModelSignature, isColumnar: boolean): Tensor {
    const { name, dataType, dims } = this.#spec
    const sizes = this.#sizes.slice(0, Math.max(this.#rank, 0))
    const shape = isColumnar ? sizes : [this.rowCount, ...sizes]
    const expected = isBatching ? [-1, ...dims] : dims
    return new Tensor(name, dataType, withOnes(shape, expected), this.#bytes())
  }

  #bytes(): Uint8Array {
    if (this.#spec.dataType === 'BYTES') return this.#texts?.finish() ?? noBytes
    return this.#elements?.bytes.subarray(0, this.#count * this.#width) ?? noBytes
  }
}

const noBytes = new Uint8Array(0)

/** A model of this server may have dimensions of one where the client has none: a value stands for a row of one element. */
export function withOnes(shape: Shape, expected: Shape): Shape {
  if (shape.length >= expected.length) return shape
  const missing = expected.slice(shape.length)
  if (!missing.every((size) => size === 1 || size === -1)) return shape
  return [...shape, ...missing.map(() => 1)]
}
