// What a caller of `infer` says → one form that both protocols write from, checked before anything is sent.

import { elementBytes, isDataType, type DataType } from '../tensor/data-type.ts'
import { elementCount, shapeText, type Shape } from '../tensor/shape.ts'
import { InferenceError } from './inference-error.ts'
import { encodeTensorData, type TensorData } from './tensor-data.ts'

export type ParameterValue = string | number | bigint | boolean

/** A place in a registered shared memory region. */
export type SharedMemoryRange = {
  /** The name under which the region was registered. */
  readonly region: string
  readonly offset?: number
  readonly byteSize: number
}

export type InputTensor =
  /** `shape` may be left out for one dimension, `dataType` where the array says it. */
  | { readonly data: TensorData; readonly shape?: Shape; readonly dataType?: DataType }
  /** Bytes as they go over the wire; an OutputTensor is one of these. */
  | { readonly bytes: Uint8Array; readonly shape: Shape; readonly dataType: DataType }
  | { readonly sharedMemory: SharedMemoryRange; readonly shape: Shape; readonly dataType: DataType }

export type NamedInput = { readonly name: string } & InputTensor

/** By name, or as a list where the order matters. */
export type Inputs = Readonly<Record<string, TensorData | InputTensor>> | readonly NamedInput[]

export type RequestedOutput = {
  readonly name: string
  /** The best n classes instead of the tensor. */
  readonly classification?: number
  readonly sharedMemory?: SharedMemoryRange
}

export type SequenceStep = {
  readonly id: number | bigint | string
  readonly start?: boolean
  readonly end?: boolean
}

export type CallOptions = {
  /** Rejects with the signal's own reason. */
  readonly signal?: AbortSignal | undefined
  /** For the whole call, retries and the reading of the answer included. */
  readonly timeoutMs?: number | undefined
  /** HTTP headers, or gRPC metadata. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

export type InferOptions = CallOptions & {
  readonly id?: string
  readonly version?: string | number
  /** All outputs when left out. */
  readonly outputs?: readonly (string | RequestedOutput)[]
  readonly parameters?: Readonly<Record<string, ParameterValue>>
  readonly priority?: number
  /** How long the request may wait in the server's queue. */
  readonly queueTimeoutUs?: number
  readonly sequence?: SequenceStep
  /** HTTP only: how tensors travel. Default `binary`. */
  readonly encoding?: 'binary' | 'json'
  readonly compression?: Compression
  /** Send again when the server answers UNAVAILABLE (a full queue, a model being loaded). Only for models without side effects. */
  readonly retryUnavailable?: boolean
}

/** How the request is packed, and how the answer may be. */
export type Compression = 'gzip' | 'deflate' | 'none'

export type WireInput = {
  readonly name: string
  readonly dataType: DataType
  readonly shape: Shape
  /** Null when the tensor is in shared memory. */
  readonly bytes: Uint8Array | null
  readonly sharedMemory: SharedMemoryRange | null
}

export type WireRequest = {
  readonly model: string
  readonly version: string
  readonly id: string
  readonly parameters: Readonly<Record<string, ParameterValue>>
  readonly inputs: readonly WireInput[]
  readonly outputs: readonly RequestedOutput[]
}

/** Parameters that have an option of their own. The server would take a plain parameter of that name for the option. */
const optionOfParameter: Readonly<Record<string, string>> = {
  sequence_id: 'sequence',
  sequence_start: 'sequence',
  sequence_end: 'sequence',
  priority: 'priority',
  timeout: 'queueTimeoutUs',
  binary_data_output: 'encoding',
}

export function wireRequestOf(model: string, inputs: Inputs, options: InferOptions): WireRequest {
  const named = isInputList(inputs)
    ? inputs.map((input) => wireInputOf(input.name, input))
    : Object.entries(inputs).map(([name, value]) => wireInputOf(name, isTensorData(value) ? { data: value } : value))
  return {
    model,
    version: String(options.version ?? ''),
    id: options.id ?? '',
    parameters: parametersOf(options),
    inputs: named,
    outputs: (options.outputs ?? []).map((output) => (typeof output === 'string' ? { name: output } : output)),
  }
}

const isInputList = (inputs: Inputs): inputs is readonly NamedInput[] => Array.isArray(inputs)

const isTensorData = (value: TensorData | InputTensor): value is TensorData =>
  Array.isArray(value) || ArrayBuffer.isView(value)

function parametersOf(options: InferOptions): Record<string, ParameterValue> {
  const parameters: Record<string, ParameterValue> = { ...options.parameters }
  for (const key of Object.keys(parameters)) {
    const option = optionOfParameter[key]
    if (option !== undefined) {
      throw InferenceError.ofArgument(`parameter '${key}' has a meaning of its own: use the option '${option}'`)
    }
  }
  const { sequence, priority, queueTimeoutUs } = options
  if (sequence !== undefined) {
    parameters['sequence_id'] = sequence.id
    parameters['sequence_start'] = sequence.start ?? false
    parameters['sequence_end'] = sequence.end ?? false
  }
  if (priority !== undefined) parameters['priority'] = priority
  if (queueTimeoutUs !== undefined) parameters['timeout'] = queueTimeoutUs
  return parameters
}

function wireInputOf(name: string, input: InputTensor): WireInput {
  if ('sharedMemory' in input) {
    const { dataType, shape, sharedMemory } = input
    return { name, dataType, shape, bytes: null, sharedMemory }
  }
  if ('bytes' in input) {
    validateBytes(name, input.dataType, input.shape, input.bytes)
    return { name, dataType: input.dataType, shape: input.shape, bytes: input.bytes, sharedMemory: null }
  }
  const encoded = encodeTensorData(name, input.data, input.dataType)
  const shape = input.shape ?? [encoded.elementCount]
  if (elementCount(shape) !== encoded.elementCount) {
    throw InferenceError.ofArgument(
      `input '${name}' of shape ${shapeText(shape)} needs ${elementCount(shape)} elements, got ${encoded.elementCount}`,
    )
  }
  return { name, dataType: encoded.dataType, shape, bytes: encoded.bytes, sharedMemory: null }
}

function validateBytes(name: string, dataType: DataType, shape: Shape, bytes: Uint8Array): void {
  if (!isDataType(dataType)) throw InferenceError.ofArgument(`input '${name}': no data type '${String(dataType)}'`)
  const expected = elementCount(shape) * elementBytes[dataType]
  if (dataType !== 'BYTES' && bytes.length !== expected) {
    throw InferenceError.ofArgument(
      `input '${name}' of type ${dataType} and shape ${shapeText(shape)} needs ${expected} bytes, got ${bytes.length}`,
    )
  }
}
