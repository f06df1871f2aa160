// WireRequest → ModelInferRequest, ModelInferResponse → InferResult.

import { isDataType, type DataType } from '../../tensor/data-type.ts'
import type { ParameterValue, RequestedOutput, SharedMemoryRange, WireRequest } from '../infer-request.ts'
import { InferResult } from '../infer-result.ts'
import { InferenceError } from '../inference-error.ts'
import { OutputTensor } from '../output-tensor.ts'
import { encodeTensorData, type TensorData } from '../tensor-data.ts'
import { encodeMessage, type MessageValue } from './json-messages.ts'

type WireParameter = {
  readonly bool_param?: boolean
  readonly int64_param?: number | bigint
  readonly string_param?: string
  readonly double_param?: number
  readonly uint64_param?: number | bigint
}
type WireParameters = Record<string, WireParameter>

export function encodeInferRequest(request: WireRequest): Uint8Array[] {
  return encodeMessage('ModelInferRequest', {
    model_name: request.model,
    model_version: request.version,
    id: request.id,
    parameters: wireParameters(request.parameters),
    inputs: request.inputs.map(({ name, dataType, shape, sharedMemory }) => ({
      name,
      datatype: dataType,
      shape,
      parameters: sharedMemory === null ? {} : wireParameters(rangeParameters(sharedMemory)),
    })),
    outputs: request.outputs.map((output) => ({ name: output.name, parameters: outputParameters(output) })),
    raw_input_contents: request.inputs.flatMap(({ bytes }) => (bytes === null ? [] : [bytes])),
  })
}

const wireParameters = (parameters: Readonly<Record<string, ParameterValue>>): WireParameters =>
  Object.fromEntries(Object.entries(parameters).map(([key, value]) => [key, wireParameter(value)]))

function wireParameter(value: ParameterValue): WireParameter {
  if (typeof value === 'boolean') return { bool_param: value }
  if (typeof value === 'string') return { string_param: value }
  if (typeof value === 'bigint' || Number.isInteger(value)) return { int64_param: value }
  return { double_param: value }
}

const rangeParameters = ({ region, offset = 0, byteSize }: SharedMemoryRange): Record<string, ParameterValue> => ({
  shared_memory_region: region,
  shared_memory_byte_size: byteSize,
  ...(offset === 0 ? {} : { shared_memory_offset: offset }),
})

const outputParameters = ({ classification, sharedMemory }: RequestedOutput): WireParameters =>
  wireParameters({
    ...(classification === undefined ? {} : { classification }),
    ...(sharedMemory === undefined ? {} : rangeParameters(sharedMemory)),
  })

type WireOutput = {
  readonly name: string
  readonly datatype: string
  readonly shape: readonly number[]
  readonly parameters: WireParameters
  readonly contents?: Readonly<Record<string, readonly unknown[]>>
}

/** Of a decoded ModelInferResponse. */
export function inferResultOf(response: MessageValue): InferResult {
  const raw = response['raw_output_contents'] as readonly Uint8Array[]
  const outputs = (response['outputs'] as readonly WireOutput[]).map((output, index) => {
    const { name, datatype, shape, parameters } = output
    if (!isDataType(datatype)) {
      throw new InferenceError('PROTOCOL', `output '${name}' has the unknown type '${datatype}'`)
    }
    const bytes = raw[index] ?? contentsBytes(name, datatype, output.contents)
    return new OutputTensor(name, datatype, shape, bytes, parametersOf(parameters))
  })
  const head = {
    modelName: response['model_name'] as string,
    modelVersion: response['model_version'] as string,
    id: response['id'] as string,
    parameters: parametersOf(response['parameters'] as WireParameters),
  }
  return new InferResult(head, outputs)
}

const parametersOf = (parameters: WireParameters): Record<string, ParameterValue> =>
  Object.fromEntries(
    Object.entries(parameters).map(([key, value]) => [
      key,
      (Object.values(value)[0] as ParameterValue | undefined) ?? '',
    ]),
  )

/** Servers other than Triton may answer with typed contents, of which one list is filled. */
function contentsBytes(name: string, dataType: DataType, contents: WireOutput['contents']): Uint8Array {
  const filled = Object.values(contents ?? {}).find((list) => list.length > 0)
  return filled === undefined ? new Uint8Array(0) : encodeTensorData(name, filled as TensorData, dataType).bytes
}
