// tensorflow.Example messages → the inputs of a model. A model with one input of text gets the messages as they are: TensorFlow
// models parse them. Every other model gets its inputs from the features of the same names.

import { lastOf } from '../../base/run-in-slices.ts'
import type { InputSpec, ModelSignature } from '../../config/model-signature.ts'
import { malformed, ProtobufReader } from '../../protobuf/protobuf-reader.ts'
import { elementArray, elementBytes, integerBounds } from '../../tensor/data-type.ts'
import { elementCount, shapeText, type Shape } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { readJsonExamples, requireSignature } from './example-json.ts'
import { invalid, type ParsedTfBody, type TfReadOptions } from './predict-request.ts'

/** Fields and values that are read in one step: less than a millisecond. */
const stepFields = 8 * 1024
/** Fields and values of all examples of a request. One byte can be a value, which takes 32 in memory; a text takes 128. */
const mostExampleFields = 2_097_152
const mostExampleTextBytes = 4 * 1024 * 1024
const valueBytes = { bytes: 128, float: 32, int64: 32 } as const

type Feature = { readonly kind: 'bytes' | 'float' | 'int64'; readonly values: (Buffer | number | bigint)[] }

/**
 * Reads in steps, so that others are served between them. `reserve` is told of memory that the message itself does not have. Throws
 * INVALID_ARG.
 */
export function* exampleInputs(
  examples: readonly Buffer[],
  signature: ModelSignature,
  maxBytes: number,
  reserve: (bytes: number) => void = () => undefined,
): Generator<void, Tensor[]> {
  if (examples.length === 0) throw invalid('Input is empty.')
  const [only, ...others] = signature.inputs
  if (only !== undefined && others.length === 0 && only.dataType === 'BYTES') {
    const texts = yield* textElements(examples, maxBytes)
    return [new Tensor(only.name, 'BYTES', [examples.length, ...only.dims.map(() => 1)], texts)]
  }
  const columns = signature.inputs.map((spec) => new FeatureColumn(spec, maxBytes))
  const reader = new ExampleReader(new Set(columns.map(({ name }) => name)), reserve)
  for (const [row, example] of examples.entries()) {
    const features = yield* reader.read(example)
    for (const column of columns) column.add(row, features.get(column.name) ?? null)
    if (row % 256 === 255) yield
  }
  const tensors: Tensor[] = []
  for (const column of columns) if (column.isGiven) tensors.push(yield* column.finish(examples.length))
  return tensors
}

/** The body of `:classify` and `:regress`, read at once. */
export function readTfExamples(body: Uint8Array, { signature, limits }: TfReadOptions): ParsedTfBody {
  const { signatureName, examples } = readJsonExamples(body)
  requireSignature(signatureName, signature)
  const inputs = lastOf(exampleInputs(examples, signature, limits.maxInputBytes))
  return { inputs, isColumnar: false, rows: examples.length, ranks: null }
}

function* textElements(values: readonly Buffer[], maxBytes: number): Generator<void, Uint8Array> {
  const size = values.reduce((sum, { length }) => sum + 4 + length, 0)
  if (size > maxBytes) throw invalid(`the examples take ${size} bytes, at most ${maxBytes} are taken`)
  const bytes = Buffer.allocUnsafe(size)
  let at = 0
  for (const [i, value] of values.entries()) {
    at = bytes.writeUInt32LE(value.length, at)
    at += value.copy(bytes, at)
    if (i % stepFields === stepFields - 1) yield
  }
  return bytes
}

const kinds: Readonly<Record<number, Feature['kind']>> = { 10: 'bytes', 18: 'float', 26: 'int64' }
const wireTypes = { bytes: 2, float: 5, int64: 0 } as const

/** Reads one example after the other. What is no input of the model is not kept. */
class ExampleReader {
  readonly #names: ReadonlySet<string>
  readonly #reserve: (bytes: number) => void
  #reader = new ProtobufReader(Buffer.alloc(0))
  #fieldsLeft = mostExampleFields
  #stepEnd = mostExampleFields - stepFields

  constructor(names: ReadonlySet<string>, reserve: (bytes: number) => void) {
    this.#names = names
    this.#reserve = reserve
  }

  /** Example: features 1 → map feature 1. */
  *read(example: Buffer): Generator<void, Map<string, Feature>> {
    const found = new Map<string, Feature>()
    const limits = { mostFields: mostExampleFields, mostTextBytes: mostExampleTextBytes }
    const reader = new ProtobufReader(example, 0, example.length, limits)
    this.#reader = reader
    while (reader.at < reader.end) {
      const tag = reader.tag()
      if (this.#spend()) yield
      if (tag !== 10) {
        reader.skip(tag)
        continue
      }
      for (const outer = reader.enter(); reader.isInside(outer);) {
        const inner = reader.tag()
        if (this.#spend()) yield
        if (inner === 10) yield* this.#entry(found)
        else reader.skip(inner)
      }
    }
    return found
  }

  /** One more field or value. True: others are served first. */
  #spend(): boolean {
    if (--this.#fieldsLeft < 0) throw malformed(`its examples have more than ${mostExampleFields} fields and values`)
    if (this.#fieldsLeft > this.#stepEnd) return false
    this.#stepEnd = this.#fieldsLeft - stepFields
    return true
  }

  *#entry(found: Map<string, Feature>): Generator<void, void> {
    const reader = this.#reader
    let name = ''
    let feature: Feature | null = null
    for (const outer = reader.enter(); reader.isInside(outer);) {
      const tag = reader.tag()
      if (this.#spend()) yield
      if (tag === 10) name = reader.string()
      else if (tag === 18 && (name === '' || this.#names.has(name))) feature = yield* this.#feature()
      else reader.skip(tag)
    }
    if (feature !== null && this.#names.has(name)) found.set(name, feature)
  }

  /** bytes_list 1, float_list 2, int64_list 3 → value 1. */
  *#feature(): Generator<void, Feature> {
    const reader = this.#reader
    let feature: Feature = { kind: 'bytes', values: [] }
    for (const outer = reader.enter(); reader.isInside(outer);) {
      const tag = reader.tag()
      if (this.#spend()) yield
      const kind = kinds[tag]
      if (kind === undefined) reader.skip(tag)
      else {
        if (kind !== feature.kind) feature = { kind, values: [] }
        yield* this.#list(feature)
      }
    }
    return feature
  }

  *#list({ kind, values }: Feature): Generator<void, void> {
    const reader = this.#reader
    const outer = reader.enter()
    const whole = reader.end
    let packedEnd = 0
    while (reader.at < whole) {
      const isInPacked = reader.at < packedEnd
      if (!isInPacked) reader.end = whole
      const tag = isInPacked ? 8 + wireTypes[kind] : reader.tag()
      if (this.#spend()) yield
      if (tag >>> 3 !== 1) reader.skip(tag)
      else if ((tag & 7) === wireTypes[kind]) {
        if (values.length % stepFields === 0 && values.length > 0) this.#reserve(stepFields * valueBytes[kind])
        values.push(kind === 'bytes' ? reader.view() : kind === 'float' ? reader.float() : reader.int64())
      } else if ((tag & 7) === 2) reader.end = packedEnd = reader.lengthEnd()
      else throw malformed('a feature has values of another type')
    }
    reader.end = outer
  }
}

/** The values of one input, row by row. All rows have as many. */
class FeatureColumn {
  readonly name: string
  isGiven = false
  readonly #spec: InputSpec
  readonly #maxBytes: number
  readonly #rows: Feature['values'][] = []

  constructor(spec: InputSpec, maxBytes: number) {
    this.#spec = spec
    this.#maxBytes = maxBytes
    this.name = spec.name
  }

  add(row: number, feature: Feature | null): void {
    const { isOptional, dataType } = this.#spec
    if (feature === null) {
      if (isOptional && !this.isGiven) return
      throw invalid(`Example ${row} has no feature '${this.name}', which is an input of the model`)
    }
    if (row > 0 && !this.isGiven) throw invalid(`Example 0 has no feature '${this.name}', and example ${row} has one`)
    this.isGiven = true
    const isText = dataType === 'BYTES'
    if (isText !== (feature.kind === 'bytes') || (feature.kind === 'float' && !dataType.startsWith('FP'))) {
      throw invalid(`Feature: ${this.name} of example ${row} is a list of ${feature.kind}, the model takes ${dataType}`)
    }
    const expected = this.#rows[0]?.length ?? feature.values.length
    if (feature.values.length !== expected) {
      throw invalid(`Feature: ${this.name} of example ${row} has ${feature.values.length} values, expected ${expected}`)
    }
    this.#rows.push(feature.values)
  }

  *finish(rows: number): Generator<void, Tensor> {
    const { name, dataType } = this.#spec
    const shape = [rows, ...this.#rowShape(this.#rows[0]?.length ?? 0)]
    if (dataType === 'BYTES') {
      return new Tensor(name, dataType, shape, yield* textElements(this.#rows.flat() as Buffer[], this.#maxBytes))
    }
    const count = elementCount(shape)
    const byteSize = count * elementBytes[dataType]
    if (byteSize > this.#maxBytes) {
      throw invalid(`Feature: ${name} takes ${byteSize} bytes, at most ${this.#maxBytes} are taken`)
    }
    const numbers: { [index: number]: number | bigint; readonly buffer: ArrayBuffer } = new elementArray[dataType](
      count,
    )
    let at = 0
    for (const row of this.#rows) {
      for (const value of row) {
        numbers[at++] = this.#fitting(value as number | bigint)
        if (at % stepFields === 0) yield
      }
    }
    return new Tensor(name, dataType, shape, new Uint8Array(numbers.buffer))
  }

  #fitting(value: number | bigint): number | bigint {
    const { dataType } = this.#spec
    if (dataType === 'INT64') return value
    if (dataType === 'FP32' || dataType === 'FP64') return Number(value)
    const [lowest, highest] = integerBounds[dataType] ?? [0, -1]
    if (value >= lowest && value <= highest) return Number(value)
    throw invalid(`Feature: ${this.name} has the value ${value}, which is no ${dataType}`)
  }

  /** The values of one row in the dimensions of the model; one of them may be open. */
  #rowShape(count: number): Shape {
    const { dims } = this.#spec
    const open = dims.filter((size) => size === -1).length
    const known = dims.reduce((product, size) => (size === -1 ? product : product * size), 1)
    const first = known === 0 ? 0 : count / known
    if (open === 0 ? known !== count : !Number.isInteger(first) || (open > 1 && first !== 1)) {
      throw invalid(`Feature: ${this.name} has ${count} values, the model takes rows of shape ${shapeText(dims)}`)
    }
    return dims.map((size) => (size === -1 ? first : size))
  }
}
