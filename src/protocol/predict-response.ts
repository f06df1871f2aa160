// Outputs → the answer of KServe v1's `:predict`: `predictions` has a value for each row, `outputs` a value for each output.

import { isUtf8 } from 'node:buffer'

import { ServerError } from '../base/server-error.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import { shapeText } from '../tensor/shape.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { textAnswer, type EncodedInferResponse, type PrintedOutputs } from './infer-response-writer.ts'
import { JsonTextWriter } from './json-text-writer.ts'
import { NestedPrinter, printByName, printList } from './nested-printer.ts'
import { requireJsonType } from './tensor-data-writer.ts'

const list = { open: '[', between: ',', close: ']' }
const object = { open: '{', between: ',', close: '}', colon: ':' }

type PredictContext = PrintedOutputs & { readonly isColumnar: boolean }

/** Throws where an output cannot be written as JSON, or has not as many rows as the others. */
export function writePredictResponse(
  response: InferenceResponse,
  { isColumnar }: PredictContext,
): EncodedInferResponse {
  const writer = new JsonTextWriter()
  const outputs = response.outputs.map((output) => new OutputPrinter(writer, output))
  writer.raw(isColumnar ? '{"outputs":' : '{"predictions":')
  if (outputs.length === 1) (outputs[0] as OutputPrinter).print(0)
  else if (isColumnar) printByName(writer, object, outputs, (output) => output.print(0))
  else {
    printList(writer, list, rowsOf(outputs), () => printByName(writer, object, outputs, (output) => output.print(1)))
  }
  writer.raw('}')
  return textAnswer(writer.finish())
}

function rowsOf(outputs: readonly OutputPrinter[]): number {
  const rows = outputs[0]?.shape[0] ?? 0
  const other = outputs.find(({ shape }) => shape[0] !== rows)
  if (other === undefined) return rows
  const shapes = outputs.map(({ name, shape }) => `'${name}' ${shapeText(shape)}`).join(', ')
  throw ServerError.withoutStack(
    'INVALID_ARG',
    `the outputs have not the same number of rows (${shapes}): send 'inputs' in place of 'instances'`,
  )
}

class OutputPrinter extends NestedPrinter {
  constructor(writer: JsonTextWriter, tensor: Tensor) {
    requireJsonType(tensor.dataType)
    super(writer, tensor, ',', {})
  }

  /** Bytes that are no text are printed as clients send them: `{"b64": "…"}`. */
  protected override printText(start: number, end: number): void {
    const element = this.bytes.subarray(start, end)
    if (isUtf8(element)) this.writer.stringBytes(element, 0, element.length)
    else this.writer.raw(`{"b64":"${Buffer.from(element).toString('base64')}"}`)
  }
}
