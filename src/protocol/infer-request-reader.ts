// The body of Triton's HTTP infer endpoint → an inference request. Checks come in Triton's order; the first error counts.

import { ServerError } from '../base/server-error.ts'
import { idPrefix } from '../model/id-prefix.ts'
import type { ParameterValue, Parameters } from '../model/parameters.ts'
import type { ModelSignature } from '../config/model-signature.ts'
import { worded } from '../model/worded-error.ts'
import { isDataType, type DataType } from '../tensor/data-type.ts'
import { shapeText, type Shape } from '../tensor/shape.ts'
import { Tensor } from '../tensor/tensor.ts'
import {
  jsonElementCount,
  scanInferRequest,
  type InferDraft,
  type InputDraft,
  type Member,
  type OutputDraft,
  type TensorParameters,
} from './infer-request-scan.ts'
import { JsonScanner } from './json-scanner.ts'
import { asBoolean, asString, asUnsigned, missingMember, notAnArray } from './json-access.ts'
import type { OutputSelection, ParsedInfer, SharedMemoryReference } from './parsed-infer.ts'
import { readRawInferRequest } from './raw-infer-request.ts'
import { idTooLong, type RequestLimits } from './request-limits.ts'
import { isJsonType, noBytes, readTensorData } from './tensor-data-reader.ts'

export type InferReadOptions = {
  /** The value of `Inference-Header-Content-Length`, null without one; 0 means that the body is one raw tensor. */
  readonly headerLength: number | null
  readonly signature: ModelSignature
  readonly limits: RequestLimits
}

type RequestParameters = Pick<
  ParsedInfer,
  | 'parameters'
  | 'correlationId'
  | 'isSequenceStart'
  | 'isSequenceEnd'
  | 'priority'
  | 'timeoutUs'
  | 'binaryOutputDefault'
>

const invalidArgument = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)

/** Core's prefix of request errors. */

export function readInferRequest(body: Uint8Array, options: InferReadOptions): ParsedInfer {
  const { signature, limits } = options
  const jsonLength = options.headerLength ?? body.length
  if (jsonLength === 0) return readRawInferRequest(body, signature, limits)
  if (jsonLength < 0 || jsonLength > body.length) {
    throw invalidArgument(`inference header size should be in range (0, ${body.length}), got: ${jsonLength}`)
  }
  if (jsonLength > limits.maxInputBytes) {
    throw invalidArgument(
      `request JSON size of ${jsonLength} bytes exceeds the maximum allowed input size of ${limits.maxInputBytes} bytes. ` +
        'Use --http-max-input-size to increase the limit.',
    )
  }
  const scanner = new JsonScanner(body, jsonLength)
  const draft = scanInferRequest(scanner, limits)
  const id = readId(draft.id, limits)
  const parameters = readParameters(draft.parameters)
  const inputs = new InputsReader(scanner, body, jsonLength, id, options).read(draft)
  const outputs = readOutputs(draft.outputs)
  inputs.checkTypes()
  return {
    id,
    parameters: parameters.parameters,
    correlationId: parameters.correlationId,
    isSequenceStart: parameters.isSequenceStart,
    isSequenceEnd: parameters.isSequenceEnd,
    priority: parameters.priority,
    timeoutUs: parameters.timeoutUs,
    inputs: inputs.tensors,
    sharedMemoryInputs: inputs.sharedMemory,
    outputs,
    binaryOutputDefault: parameters.binaryOutputDefault,
  }
}

function readId(value: Member, limits: RequestLimits): string {
  if (value === undefined) return ''
  const id = asString(value, 'id')
  // A string of n code units takes at least n bytes and at most 3n.
  if (id.length * 3 > limits.maxIdBytes) {
    const bytes = Buffer.byteLength(id)
    if (bytes > limits.maxIdBytes) throw idTooLong(bytes, limits.maxIdBytes)
  }
  return id
}

const noParameters: Parameters = new Map()
const defaultParameters: RequestParameters = {
  parameters: noParameters,
  correlationId: 0n,
  isSequenceStart: false,
  isSequenceEnd: false,
  priority: 0n,
  timeoutUs: 0n,
  binaryOutputDefault: false,
}

const maxInt64 = 2n ** 63n - 1n
const maxCorrelationIdLength = 128

function readParameters(members: InferDraft['parameters']): RequestParameters {
  if (members === null) return defaultParameters
  if (members === 'not an object') {
    throw worded('notAnObject', { prefix: 'failed to get request params.: ', what: "'parameters'" })
  }
  const custom = new Map<string, ParameterValue>()
  const found = { ...defaultParameters, parameters: custom as Parameters }
  const seen = new Set<string>()
  for (const [name, value] of members) {
    if (seen.has(name)) continue
    seen.add(name)
    if (name === 'sequence_id') found.correlationId = readCorrelationId(value, name)
    else if (name === 'sequence_start') found.isSequenceStart = asBoolean(value, name)
    else if (name === 'sequence_end') found.isSequenceEnd = asBoolean(value, name)
    else if (name === 'priority') found.priority = asUnsigned(value, name)
    else if (name === 'timeout') found.timeoutUs = asUnsigned(value, name)
    else if (name === 'binary_data_output') found.binaryOutputDefault = asBoolean(value, name)
    else custom.set(name, readCustomParameter(name, value))
  }
  return found
}

function readCorrelationId(value: Member, name: string): bigint | string {
  if (typeof value === 'bigint' && value >= 0n) return value
  const text = asString(value, name)
  if (Buffer.byteLength(text) > maxCorrelationIdLength) {
    throw worded('unsupported', { text: 'string correlation ID cannot be longer than 128 characters' })
  }
  return text
}

function readCustomParameter(name: string, value: Member): ParameterValue {
  if (name.startsWith('triton_')) {
    throw invalidArgument(
      "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
    )
  }
  if (typeof value === 'bigint') return value <= maxInt64 ? value : Number(value)
  if (typeof value === 'string' || typeof value === 'boolean' || typeof value === 'number') return value
  throw invalidArgument(`parameter '${name}' has invalid type. It should be either 'int', 'bool', or 'string'.`)
}

class InputsReader {
  readonly #scanner: JsonScanner
  readonly #body: Uint8Array
  readonly #id: string
  readonly #signature: ModelSignature
  readonly #limits: RequestLimits
  /** Where the next binary tensor starts. */
  #offset: number
  readonly tensors: Tensor[] = []
  readonly sharedMemory = new Map<number, SharedMemoryReference>()
  /** As in Triton an input of an unknown datatype passes here, unless its elements are JSON; `checkTypes` refuses it. */
  #unknownType: string | null = null

  constructor(scanner: JsonScanner, body: Uint8Array, offset: number, id: string, options: InferReadOptions) {
    this.#scanner = scanner
    this.#body = body
    this.#offset = offset
    this.#id = id
    this.#signature = options.signature
    this.#limits = options.limits
  }

  read(draft: InferDraft): this {
    if (draft.inputs === 'absent') throw missingMember('inputs', draft.other)
    if (draft.inputs === 'not an array') throw notAnArray('inputs')
    for (const input of draft.inputs) this.#readInput(input)
    if (this.#offset !== this.#body.length) {
      throw invalidArgument(`unexpected additional input data for model '${this.#signature.modelName}'`)
    }
    return this
  }

  /** The check of Triton's core, after all checks of the protocol. It is here because a Tensor must have a known type. */
  checkTypes(): void {
    if (this.#unknownType !== null) throw this.#typeMismatch(this.#unknownType)
  }

  #readInput(input: InputDraft): void {
    const parameters = input.parameters
    checkContentKind(input, parameters)
    if (input.name === undefined) throw missingMember('name')
    const name = asString(input.name, 'name')
    if (input.dataType === undefined) throw missingMember('datatype')
    const typeName = asString(input.dataType, 'datatype')
    const shape = readShape(input, name)
    for (const tensor of this.tensors) {
      if (tensor.name === name) throw invalidArgument(`${idPrefix(this.#id)}input '${name}' already exists in request`)
    }
    const dataType = isDataType(typeName) ? typeName : null
    const bytes = this.#readBytes(input, parameters, name, dataType, shape)
    if (dataType === null) this.#unknownType ??= name
    this.tensors.push(new Tensor(name, dataType ?? 'BYTES', shape, bytes))
  }

  #readBytes(
    input: InputDraft,
    parameters: TensorParameters | null,
    name: string,
    dataType: DataType | null,
    shape: Shape,
  ): Uint8Array {
    if (parameters !== null && parameters.binaryDataSize !== undefined) {
      return this.#takeBinary(name, asUnsigned(parameters.binaryDataSize, 'binary_data_size'))
    }
    const sharedMemory = readSharedMemory(parameters)
    if (sharedMemory !== null) {
      this.sharedMemory.set(this.tensors.length, sharedMemory)
      return noBytes
    }
    return this.#readJson(input, name, dataType, shape)
  }

  #takeBinary(name: string, byteSize: bigint): Uint8Array {
    const available = this.#body.length - this.#offset
    if (byteSize > BigInt(available)) {
      const missing = byteSize - BigInt(available)
      throw invalidArgument(
        `unexpected size for input '${name}', expecting ${missing} additional bytes for model '${this.#signature.modelName}'`,
      )
    }
    const start = this.#offset
    this.#offset = start + Number(byteSize)
    return this.#body.subarray(start, this.#offset)
  }

  #readJson(input: InputDraft, name: string, dataType: DataType | null, shape: Shape): Uint8Array {
    const count = jsonElementCount(shape)
    if (count === 0) return noBytes
    if (count === Infinity) return this.#refuseCount(name, shape)
    if (!input.isDataArray) throw notAnArray('data')
    if (dataType === null) throw worded('unknownDataType', { input: name })
    if (!isJsonType(dataType)) {
      throw invalidArgument(
        `receiving ${dataType} data via JSON is not supported. Please use the binary data format for input ${name}`,
      )
    }
    let data = input.data
    if (data === null) {
      this.#scanner.position = input.dataStart
      data = readTensorData(this.#scanner, name, dataType, count, this.#limits.maxInputBytes)
    }
    if (data.error !== null) throw data.error
    return data.bytes
  }

  /** For more elements than can be counted. When the shape does not fit the model, core's message tells more. */
  #refuseCount(name: string, shape: Shape): Uint8Array {
    const spec = this.#signature.inputByName.get(name)
    const dims = spec === undefined ? null : this.#signature.isBatching ? [-1, ...spec.dims] : spec.dims
    const fits = dims !== null && dims.length === shape.length && dims.every((size, i) => size < 0 || size === shape[i])
    if (!fits) return noBytes
    throw invalidArgument(
      `invalid shape for input '${name}': shape ${shapeText(shape)} causes total element count to exceed maximum size of 9223372036854775807`,
    )
  }

  #typeMismatch(name: string): ServerError {
    const { modelName, inputByName } = this.#signature
    const expected = inputByName.get(name)
    if (expected === undefined) return worded('unexpectedInput', { input: name, model: modelName })
    return invalidArgument(
      `${idPrefix(this.#id)}inference input '${name}' data-type is '<invalid>', but model '${modelName}' expects '${expected.dataType}'`,
    )
  }
}

function checkContentKind(input: InputDraft, parameters: TensorParameters | null): void {
  const set: string[] = []
  if (input.dataStart >= 0) set.push(" 'data'")
  if (parameters !== null && parameters.binaryDataSize !== undefined) set.push(" 'binary_data_size'")
  if (parameters !== null && parameters.sharedMemoryRegion !== undefined) set.push(" 'shared_memory_region'")
  if (set.length === 1) return
  throw invalidArgument(
    "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', " +
      `'shared_memory_region' in 'parameters'. But${set.length === 0 ? ' no field is set' : ` set${set.join('')}`}`,
  )
}

function readShape(input: InputDraft, name: string): Shape {
  const { shape } = input
  if (shape === 'absent') throw missingMember('shape')
  if (shape === 'not an array') throw worded('shapeKind', { input: name, kind: 'array' })
  if (shape === 'invalid') throw worded('shapeKind', { input: name, kind: 'unsigned-integer' })
  for (const size of shape) {
    if (size > Number.MAX_SAFE_INTEGER) {
      throw invalidArgument(
        `invalid shape for input '${name}': shape ${shapeText(shape)} contains one or more invalid dimensions`,
      )
    }
  }
  return shape
}

function readSharedMemory(parameters: TensorParameters | null): SharedMemoryReference | null {
  if (parameters === null) return null
  const { sharedMemoryRegion, sharedMemoryOffset, sharedMemoryByteSize } = parameters
  const region = sharedMemoryRegion === undefined ? null : asString(sharedMemoryRegion, 'shared_memory_region')
  const offset = sharedMemoryOffset === undefined ? 0n : asUnsigned(sharedMemoryOffset, 'shared_memory_offset')
  const byteSize = sharedMemoryByteSize === undefined ? 0n : asUnsigned(sharedMemoryByteSize, 'shared_memory_byte_size')
  return region === null ? null : { region, offset, byteSize }
}

function readOutputs(drafts: InferDraft['outputs']): OutputSelection[] {
  if (drafts === 'absent') return []
  if (drafts === 'not an array') throw notAnArray('outputs')
  const outputs: OutputSelection[] = []
  for (const draft of drafts) {
    const output = readOutput(draft)
    if (!outputs.some((other) => other.name === output.name)) outputs.push(output)
  }
  return outputs
}

function readOutput(draft: OutputDraft): OutputSelection {
  const { parameters } = draft
  if (parameters !== null && parameters.sharedMemoryRegion !== undefined) {
    if (parameters.classification !== undefined) {
      throw invalidArgument("Output can't set both 'shared_memory_region' and 'classification'")
    }
    if (parameters.binaryData !== undefined && asBoolean(parameters.binaryData, 'binary_data', 'set')) {
      throw invalidArgument("Output can't set both 'shared_memory_region' and 'binary_data'")
    }
  }
  if (draft.name === undefined) throw missingMember('name')
  const name = asString(draft.name, 'name')
  if (parameters === null) return { name, isBinary: false, classificationCount: 0, sharedMemory: null }
  const classes =
    parameters.classification === undefined ? 0n : asUnsigned(parameters.classification, 'classification', 'set')
  const sharedMemory = readSharedMemory(parameters)
  const isBinary = parameters.binaryData === undefined ? false : asBoolean(parameters.binaryData, 'binary_data')
  // Triton keeps 32 bits: 2^32 classes are none.
  return { name, isBinary, classificationCount: Number(BigInt.asUintN(32, classes)), sharedMemory }
}
