// Outputs → the answer of TensorFlow Serving's REST API, laid out as RapidJSON's pretty writer lays it out there: indented by
// four, and in `predictions` the lists of a row on one line.

import type { InferenceResponse } from '../../model/inference-response.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { doubleText, floatText } from '../decimal-text.ts'
import { shownError } from '../error-body.ts'
import { JsonTextWriter } from '../json-text-writer.ts'
import { NestedPrinter, printByName, type ElementForms } from '../nested-printer.ts'
import { inGivenRank } from './input-ranks.ts'
import { invalid, type ParsedTfBody } from './predict-request.ts'
import { formless, tensorflowName } from './tensorflow-type.ts'

/** Throws INVALID_ARG where the outputs do not fit the form, in TensorFlow Serving's words. */
export function writeTfPredict(
  response: InferenceResponse,
  { isColumnar, ranks }: Pick<ParsedTfBody, 'isColumnar' | 'ranks'>,
): Buffer {
  const outputs = inGivenRank(response.outputs, ranks)
  if (outputs.length === 0) throw invalid('Cannot convert empty tensor map to JSON')
  const writer = new JsonTextWriter(sizeOf(outputs))
  if (isColumnar) writeColumns(writer, outputs)
  else writeRows(writer, outputs)
  return writer.finish()
}

const sizeOf = (outputs: readonly Tensor[]): number =>
  outputs.reduce((sum, { bytes }) => sum + Math.min(bytes.length * 3, 65_536), 256)

const rowLayout = { open: '\n        {\n            ', between: ',\n            ', close: '\n        }', colon: ': ' }
const columnLayout = { open: '{\n        ', between: ',\n        ', close: '\n    }', colon: ': ' }

function writeRows(writer: JsonTextWriter, outputs: readonly Tensor[]): void {
  const isObject = outputs.length > 1
  const printers = outputs.map((output) => new OutputPrinter(writer, output, isObject ? 3 : 2))
  const rows = rowsOf(outputs)
  const only = printers.length === 1 ? (printers[0] as OutputPrinter) : null
  writer.raw('{\n    "predictions": [')
  for (let row = 0; row < rows; row++) {
    if (row > 0) writer.raw(only === null ? ',' : ', ')
    if (only !== null) only.print(1)
    else printByName(writer, rowLayout, printers, (printer) => printer.print(1))
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
  const printers = outputs.map((output) => new OutputPrinter(writer, output, 0))
  writer.raw('{\n    "outputs": ')
  if (printers.length === 1) printers[0]?.print(0, '    ')
  else printByName(writer, columnLayout, printers, (printer) => printer.print(0, '        '))
  writer.raw('\n}')
}

/** Numbers have a point or an exponent. */
const forms: ElementForms = {
  FP32: (view, i) => floatText(view.getFloat32(i * 4, true)),
  FP64: (view, i) => doubleText(view.getFloat64(i * 8, true)),
}

class OutputPrinter extends NestedPrinter {
  /** Texts whose name ends so are bytes, and printed as base64. */
  readonly #isBytes: boolean
  /** Of an object in a row: lists on one line count for it. */
  readonly #indent: string

  /** `levels`: how many lists and objects stand around a row. */
  constructor(writer: JsonTextWriter, tensor: Tensor, levels: number) {
    super(writer, tensor, ', ', forms)
    this.#indent = '    '.repeat(levels + Math.max(0, tensor.shape.length - 1))
    this.#isBytes = tensor.name.endsWith('_bytes')
    if (!formless.has(tensor.dataType)) return
    throw invalid(`Failed to write JSON value for tensor type: ${tensorflowName(tensor.dataType)}`)
  }

  protected override printText(start: number, end: number, indent: string | null): void {
    const { writer, bytes } = this
    if (!this.#isBytes) {
      writer.stringBytes(bytes, start, end)
      return
    }
    const outer = indent ?? this.#indent
    writer.raw(`{\n${outer}    "b64": "`)
    writer.raw(Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('base64'))
    writer.raw(`"\n${outer}}`)
  }
}

/** `{"error": …}` */
export function tfErrorBody(message: string): Buffer {
  return Buffer.from(`{\n    "error": ${JSON.stringify(shownError(message))}\n}`)
}
