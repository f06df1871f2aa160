// tensorflow.Example messages → the inputs of a model. A model with one input of text gets the messages as they are: TensorFlow
// models parse them. Every other model gets its inputs from the features of the same names.

import type { ServerError } from '../../base/server-error.ts'
import type { InputSpec, ModelSignature } from '../../config/model-signature.ts'
import { malformed, noReaderLimits, ProtobufReader } from '../../protobuf/protobuf-reader.ts'
import { elementBytes, integerBounds } from '../../tensor/data-type.ts'
import { elementCount, shapeText, type Shape } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { readJsonExamples } from './example-json.ts'
import { invalid } from './predict-request.ts'

/** Values that are read in one step: less than a millisecond. */
const stepValues = 16 * 1024

type Feature = { readonly kind: 'bytes' | 'float' | 'int64'; readonly values: (Buffer | number | bigint)[] }

/** Reads in steps, so that others are served between them. Throws INVALID_ARG. */
export function* exampleInputs(
  examples: readonly Buffer[],
  signature: ModelSignature,
  maxBytes: number,
): Generator<void, Tensor[]> {
  if (examples.length === 0) throw invalid('Input is empty.')
  const [only, ...others] = signature.inputs
  if (only !== undefined && others.length === 0 && only.dataType === 'BYTES') {
    return [
      new Tensor(only.name, 'BYTES', [examples.length, ...only.dims.map(() => 1)], textElements(examples, maxBytes)),
    ]
  }
  const columns = signature.inputs.map((spec) => new FeatureColumn(spec, maxBytes))
  for (const [row, example] of examples.entries()) {
    const features = yield* readFeatures(example)
    for (const column of columns) column.add(row, features.get(column.name) ?? null)
    if (row % 256 === 255) yield
  }
  return columns.filter((column) => column.isGiven).map((column) => column.finish(examples.length))
}

/** The body of `:classify` and `:regress`, read at once. */
export function readTfExamples(
  body: Uint8Array,
  signature: ModelSignature,
  maxBytes: number,
): { readonly inputs: Tensor[]; readonly rows: number } {
  const examples = readJsonExamples(body)
  return { inputs: runThrough(exampleInputs(examples, signature, maxBytes)), rows: examples.length }
}

export function runThrough<T>(steps: Iterator<void, T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

function textElements(values: readonly Buffer[], maxBytes: number): Buffer {
  const size = values.reduce((sum, { length }) => sum + 4 + length, 0)
  if (size > maxBytes) throw invalid(`the examples take ${size} bytes, at most ${maxBytes} are taken`)
  const bytes = Buffer.allocUnsafe(size)
  let at = 0
  for (const value of values) {
    at = bytes.writeUInt32LE(value.length, at)
    at += value.copy(bytes, at)
  }
  return bytes
}

/** The field that wraps another: calls `read` for each field of the inner message. */
function eachField(reader: ProtobufReader, read: (tag: number) => void): void {
  const outer = reader.end
  reader.end = reader.lengthEnd()
  while (reader.at < reader.end) read(reader.tag())
  reader.end = outer
}

function* readFeatures(example: Buffer): Generator<void, Map<string, Feature>> {
  const reader = new ProtobufReader(example, 0, example.length, noReaderLimits)
  const entries: Buffer[] = []
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag !== 10) reader.skip(tag)
    else {
      eachField(reader, (inner) => {
        if (inner === 10) entries.push(reader.view())
        else reader.skip(inner)
      })
    }
  }
  const features = new Map<string, Feature>()
  for (const [i, entry] of entries.entries()) {
    yield* readEntry(entry, features)
    if (i % 1024 === 1023) yield
  }
  return features
}

function* readEntry(entry: Buffer, features: Map<string, Feature>): Generator<void, void> {
  const reader = new ProtobufReader(entry, 0, entry.length, noReaderLimits)
  let name = ''
  let feature: Buffer | null = null
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10) name = reader.string()
    else if (tag === 18) feature = reader.view()
    else reader.skip(tag)
  }
  if (feature !== null) features.set(name, yield* readFeature(feature))
}

const kinds = { 10: 'bytes', 18: 'float', 26: 'int64' } as const

function* readFeature(bytes: Buffer): Generator<void, Feature> {
  const reader = new ProtobufReader(bytes, 0, bytes.length, noReaderLimits)
  let feature: Feature = { kind: 'bytes', values: [] }
  while (reader.at < reader.end) {
    const tag = reader.tag()
    const kind = kinds[tag as keyof typeof kinds]
    if (kind === undefined) {
      reader.skip(tag)
      continue
    }
    feature = { kind, values: feature.kind === kind ? feature.values : [] }
    const list = reader.view()
    yield* readList(new ProtobufReader(list, 0, list.length, noReaderLimits), feature)
  }
  return feature
}

function* readList(reader: ProtobufReader, { kind, values }: Feature): Generator<void, void> {
  const one = (): Buffer | number | bigint =>
    kind === 'bytes' ? reader.view() : kind === 'float' ? reader.float() : reader.int64()
  const whole = reader.end
  while (reader.at < whole) {
    const tag = reader.tag()
    const isPacked = tag === 10 && kind !== 'bytes'
    if (tag >>> 3 !== 1) reader.skip(tag)
    else if (isPacked) {
      reader.end = reader.lengthEnd()
      while (reader.at < reader.end) {
        values.push(one())
        if (values.length % stepValues === 0) yield
      }
      reader.end = whole
    } else {
      if ((tag & 7) !== wireTypes[kind]) throw malformed('a feature has values of another type')
      values.push(one())
      if (values.length % stepValues === 0) yield
    }
  }
}

const wireTypes = { bytes: 2, float: 5, int64: 0 } as const

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

  finish(rows: number): Tensor {
    const { name, dataType } = this.#spec
    const shape = [rows, ...this.#rowShape(this.#rows[0]?.length ?? 0)]
    if (dataType === 'BYTES') {
      return new Tensor(name, dataType, shape, textElements(this.#rows.flat() as Buffer[], this.#maxBytes))
    }
    const count = elementCount(shape)
    const width = elementBytes[dataType]
    if (count * width > this.#maxBytes) throw this.#tooLarge(count * width)
    const bytes = Buffer.alloc(count * width)
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    let at = 0
    for (const row of this.#rows) for (const value of row) at = this.#put(view, at, value as number | bigint)
    return new Tensor(name, dataType, shape, bytes)
  }

  #tooLarge(bytes: number): ServerError {
    return invalid(`Feature: ${this.name} takes ${bytes} bytes, at most ${this.#maxBytes} are taken`)
  }

  #put(view: DataView, at: number, value: number | bigint): number {
    const { dataType } = this.#spec
    const width = elementBytes[dataType]
    if (dataType === 'FP32') view.setFloat32(at, Number(value), true)
    else if (dataType === 'FP64') view.setFloat64(at, Number(value), true)
    else if (dataType === 'INT64') view.setBigInt64(at, value as bigint, true)
    else {
      const [lowest, highest] = integerBounds[dataType] ?? [0, -1]
      if (value < lowest || value > highest) {
        throw invalid(`Feature: ${this.name} has the value ${value}, which is no ${dataType}`)
      }
      if (width === 4) view.setUint32(at, Number(value), true)
      else if (width === 2) view.setUint16(at, Number(value), true)
      else view.setUint8(at, Number(value))
    }
    return at + width
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
