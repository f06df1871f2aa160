// An inference response → the body of Triton's HTTP infer endpoint: JSON, followed by the outputs that go out as binary.
// Binary outputs are not copied: they leave as views. JSON outputs are printed into one buffer.

import type { InferenceResponse } from '../model/inference-response.ts'
import type { Parameters } from '../model/parameters.ts'
import type { ModelSignature } from '../config/model-signature.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { classify } from './classification.ts'
import type { OutputSelection } from './parsed-infer.ts'
import { maxNumberBytes, writeDouble } from './json-number-writer.ts'
import { JsonTextWriter } from './json-text-writer.ts'
import { writeTensorData } from './tensor-data-writer.ts'

/** Which outputs are printed, and how. */
export type PrintedOutputs = {
  readonly signature: ModelSignature
  /** Empty: all outputs of the model. */
  readonly outputs: readonly OutputSelection[]
  readonly binaryOutputDefault: boolean
}

export type InferResponseContext = PrintedOutputs & {
  readonly modelName: string
  /** The version that answered. */
  readonly modelVersion: string
  /** The client's id; '' is left out. */
  readonly id: string
}

export type EncodedInferResponse = {
  /** The JSON. */
  readonly head: Buffer
  /** The bytes of the binary outputs, in the order of `outputs`: they follow the JSON. */
  readonly parts: readonly Uint8Array[]
  /** True when there is at least one binary byte: the body is `application/octet-stream` and says where the JSON ends. */
  readonly isBinary: boolean
}

/** An answer without binary outputs. */
export const textAnswer = (head: Buffer): EncodedInferResponse => ({ head, parts: [], isBinary: false })

/** Throws the response's own error, or an error when an output cannot be written in the requested form. */
export function writeInferResponse(response: InferenceResponse, context: InferResponseContext): EncodedInferResponse {
  if (response.error !== null) throw response.error
  const writer = new JsonTextWriter()
  const parts: Uint8Array[] = []
  writer.raw('{')
  if (context.id !== '') {
    writer.raw('"id":')
    writer.string(context.id)
    writer.raw(',')
  }
  writer.raw('"model_name":')
  writer.string(context.modelName)
  writer.raw(',"model_version":')
  writer.string(context.modelVersion)
  if (response.parameters !== null && response.parameters.size > 0) writeParameters(writer, response.parameters)
  writer.raw(',"outputs":[')
  let isFirst = true
  for (const output of response.outputs) {
    const selection = selectionOf(output.name, context.outputs)
    if (selection === undefined && context.outputs.length > 0) continue
    if (!isFirst) writer.raw(',')
    isFirst = false
    writeOutput(writer, parts, output, selection, context)
  }
  writer.raw(']}')
  return { head: writer.finish(), parts, isBinary: parts.some((part) => part.length > 0) }
}

function selectionOf(name: string, outputs: readonly OutputSelection[]): OutputSelection | undefined {
  for (const output of outputs) if (output.name === name) return output
  return undefined
}

function writeOutput(
  writer: JsonTextWriter,
  parts: Uint8Array[],
  output: Tensor,
  selection: OutputSelection | undefined,
  context: InferResponseContext,
): void {
  let tensor = output
  const classCount = selection?.classificationCount ?? 0
  if (classCount > 0) {
    const labels = context.signature.outputByName.get(output.name)?.labels ?? []
    tensor = classify(output, classCount, labels, context.signature.isBatching)
  }
  writer.raw('{"name":')
  writer.string(tensor.name)
  writer.raw(`,"datatype":"${tensor.dataType}","shape":[${tensor.shape.join(',')}]`)
  if (selection !== undefined && selection.sharedMemory !== null) {
    // The bytes are in the shared memory that the client named, not in the response.
  } else if (selection?.isBinary ?? context.binaryOutputDefault) {
    writer.raw(`,"parameters":{"binary_data_size":${tensor.bytes.length}}`)
    parts.push(tensor.bytes)
  } else {
    writer.raw(',"data":')
    writeTensorData(writer, tensor)
  }
  writer.raw('}')
}

function writeParameters(writer: JsonTextWriter, parameters: Parameters): void {
  writer.raw(',"parameters":{')
  let isFirst = true
  for (const [name, value] of parameters) {
    if (!isFirst) writer.raw(',')
    isFirst = false
    writer.string(name)
    writer.raw(':')
    if (typeof value === 'string') writer.string(value)
    else if (typeof value === 'number') {
      writer.reserve(maxNumberBytes)
      writer.length = writeDouble(writer.bytes, writer.length, value)
    } else writer.raw(String(value))
  }
  writer.raw('}')
}
