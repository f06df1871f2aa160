// ModelInferResponse to its wire form, by hand. HOT: once per answer.
// Small outputs are copied into the head; large outputs follow it as views.

import type { ParameterValue } from '../../model/parameters.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import type { OutputSelection } from './infer-request-fields.ts'
import { ProtobufWriter, smallBytes, type MessageParts } from '../../protobuf/protobuf-writer.ts'

export type { MessageParts } from '../../protobuf/protobuf-writer.ts'

export type InferAnswerContext = {
  readonly modelName: string
  /** The version that answered; in an error the version that the client asked for. */
  readonly modelVersion: string
  readonly id: string
  readonly outputs: readonly OutputSelection[]
}

/** Each answer of a stream ends its parameters with one of these two, so they are written once. */
const finalParameters = { true: finalParameter(true), false: finalParameter(false) } as const

function finalParameter(isFinal: boolean): Buffer {
  const writer = new ProtobufWriter()
  writeParameter(writer, 4, 'triton_final_response', isFinal)
  return Buffer.from(writer.finish())
}

/** Throws when an output cannot be written in the form that the client asked for. */
export function writeInferResponse(response: InferenceResponse, context: InferAnswerContext): MessageParts {
  const writer = new ProtobufWriter(answerBytes(response.outputs))
  writeAnswer(writer, response, context, null)
  return writer.parts()
}

/** Writes the response inside a ModelStreamInferResponse, with the final flag. */
export function writeStreamResponse(
  response: InferenceResponse,
  context: InferAnswerContext,
  isFinal: boolean,
): MessageParts {
  const writer = new ProtobufWriter(answerBytes(response.outputs))
  const start = writer.beginNested(2)
  writeAnswer(writer, response, context, isFinal)
  writer.endNested(start)
  return writer.parts()
}

/** `isFinal` is null for a request that never reached its model: then only its id comes back. */
export function writeStreamError(
  message: string,
  context: Pick<InferAnswerContext, 'modelName' | 'modelVersion' | 'id'>,
  isFinal: boolean | null,
): MessageParts {
  const writer = new ProtobufWriter()
  writeText(writer, 1, message)
  const start = writer.beginNested(2)
  if (isFinal === null) writeText(writer, 3, context.id)
  else writeHead(writer, context, null, isFinal)
  writer.endNested(start)
  return writer.parts()
}

/** The bare end of a decoupled model's answers, for a client that asked for it. */
export function writeEmptyFinal(context: Pick<InferAnswerContext, 'modelName' | 'modelVersion' | 'id'>): MessageParts {
  return writeStreamError('', context, true)
}

function writeAnswer(
  writer: ProtobufWriter,
  response: InferenceResponse,
  context: InferAnswerContext,
  isFinal: boolean | null,
): void {
  writeHead(writer, context, response.parameters, isFinal)
  const chosen: Tensor[] = []
  for (const output of response.outputs) {
    const selection = selectionOf(output.name, context.outputs)
    if (selection === undefined && context.outputs.length > 0) continue
    writeOutput(writer, output)
    chosen.push(output)
  }
  for (const tensor of chosen) {
    const selection = selectionOf(tensor.name, context.outputs)
    const isPlaced = selection !== undefined && selection.sharedMemory !== null
    writer.tag(6, 2)
    writer.rawOrView(isPlaced ? nothing : tensor.bytes)
  }
}

const nothing = new Uint8Array(0)

/** The approximate size of an answer without its large outputs. */
export function answerBytes(outputs: readonly Tensor[]): number {
  let total = 192
  for (const { name, bytes } of outputs) {
    total += 64 + name.length + (bytes.length <= smallBytes ? bytes.length : 0)
  }
  return total
}

function selectionOf(name: string, outputs: readonly OutputSelection[]): OutputSelection | undefined {
  for (const output of outputs) if (output.name === name) return output
  return undefined
}

function writeHead(
  writer: ProtobufWriter,
  context: Pick<InferAnswerContext, 'modelName' | 'modelVersion' | 'id'>,
  parameters: ReadonlyMap<string, ParameterValue> | null,
  isFinal: boolean | null,
): void {
  writeText(writer, 1, context.modelName)
  writeText(writer, 2, context.modelVersion)
  writeText(writer, 3, context.id)
  if (parameters !== null) for (const [name, value] of parameters) writeParameter(writer, 4, name, value)
  if (isFinal !== null) writer.fields(isFinal ? finalParameters.true : finalParameters.false)
}

function writeText(writer: ProtobufWriter, field: number, text: string): void {
  if (text !== '') writer.textField(field, text)
}

function writeParameter(writer: ProtobufWriter, field: number, name: string, value: ParameterValue): void {
  writer.nested(field, () => {
    writer.textField(1, name)
    writer.nested(2, () => {
      if (typeof value === 'boolean') writer.integerField(1, value ? 1 : 0)
      else if (typeof value === 'bigint') writer.integerField(2, value)
      else if (typeof value === 'string') writer.textField(3, value)
      else {
        writer.tag(4, 1)
        writer.double(value)
      }
    })
  })
}

function writeOutput(writer: ProtobufWriter, tensor: Tensor): void {
  const { name, dataType, shape } = tensor
  const start = writer.beginNested(5)
  writeText(writer, 1, name)
  writeText(writer, 2, dataType)
  if (shape.length > 0) {
    const shapeStart = writer.beginNested(3)
    for (let i = 0; i < shape.length; i++) writer.varint(shape[i] as number)
    writer.endNested(shapeStart)
  }
  writer.endNested(start)
}
