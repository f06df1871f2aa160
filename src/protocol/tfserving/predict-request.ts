// The body of TensorFlow Serving's `:predict` → inputs. `instances` is a list of rows, `inputs` the rows of each input. The
// text is read once, straight into the tensors. What is wrong is told in TensorFlow Serving's words.

import { ServerError } from '../../base/server-error.ts'
import type { ModelSignature } from '../../config/model-signature.ts'
import { WordedError } from '../../model/worded-error.ts'
import { withOnes } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { InferReadOptions } from '../infer-request-reader.ts'
import { jsonDebugText, jsonTypeName } from '../json-debug-text.ts'
import { parseJsonDocument, type JsonNode } from '../json-document.ts'
import { char, JsonScanner } from '../json-scanner.ts'
import { b64Name, NestedValues, type NestedMistake } from '../nested-values.ts'
import type { RequestLimits } from '../request-limits.ts'
import { formless, isKnownSignature, tensorflowName } from './tensorflow-type.ts'

/** What was in the body of a request. */
export type ParsedTfBody = {
  readonly inputs: Tensor[]
  /** The request had `inputs`, so the answer has `outputs`. */
  readonly isColumnar: boolean
  /** How many examples there were; 0 where there are none. */
  readonly rows: number
}

/** Of a body in JSON. */
export type TfReadOptions = Pick<InferReadOptions, 'signature' | 'limits'>

export const invalid = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)

/** Throws INVALID_ARG, and UNSUPPORTED for types that JSON has no form for in TensorFlow Serving. */
export function readTfPredict(body: Uint8Array, { signature, limits }: TfReadOptions): ParsedTfBody {
  try {
    return new TfPredictReader(body, signature, limits).read(true)
  } catch {
    // What is wrong is told in TensorFlow Serving's order, which takes a pass over the document first.
  }
  try {
    return new TfPredictReader(body, signature, limits).read(false)
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

/** As in TensorFlow Serving, what follows the document is not looked at. */
export function firstValue(body: Uint8Array): Buffer {
  const scanner = new JsonScanner(body)
  scanner.startDocument()
  const start = scanner.position
  scanner.skipValue()
  return scanner.bytes.subarray(start, scanner.position)
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
    this.#columns = signature.inputs.map(
      (spec) => new Column(this.#scanner, spec, limits, !formless.has(spec.dataType)),
    )
  }

  /**
   * Reads members as they come, or passes over the whole document before: then malformed JSON is told before anything else, and
   * what is wrong with a member in TensorFlow Serving's order. HOT: once per request.
   */
  read(atOnce: boolean): ParsedTfBody {
    const scanner = this.#scanner
    const places: Places = { instances: -1, inputs: -1, signatureName: -1 }
    if (scanner.startDocument() !== char.leftBrace) throw this.#misformed('Is not object')
    for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
      const member = this.#memberOf(places)
      if (member !== null) places[member] = scanner.position
      if (member !== null && atOnce) this.#readMember(member, scanner.position)
      else scanner.skipValue()
    }
    const { instances, inputs, signatureName } = places
    if (!atOnce && signatureName >= 0) this.#readMember('signatureName', signatureName)
    if (instances >= 0 && inputs >= 0) {
      throw this.#misformed("Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ")
    }
    if (instances < 0 && inputs < 0) throw invalid("Missing 'inputs' or 'instances' key")
    if (!atOnce) this.#readMember(instances >= 0 ? 'instances' : 'inputs', Math.max(instances, inputs))
    const isColumnar = inputs >= 0
    const given = this.#columns.filter((column) => column.isGiven)
    return { inputs: given.map((column) => column.finish(this.#signature, isColumnar)), isColumnar, rows: 0 }
  }

  /** Of two members of one name the first counts; of two signatures the last one. */
  #memberOf(places: Places): keyof Places | null {
    const scanner = this.#scanner
    if (places.instances < 0 && scanner.stringIs(instancesName)) return 'instances'
    if (places.inputs < 0 && scanner.stringIs(inputsName)) return 'inputs'
    return scanner.stringIs(signatureMember) ? 'signatureName' : null
  }

  #readMember(member: keyof Places, place: number): void {
    this.#scanner.position = place
    if (member === 'instances') this.#readInstances()
    else if (member === 'inputs') this.#readInputs()
    else this.#readSignatureName()
  }

  #readSignatureName(): void {
    const scanner = this.#scanner
    if (scanner.peek() !== char.quote) {
      throw this.#misformed("not formatted correctly. 'signature_name' key must be a string value.")
    }
    scanner.scanString()
    const name = scanner.stringValue()
    if (!isKnownSignature(name)) {
      throw invalid(`Serving signature name: "${name.slice(0, 200)}" not found in signature def`)
    }
  }

  #misformed(what: string): ServerError {
    const document = firstValue(this.#scanner.bytes)
    return invalid(`JSON Value: ${jsonDebugText(nodeOf(document, 0, document.length))} ${what}`)
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

/** The elements of one input: the rows of all instances, or one nested list. */
class Column extends NestedValues {
  readonly isOptional = this.spec.isOptional
  rowCount = 0
  isGiven = false

  readRow(): void {
    const before = this.elementCount
    const firstSize = this.rowCount === 0 ? -1 : before / this.rowCount
    this.readWhole()
    this.rowCount++
    const size = this.elementCount - before
    if (firstSize >= 0 && size !== firstSize) throw invalid(`Expecting tensor size: ${firstSize} but got: ${size}`)
  }

  readWhole(): void {
    this.isGiven = true
    this.readValue()
  }

  #nodeAt(start: number): JsonNode {
    const { scanner } = this
    scanner.position = start
    scanner.skipValue()
    return nodeOf(scanner.bytes, start, scanner.position)
  }

  protected override mistake(what: NestedMistake, start: number, level: number, count: number): ServerError {
    const type = tensorflowName(this.spec.dataType)
    const value = (): string => `JSON Value: ${jsonDebugText(this.#nodeAt(start))}`
    if (what === 'form') return ServerError.withoutStack('UNSUPPORTED', `Conversion of ${value()} to type: ${type}`)
    const words: Readonly<Record<Exclude<NestedMistake, 'form'>, () => string>> = {
      list: () => `Encountered list at unexpected level: ${level} expected < ${this.rank}`,
      size: () =>
        `Encountered list at unexpected size: ${count} at level: ${level} expected size: ${this.sizes[level]}`,
      level: () => `${value()} found at incorrect level: ${level + 1} in the JSON DOM. Expected at level: ${this.rank}`,
      type: () => `${value()} Type: ${jsonTypeName(this.#nodeAt(start))} is not of expected type: ${type}`,
      b64: () => `${value()} not formatted correctly for base64 data`,
      base64: () => 'Unable to base64 decode',
    }
    return invalid(words[what]())
  }

  finish({ isBatching }: ModelSignature, isColumnar: boolean): Tensor {
    const { name, dataType, dims } = this.spec
    const sizes = this.sizes.slice(0, Math.max(this.rank, 0))
    const shape = isColumnar ? sizes : [this.rowCount, ...sizes]
    return new Tensor(name, dataType, withOnes(shape, isBatching ? [-1, ...dims] : dims), this.bytes())
  }
}
