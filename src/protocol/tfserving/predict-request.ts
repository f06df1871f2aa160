// The body of TensorFlow Serving's `:predict` → inputs. `instances` is a list of rows, `inputs` the rows of each input. The
// text is read once, straight into the tensors. What is wrong is told in TensorFlow Serving's words.

import { ServerError } from '../../base/server-error.ts'
import type { InputSpec, ModelSignature } from '../../config/model-signature.ts'
import { WordedError } from '../../model/worded-error.ts'
import { shapesEqual, shapeText } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { InferReadOptions } from '../infer-request-reader.ts'
import { jsonDebugText, jsonTypeNameAt } from '../json-debug-text.ts'
import { char, JsonScanner } from '../json-scanner.ts'
import { b64Name, NestedValues, type NestedMistake } from '../nested-values.ts'
import type { RequestLimits } from '../request-limits.ts'
import { inModelShapes, type InputRanks } from './input-ranks.ts'
import { formless, isKnownSignature, tensorflowName, typeInJson } from './tensorflow-type.ts'

/** What was in the body of a request. */
export type ParsedTfBody = {
  readonly inputs: Tensor[]
  /** The request had `inputs`, so the answer has `outputs`. */
  readonly isColumnar: boolean
  /** How many examples there were; 0 where there are none. */
  readonly rows: number
  /** Null: the inputs came in the shapes of the model. */
  readonly ranks: InputRanks | null
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

/** Throws what is wrong with a body whatever model it is for. */
export function requireTfPredict(body: Uint8Array): void {
  try {
    const scanner = new JsonScanner(body)
    const { signatureName } = passOver(scanner, () => false)
    scanner.position = signatureName
    if (signatureName >= 0) requireSignatureText(scanner)
  } catch (reason) {
    throw inTheirWords(reason)
  }
}

/** RapidJSON's texts are those of the scanner; TensorFlow Serving has its own words around them. */
export function inTheirWords(reason: unknown): unknown {
  if (!(reason instanceof WordedError) || reason.kind !== 'jsonSyntax') return reason
  const { text, offset } = reason.facts as { readonly text: string; readonly offset: number }
  if (text === 'The document is empty.' && offset === 0) return invalid('JSON Parse error: The document is empty')
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

/** Passes over the document. `read` is called at the value of each member that counts, and tells whether it has read the value. */
function passOver(scanner: JsonScanner, read: (member: keyof Places) => boolean): Places {
  const places: Places = { instances: -1, inputs: -1, signatureName: -1 }
  if (scanner.startDocument() !== char.leftBrace) throw misformed(scanner, 'Is not object')
  for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
    const member = memberOf(scanner, places)
    if (member !== null) places[member] = scanner.position
    if (member === null || !read(member)) scanner.skipValue()
  }
  return places
}

/** Of two members of one name the first counts. */
function memberOf(scanner: JsonScanner, places: Places): keyof Places | null {
  if (places.instances < 0 && scanner.stringIs(instancesName)) return 'instances'
  if (places.inputs < 0 && scanner.stringIs(inputsName)) return 'inputs'
  return places.signatureName < 0 && scanner.stringIs(signatureMember) ? 'signatureName' : null
}

function requireSignatureText(scanner: JsonScanner): void {
  if (scanner.peek() === char.quote) return
  throw misformed(scanner, "not formatted correctly. 'signature_name' key must be a string value.")
}

const misformed = ({ bytes }: JsonScanner, what: string): ServerError =>
  invalid(`JSON Value: ${documentText(bytes)} ${what}`)

/** The beginning of a document for an error text. */
export function documentText(body: Uint8Array): string {
  const scanner = new JsonScanner(body)
  scanner.startDocument()
  return jsonDebugText(scanner.bytes, scanner.position)
}

class TfPredictReader {
  readonly #scanner: JsonScanner
  readonly #signature: ModelSignature
  readonly #columns: readonly Column[]

  constructor(body: Uint8Array, signature: ModelSignature, limits: RequestLimits) {
    this.#scanner = new JsonScanner(body)
    this.#signature = signature
    this.#columns = signature.inputs.map((spec) => new Column(this.#scanner, spec, limits))
  }

  /**
   * Reads members as they come, or passes over the whole document before: then malformed JSON is told before anything else, and
   * what is wrong with a member in TensorFlow Serving's order. HOT: once per request.
   */
  read(atOnce: boolean): ParsedTfBody {
    const { instances, inputs, signatureName } = passOver(this.#scanner, (member) => this.#readAtOnce(atOnce, member))
    if (!atOnce && signatureName >= 0) this.#readMember('signatureName', signatureName)
    if (instances >= 0 && inputs >= 0) {
      throw misformed(
        this.#scanner,
        "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ",
      )
    }
    if (instances < 0 && inputs < 0) throw invalid("Missing 'inputs' or 'instances' key")
    if (!atOnce) this.#readMember(instances >= 0 ? 'instances' : 'inputs', Math.max(instances, inputs))
    const isColumnar = inputs >= 0
    const given = this.#columns.filter((column) => column.isGiven)
    const tensors = given.map((column) => column.finish(isColumnar))
    const { inputs: shaped, ranks } = inModelShapes(tensors, this.#signature)
    return { inputs: shaped, isColumnar, rows: 0, ranks }
  }

  #readAtOnce(atOnce: boolean, member: keyof Places): boolean {
    if (atOnce) this.#readMember(member, this.#scanner.position)
    return atOnce
  }

  #readMember(member: keyof Places, place: number): void {
    this.#scanner.position = place
    if (member === 'instances') this.#readInstances()
    else if (member === 'inputs') this.#readInputs()
    else this.#readSignatureName()
  }

  #readSignatureName(): void {
    const scanner = this.#scanner
    requireSignatureText(scanner)
    scanner.scanString()
    const name = scanner.stringValue()
    if (isKnownSignature(name, this.#signature)) return
    throw invalid(`Serving signature name: "${name}" not found in signature def`)
  }

  #readInstances(): void {
    const scanner = this.#scanner
    if (scanner.peek() !== char.leftBracket) throw misformed(scanner, "Expecting 'instances' to be an list/array")
    if (!scanner.nextElement(true)) throw misformed(scanner, "No values in 'instances' array")
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
    const text = jsonDebugText(scanner.bytes, start)
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

/** The elements of one input: the rows of all instances, or one nested list. */
class Column extends NestedValues {
  readonly isOptional: boolean
  rowCount = 0
  isGiven = false
  readonly #limits: RequestLimits

  constructor(scanner: JsonScanner, spec: InputSpec, limits: RequestLimits) {
    super(scanner, spec, limits, !formless.has(spec.dataType), typeInJson(spec.dataType))
    this.#limits = limits
    this.isOptional = spec.isOptional
  }

  readRow(): void {
    const { rowCount, elementCount } = this
    const start = this.scanner.position
    try {
      this.readWhole()
    } catch (reason) {
      throw rowCount === 0 ? reason : this.#rowMistake(reason, start, elementCount / rowCount)
    }
    this.rowCount++
  }

  /** TensorFlow Serving reads each row by itself, and then compares it with the first one. */
  #rowMistake(reason: unknown, start: number, firstSize: number): unknown {
    const alone = new Column(this.scanner, this.spec, this.#limits)
    this.scanner.position = start
    try {
      alone.readWhole()
    } catch (own) {
      return own
    }
    const { elementCount, sizes } = alone
    if (elementCount !== firstSize) return invalid(`Expecting tensor size: ${firstSize} but got: ${elementCount}`)
    if (shapesEqual(sizes, this.sizes)) return reason
    return invalid(`Expecting shape ${shapeText(this.sizes)} but got: ${shapeText(sizes)}`)
  }

  readWhole(): void {
    this.isGiven = true
    this.readValue()
  }

  protected override mistake(what: NestedMistake, start: number, level: number, count: number): ServerError {
    const type = tensorflowName(this.spec.dataType)
    const { bytes } = this.scanner
    const given = jsonTypeNameAt(bytes, start)
    const value = (): string => `JSON Value: ${jsonDebugText(bytes, start)}`
    if (what === 'form' || (what === 'type' && formless.has(this.spec.dataType) && given !== 'Object')) {
      return ServerError.withoutStack('UNSUPPORTED', `Conversion of ${value()} to type: ${type}`)
    }
    const words: Readonly<Record<Exclude<NestedMistake, 'form'>, () => string>> = {
      list: () => `Encountered list at unexpected level: ${level} expected < ${this.rank}`,
      size: () =>
        `Encountered list at unexpected size: ${count} at level: ${level} expected size: ${this.sizes[level]}`,
      level: () => `${value()} found at incorrect level: ${level + 1} in the JSON DOM. Expected at level: ${this.rank}`,
      type: () => `${value()} Type: ${given} is not of expected type: ${type}`,
      b64: () => `${value()} not formatted correctly for base64 data`,
      base64: () => 'Unable to base64 decode',
    }
    return invalid(words[what]())
  }

  finish(isColumnar: boolean): Tensor {
    const { name, dataType } = this.spec
    const sizes = this.sizes.slice(0, Math.max(this.rank, 0))
    return new Tensor(name, dataType, isColumnar ? sizes : [this.rowCount, ...sizes], this.bytes())
  }
}
