// The body of KServe v1's `:predict` → inputs. `instances` is a list of rows, and `inputs` is the rows of each input
// (TensorFlow Serving's two forms). Both are read into columns, one for each input of the model.

import { ServerError } from '../base/server-error.ts'
import type { ModelSignature } from '../config/model-signature.ts'
import type { WordedCall } from '../model/error-words.ts'
import { WordedError } from '../model/worded-error.ts'
import { shapeText, type Shape } from '../tensor/shape.ts'
import { Tensor } from '../tensor/tensor.ts'
import { char, JsonScanner } from './json-scanner.ts'
import { b64Name, NestedValues, type NestedMistake } from './nested-values.ts'
import type { RequestLimits } from './request-limits.ts'
import { isJsonType } from './tensor-data-reader.ts'

export type ParsedPredict = {
  readonly inputs: Tensor[]
  /** The request had `inputs`, so the answer has `outputs`. */
  readonly isColumnar: boolean
}

const invalid = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)

const predictCall = (signature: ModelSignature): WordedCall => ({ path: '', signature, header: () => null })

/** Throws INVALID_ARG, for malformed JSON too, whatever --triton-defaults says: Triton does not have this protocol. */
export function readPredictRequest(body: Uint8Array, signature: ModelSignature, limits: RequestLimits): ParsedPredict {
  try {
    return new PredictReader(new JsonScanner(body), signature, limits).read()
  } catch (reason) {
    if (!(reason instanceof WordedError)) throw reason
    const { code, message } = reason.inOwnWords(predictCall(signature))
    // KServe's own server begins its text for malformed JSON so.
    throw ServerError.withoutStack(
      code,
      reason.kind === 'jsonSyntax' ? `Unrecognized request format: ${message}` : message,
    )
  }
}

class PredictReader {
  readonly #scanner: JsonScanner
  readonly #signature: ModelSignature
  readonly #columns: readonly Column[]
  readonly #names: string

  constructor(scanner: JsonScanner, signature: ModelSignature, limits: RequestLimits) {
    this.#scanner = scanner
    this.#signature = signature
    this.#columns = signature.inputs.map((spec) => new Column(scanner, spec, limits, isJsonType(spec.dataType)))
    this.#names = signature.inputs.map(({ name }) => `'${name}'`).join(', ')
  }

  read(): ParsedPredict {
    const scanner = this.#scanner
    if (scanner.startDocument() !== char.leftBrace) throw invalid('the request must be a JSON object')
    let form = ''
    for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
      const name = scanner.stringValue()
      if (name !== 'instances' && name !== 'inputs') scanner.skipValue()
      else if (form !== '') throw invalid("the request must have 'instances' or 'inputs', and only once")
      else if (name === 'instances') this.#readInstances()
      else this.#readValues("'inputs'", (column) => this.#readRows(`input '${column.name}'`, (row) => column.read(row)))
      if (name === 'instances' || name === 'inputs') form = name
    }
    scanner.endDocument()
    if (form === '') throw invalid("the request has neither 'instances' nor 'inputs'")
    // An input that is nowhere may be optional: the Engine knows.
    const given = this.#columns.filter(({ rowCount }) => rowCount > 0)
    return { inputs: given.map((column) => column.finish(this.#signature)), isColumnar: form === 'inputs' }
  }

  #readInstances(): void {
    const count = this.#readRows('"instances"', (row) => this.#readValues(`row ${row}`, (column) => column.read(row)))
    for (const column of this.#columns) if (column.rowCount > 0) column.requireRows(count)
  }

  /** Calls `read` at each element of a list, and returns how many there are. */
  #readRows(what: string, read: (row: number) => void): number {
    const scanner = this.#scanner
    if (scanner.peek() !== char.leftBracket) throw invalid(`Expected ${what} to be a list`)
    let count = 0
    for (let isRow = scanner.nextElement(true); isRow; isRow = scanner.nextElement(false)) read(count++)
    if (count === 0) throw invalid(`${what} must have at least one row`)
    return count
  }

  /** Calls `read` at the value of each input in an object, or at the value itself where the model has one input. */
  #readValues(where: string, read: (column: Column) => void): void {
    const scanner = this.#scanner
    if (!this.#isObjectOfInputs()) {
      const [only, ...others] = this.#columns
      if (only === undefined || others.length > 0) {
        throw invalid(`${where} must be an object with the inputs ${this.#names}`)
      }
      read(only)
      return
    }
    for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
      const name = scanner.stringValue()
      const column = this.#columns[this.#signature.inputByName.get(name)?.index ?? -1]
      if (column === undefined) throw invalid(`unexpected input '${name}' in ${where}, the model has ${this.#names}`)
      read(column)
    }
  }

  /** An object that begins with `b64` is a value, unless an input has that name. */
  #isObjectOfInputs(): boolean {
    const scanner = this.#scanner
    if (scanner.peek() !== char.leftBrace) return false
    const start = scanner.position
    const isB64 = scanner.nextMember(true) && scanner.stringIs(b64Name)
    scanner.position = start
    return !isB64 || this.#signature.inputByName.has('b64')
  }
}

/** The rows of one input. All rows have the same shape. */
class Column extends NestedValues {
  rowCount = 0

  requireRows(count: number): void {
    if (this.rowCount < count) throw invalid(`input '${this.name}' is missing in row ${this.rowCount}`)
  }

  read(row: number): void {
    this.requireRows(row)
    if (this.rowCount > row) throw invalid(`input '${this.name}' is given twice in row ${row}`)
    const { dataType } = this.spec
    if (!isJsonType(dataType)) throw invalid(`input '${this.name}' is ${dataType}, which JSON cannot hold: use /v2`)
    this.readValue()
    this.rowCount++
  }

  protected override mistake(what: NestedMistake, start: number): ServerError {
    const row = `row ${this.rowCount} of input '${this.name}'`
    if (what === 'list' || what === 'size' || what === 'level') {
      return invalid(`${row} is ragged: all rows must have one shape, and all lists of one depth one length`)
    }
    const { scanner } = this
    scanner.position = start
    scanner.skipValue()
    const text = scanner.bytes.toString('utf8', start, Math.min(scanner.position, start + 40))
    return invalid(`${row} holds ${text}, which is no ${this.spec.dataType}`)
  }

  finish({ isBatching, modelName }: ModelSignature): Tensor {
    const { name, dataType, dims } = this.spec
    if (!isBatching && dims[0] !== -1 && dims[0] !== this.rowCount) {
      const misfit = `of shape ${shapeText(dims)} cannot take ${this.rowCount} as first dimension`
      throw invalid(`model '${modelName}' does not batch, and its input '${name}' ${misfit}`)
    }
    const shape = [this.rowCount, ...this.#rowShape(isBatching ? dims : dims.slice(1))]
    return new Tensor(name, dataType, shape, this.bytes())
  }

  /** A value without a list fills a row of one element, however many dimensions the model gives the row. */
  #rowShape(dims: Shape): Shape {
    const isOneElement = this.sizes.length === 0 && dims.every((size) => size === 1 || size === -1)
    return isOneElement ? dims.map(() => 1) : this.sizes
  }
}
