// Outputs → the answer of KServe v1's `:predict`: `predictions` has a value for each row, `outputs` a value for each output.

import { isUtf8 } from 'node:buffer'

import { ServerError } from '../base/server-error.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import { elementBytes } from '../tensor/data-type.ts'
import { shapeText, type Shape } from '../tensor/shape.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { EncodedInferResponse, PrintedOutputs } from './infer-response-writer.ts'
import { JsonTextWriter } from './json-text-writer.ts'
import { writeTensorData } from './tensor-data-writer.ts'

type PredictContext = PrintedOutputs & { readonly isColumnar: boolean }

/** Throws where an output cannot be written as JSON, or has not as many rows as the others. */
export function writePredictResponse(
  response: InferenceResponse,
  { isColumnar }: PredictContext,
): EncodedInferResponse {
  const writer = new JsonTextWriter()
  const outputs = response.outputs.map((output) => new OutputPrinter(writer, output))
  writer.raw(isColumnar ? '{"outputs":' : '{"predictions":')
  if (outputs.length === 1) (outputs[0] as OutputPrinter).print()
  else if (isColumnar) printByName(writer, outputs, (output) => output.print())
  else {
    printList(writer, '[]', rowsOf(outputs), () => printByName(writer, outputs, (output) => output.printRow()))
  }
  writer.raw('}')
  return { head: writer.finish(), parts: [], isBinary: false }
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

function printByName(
  writer: JsonTextWriter,
  outputs: readonly OutputPrinter[],
  print: (output: OutputPrinter) => void,
): void {
  printList(writer, '{}', outputs.length, (i) => {
    const output = outputs[i] as OutputPrinter
    writer.string(output.name)
    writer.raw(':')
    print(output)
  })
}

function printList(writer: JsonTextWriter, brackets: string, count: number, print: (index: number) => void): void {
  writer.raw(brackets.charAt(0))
  for (let i = 0; i < count; i++) {
    if (i > 0) writer.raw(',')
    print(i)
  }
  writer.raw(brackets.charAt(1))
}

/** Prints the elements of an output in their order: all of them, or row by row. */
class OutputPrinter {
  readonly name: string
  readonly shape: Shape
  readonly #writer: JsonTextWriter
  readonly #tensor: Tensor
  readonly #view: DataView
  /** Of the first byte that is not yet printed. */
  #position = 0

  constructor(writer: JsonTextWriter, tensor: Tensor) {
    this.#writer = writer
    this.#tensor = tensor
    this.name = tensor.name
    this.shape = tensor.shape
    this.#view = new DataView(tensor.bytes.buffer, tensor.bytes.byteOffset, tensor.bytes.byteLength)
  }

  print(): void {
    this.#printNested(0)
  }

  printRow(): void {
    this.#printNested(1)
  }

  /** Dimension `depth` and those inside it. */
  #printNested(depth: number): void {
    const writer = this.#writer
    const { shape } = this
    if (depth < shape.length - 1) printList(writer, '[]', shape[depth] as number, () => this.#printNested(depth + 1))
    else if (depth < shape.length) this.#printElements(shape[depth] as number)
    else {
      const start = writer.length
      this.#printElements(1)
      // The element without its brackets.
      writer.bytes.copyWithin(start, start + 1, writer.length - 1)
      writer.length -= 2
    }
  }

  #printElements(count: number): void {
    const { name, dataType, bytes } = this.#tensor
    if (dataType === 'BYTES') {
      printList(this.#writer, '[]', count, () => this.#printString())
      return
    }
    const start = this.#position
    this.#position += count * elementBytes[dataType]
    writeTensorData(this.#writer, new Tensor(name, dataType, [count], bytes.subarray(start, this.#position)))
  }

  /** Bytes that are no text are printed as clients send them: `{"b64": "…"}`. */
  #printString(): void {
    const { name, bytes } = this.#tensor
    const start = this.#position + 4
    const end = start > bytes.length ? Infinity : start + this.#view.getUint32(this.#position, true)
    if (end > bytes.length) {
      throw new ServerError('INTERNAL', `output tensor shape does not match size of output for '${name}'`)
    }
    this.#position = end
    const element = bytes.subarray(start, end)
    if (isUtf8(element)) this.#writer.stringBytes(element, 0, element.length)
    else this.#writer.raw(`{"b64":"${Buffer.from(element).toString('base64')}"}`)
  }
}
