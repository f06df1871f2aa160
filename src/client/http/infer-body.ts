// WireRequest → the body of POST …/infer, and its answer → InferResult.

import { messageOf } from '../../base/server-error.ts'
import { isDataType, type DataType } from '../../tensor/data-type.ts'
import type { ParameterValue, RequestedOutput, SharedMemoryRange, WireInput, WireRequest } from '../infer-request.ts'
import { InferResult } from '../infer-result.ts'
import { InferenceError } from '../inference-error.ts'
import { OutputTensor } from '../output-tensor.ts'
import { bytesElements, encodeTensorData, typedValues, type TensorData } from '../tensor-data.ts'
import { jsonObjectEnd, parseWireJson, wireJsonText } from './wire-json.ts'

type InferBody = {
  readonly bytes: Uint8Array<ArrayBuffer>
  /** Bytes of JSON at the beginning; null when there is nothing else. */
  readonly headerLength: number | null
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const strictDecoder = new TextDecoder('utf-8', { fatal: true })

export function encodeInferBody(request: WireRequest, encoding: 'binary' | 'json'): InferBody {
  const isBinary = encoding === 'binary'
  const tensors = isBinary ? request.inputs.flatMap(({ bytes }) => (bytes === null ? [] : [bytes])) : []
  const parameters: Record<string, ParameterValue> = { ...request.parameters }
  if (isBinary && request.outputs.length === 0) parameters['binary_data_output'] = true
  const members = [
    ...(request.id === '' ? [] : [`"id":${JSON.stringify(request.id)}`]),
    ...(Object.keys(parameters).length === 0 ? [] : [`"parameters":${wireJsonText(parameters)}`]),
    `"inputs":[${request.inputs.map((input) => inputText(input, isBinary)).join(',')}]`,
    ...(request.outputs.length === 0
      ? []
      : [`"outputs":[${request.outputs.map((each) => outputText(each, isBinary)).join(',')}]`]),
  ]
  const header = encoder.encode(`{${members.join(',')}}`)
  if (tensors.length === 0) return { bytes: header, headerLength: null }
  const bytes = new Uint8Array(tensors.reduce((sum, tensor) => sum + tensor.length, header.length))
  bytes.set(header)
  let at = header.length
  for (const tensor of tensors) {
    bytes.set(tensor, at)
    at += tensor.length
  }
  return { bytes, headerLength: header.length }
}

const rangeParameters = ({ region, offset, byteSize }: SharedMemoryRange): object => ({
  shared_memory_region: region,
  shared_memory_offset: offset === 0 ? undefined : offset,
  shared_memory_byte_size: byteSize,
})

function inputText(input: WireInput, isBinary: boolean): string {
  const { name, dataType, shape, bytes, sharedMemory } = input
  const head = { name, shape, datatype: dataType }
  if (sharedMemory !== null) return wireJsonText({ ...head, parameters: rangeParameters(sharedMemory) })
  if (bytes === null || isBinary) return wireJsonText({ ...head, parameters: { binary_data_size: bytes?.length ?? 0 } })
  return `${wireJsonText(head).slice(0, -1)},"data":[${dataText(name, dataType, bytes)}]}`
}

function dataText(name: string, dataType: DataType, bytes: Uint8Array): string {
  if (dataType === 'BYTES') {
    return bytesElements(name, bytes)
      .map((element) => JSON.stringify(textOf(name, element)))
      .join(',')
  }
  if (dataType === 'BOOL') return Array.from(bytes, (value) => String(value !== 0)).join(',')
  if (dataType === 'FP16' || dataType === 'BF16') {
    throw InferenceError.ofArgument(`input '${name}': ${dataType} does not travel as JSON, only in binary`)
  }
  const values = typedValues(dataType, bytes)
  // NaN and Infinity stay bare, as the server writes them itself; minus zero would lose its sign.
  return values.includes(-0 as never) ? Array.from(values, numberText).join(',') : values.join(',')
}

const numberText = (value: number | bigint): string => (Object.is(value, -0) ? '-0.0' : String(value))

function textOf(name: string, element: Uint8Array): string {
  try {
    return strictDecoder.decode(element)
  } catch (reason) {
    throw new InferenceError(
      'INVALID_ARG',
      `input '${name}' holds bytes that are no UTF-8 text: JSON cannot carry them`,
      {
        cause: reason,
        isUnsent: true,
      },
    )
  }
}

function outputText({ name, classification, sharedMemory }: RequestedOutput, isBinary: boolean): string {
  const parameters = {
    ...(classification === undefined ? {} : { classification }),
    ...(sharedMemory === undefined ? {} : rangeParameters(sharedMemory)),
    ...(isBinary && sharedMemory === undefined ? { binary_data: true } : {}),
  }
  return wireJsonText(Object.keys(parameters).length === 0 ? { name } : { name, parameters })
}

type WireOutput = {
  readonly name: string
  readonly datatype: string
  readonly shape: readonly number[]
  readonly parameters?: Readonly<Record<string, ParameterValue>>
  readonly data?: readonly unknown[]
}
type WireResponse = {
  readonly model_name?: string
  readonly model_version?: string
  readonly id?: string
  readonly parameters?: Readonly<Record<string, ParameterValue>>
  readonly outputs?: readonly WireOutput[]
}

/** `headerLength` as the answer's header says; null when it has none. */
export function parseInferBody(bytes: Uint8Array, headerLength: number | null, isBinary: boolean): InferResult {
  const end = headerLength ?? (isBinary ? jsonObjectEnd(bytes) : bytes.length)
  if (!(end >= 0 && end <= bytes.length)) {
    throw new InferenceError('PROTOCOL', `the answer says it has ${end} bytes of JSON, but has ${bytes.length} in all`)
  }
  const response = parseWireJson(decoder.decode(bytes.subarray(0, end))) as WireResponse
  let at = end
  const outputs = (response.outputs ?? []).map((output) => {
    const size = output.parameters?.['binary_data_size']
    if (size === undefined) return outputOf(output, dataBytes(output))
    if (typeof size !== 'number' || !Number.isInteger(size) || size < 0 || at + size > bytes.length) {
      throw new InferenceError(
        'PROTOCOL',
        `output '${output.name}' should have ${size} bytes, but ${bytes.length - at} are left`,
      )
    }
    at += size
    return outputOf(output, bytes.subarray(at - size, at))
  })
  const { model_name: modelName = '', model_version: modelVersion = '', id = '', parameters = {} } = response
  return new InferResult({ modelName, modelVersion, id, parameters }, outputs)
}

function outputOf({ name, datatype, shape, parameters }: WireOutput, bytes: Uint8Array): OutputTensor {
  return new OutputTensor(name, dataTypeOf(name, datatype), shape, bytes, parameters)
}

function dataTypeOf(name: string, text: string): DataType {
  if (isDataType(text)) return text
  throw new InferenceError('PROTOCOL', `output '${name}' has the unknown type '${text}'`)
}

/** Numbers and strings of JSON → bytes; none when the output went to shared memory. */
function dataBytes({ name, datatype, data }: WireOutput): Uint8Array {
  if (data === undefined) return new Uint8Array(0)
  const dataType = dataTypeOf(name, datatype)
  if (!Array.isArray(data)) throw new InferenceError('PROTOCOL', `the data of output '${name}' is no list`)
  try {
    return encodeTensorData(name, data as TensorData, dataType).bytes
  } catch (reason) {
    const what = `output '${name}' of type ${dataType} cannot be read: ${messageOf(reason)}`
    throw new InferenceError('PROTOCOL', what, { cause: reason })
  }
}
