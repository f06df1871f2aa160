// Outputs → the answer of TensorFlow Serving's REST API, laid out as RapidJSON's pretty writer lays it out there: indented by
// four, and in `predictions` the lists of a row on one line.

import { ServerError } from '../../base/server-error.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { elementBytes, type DataType } from '../../tensor/data-type.ts'
import { elementCount, type Shape } from '../../tensor/shape.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { maxNumberBytes } from '../json-number-writer.ts'
import { JsonTextWriter } from '../json-text-writer.ts'
import { numberAt, type NumberAt } from '../tensor-data-writer.ts'
import { doubleText, floatText } from './decimal-text.ts'
import { invalid } from './predict-request.ts'
import { tensorflowName } from './tensorflow-type.ts'

/** Throws INVALID_ARG where the outputs do not fit the form, in TensorFlow Serving's words. */
export function writeTfPredict(
  { outputs }: InferenceResponse,
  { isColumnar }: { readonly isColumnar: boolean },
): Buffer {
  if (outputs.length === 0) throw invalid('Cannot convert empty tensor map to JSON')
  const writer = new JsonTextWriter(sizeOf(outputs))
  if (isColumnar) writeColumns(writer, outputs)
  else writeRows(writer, outputs)
  return writer.finish()
}

const sizeOf = (outputs: readonly Tensor[]): number =>
  outputs.reduce((sum, { bytes }) => sum + Math.min(bytes.length * 3, 65_536), 256)

function writeRows(writer: JsonTextWriter, outputs: readonly Tensor[]): void {
  const printers = outputs.map((output) => new ElementPrinter(writer, output))
  const rows = rowsOf(outputs)
  writer.raw('{\n    "predictions": [')
  for (let row = 0; row < rows; row++) {
    if (printers.length === 1) {
      if (row > 0) writer.raw(', ')
      ;(printers[0] as ElementPrinter).print(1, null)
      continue
    }
    writer.raw(row > 0 ? ',\n        {' : '\n        {')
    for (const [i, printer] of printers.entries()) {
      writer.raw(i > 0 ? ',\n            ' : '\n            ')
      writer.string(printer.name)
      writer.raw(': ')
      printer.print(1, null)
    }
    writer.raw('\n        }')
  }
  writer.raw(rows > 0 ? '\n    ]\n}' : ']\n}')
}

function rowsOf(outputs: readonly Tensor[]): number {
  let rows = -1
  for (const { name, shape } of outputs) {
    const [size] = shape
    if (size === undefined) throw invalid(`Tensor name: ${name} has no shape information `)
    if (rows >= 0 && rows !== size) {
      throw invalid(`Tensor name: ${name} has inconsistent batch size: ${size} expecting: ${rows}`)
    }
    rows = size
  }
  return rows
}

function writeColumns(writer: JsonTextWriter, outputs: readonly Tensor[]): void {
  writer.raw('{\n    "outputs": ')
  const isObject = outputs.length > 1
  if (isObject) writer.raw('{')
  for (const [i, output] of outputs.entries()) {
    if (isObject) {
      writer.raw(i > 0 ? ',\n        ' : '\n        ')
      writer.string(output.name)
      writer.raw(': ')
    }
    new ElementPrinter(writer, output).print(0, isObject ? '        ' : '    ')
  }
  writer.raw(isObject ? '\n    }\n}' : '\n}')
}

/** What v2 prints in another form, or this protocol not at all. */
const ownForms: Partial<Record<DataType, (view: DataView, index: number) => string>> = {
  FP32: (view, i) => floatText(view.getFloat32(i * 4, true)),
  FP64: (view, i) => doubleText(view.getFloat64(i * 8, true)),
  BOOL: (view, i) => (view.getUint8(i) === 0 ? 'false' : 'true'),
}
const formless: ReadonlySet<DataType> = new Set(['FP16', 'BF16', 'UINT16'])

/** Prints the elements of an output in their order: all of them, or row by row. */
class ElementPrinter {
  readonly name: string
  readonly #writer: JsonTextWriter
  readonly #tensor: Tensor
  readonly #shape: Shape
  readonly #view: DataView
  readonly #textAt: ((view: DataView, index: number) => string) | null
  readonly #integerAt: NumberAt | null
  /** Texts whose name ends so are bytes, and printed as base64. */
  readonly #isBytes: boolean
  #index = 0
  /** Of the next text. */
  #position = 0

  constructor(writer: JsonTextWriter, tensor: Tensor) {
    const { name, dataType, shape, bytes } = tensor
    this.name = name
    this.#writer = writer
    this.#tensor = tensor
    this.#shape = shape
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#isBytes = name.endsWith('_bytes')
    this.#textAt = ownForms[dataType] ?? null
    this.#integerAt = numberAt[dataType] ?? null
    if (formless.has(dataType)) {
      throw invalid(`Failed to write JSON value for tensor type: ${tensorflowName(dataType)}`)
    }
    const width = elementBytes[dataType]
    if (width > 0 && bytes.length !== elementCount(shape) * width) throw this.#mismatch()
  }

  #mismatch(): ServerError {
    return new ServerError('INTERNAL', `output tensor shape does not match size of output for '${this.name}'`)
  }

  /** Dimension `depth` and those inside it. `indent` null: on one line. */
  print(depth: number, indent: string | null): void {
    if (depth >= this.#shape.length) {
      this.#printOne(indent)
      return
    }
    const writer = this.#writer
    const inner = indent === null ? null : `${indent}    `
    const between = inner === null ? ', ' : `,\n${inner}`
    const size = this.#shape[depth] as number
    const isLast = depth === this.#shape.length - 1
    writer.raw('[')
    for (let i = 0; i < size; i++) {
      if (i > 0) writer.raw(between)
      else if (inner !== null) writer.raw(`\n${inner}`)
      if (isLast) this.#printOne(inner)
      else this.print(depth + 1, inner)
    }
    writer.raw(indent === null || size === 0 ? ']' : `\n${indent}]`)
  }

  #printOne(indent: string | null): void {
    const writer = this.#writer
    if (this.#textAt !== null) writer.raw(this.#textAt(this.#view, this.#index++))
    else if (this.#integerAt === null) this.#printText(indent)
    else {
      writer.reserve(maxNumberBytes)
      writer.length = this.#integerAt(writer.bytes, writer.length, this.#view, this.#index++)
    }
  }

  #printText(indent: string | null): void {
    const { bytes } = this.#tensor
    const start = this.#position + 4
    const end = start > bytes.length ? Infinity : start + this.#view.getUint32(this.#position, true)
    if (end > bytes.length) throw this.#mismatch()
    this.#position = end
    if (!this.#isBytes) {
      this.#writer.stringBytes(bytes, start, end)
      return
    }
    const outer = indent ?? '        '
    const text = Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('base64')
    this.#writer.raw(`{\n${outer}    "b64": "`)
    this.#writer.raw(text)
    this.#writer.raw(`"\n${outer}}`)
  }
}

/** `{"error": …}` */
export function tfErrorBody(message: string): Buffer {
  return Buffer.from(`{\n    "error": ${JSON.stringify(message)}\n}`)
}
