// A ModelInferRequest → the fields of an inference request, with Triton's checks in Triton's order.

import { ServerError } from '../../base/server-error.ts'
import { idPrefix } from '../../model/id-prefix.ts'
import type { ParameterValue } from '../../model/parameters.ts'
import { worded } from '../../model/worded-error.ts'
import { isDataType, type DataType } from '../../tensor/data-type.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { encodeContents, encodeContentsInSteps } from './infer-contents.ts'
import type { WireInferRequest, WireInput, WireOutput, WireParameter, WireParameters } from './infer-request-reader.ts'

const emptyFinalParameter = 'triton_enable_empty_final_response'

type RequestParameters = {
  readonly custom: Map<string, ParameterValue>
  correlationId: bigint | string
  isSequenceStart: boolean
  isSequenceEnd: boolean
  priority: bigint
  timeoutUs: bigint
  wantsEmptyFinal: boolean
}

/** Where a tensor lies in a registered shared memory region. */
type SharedMemoryPlace = { readonly region: string; readonly offset: bigint; readonly byteSize: bigint }

export type OutputSelection = {
  readonly name: string
  /** 0: the tensor itself. */
  readonly classificationCount: number
  readonly sharedMemory: SharedMemoryPlace | null
}

const invalid = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)
const wrongType = (name: string, expected: string): ServerError =>
  invalid(`invalid value type for '${name}' parameter, expected ${expected}`)

const newParameters = (): RequestParameters => ({
  custom: new Map(),
  correlationId: 0n,
  isSequenceStart: false,
  isSequenceEnd: false,
  priority: 0n,
  timeoutUs: 0n,
  wantsEmptyFinal: false,
})
const noParameters = newParameters()

/** `isKept`: `custom` is not changed later, so all requests without parameters share one object. HOT. */
export function readRequestParameters(parameters: WireParameters | null, isKept: boolean): RequestParameters {
  if (parameters === null && isKept) return noParameters
  const read = newParameters()
  if (parameters === null) return read
  for (const [name, parameter] of parameters) readRequestParameter(name, parameter, read)
  return read
}

function readRequestParameter(name: string, parameter: WireParameter, read: RequestParameters): void {
  const { kind, value } = parameter
  switch (name) {
    case 'sequence_id':
      if (kind === 'int64_param') read.correlationId = BigInt.asUintN(64, value as bigint)
      else if (kind === 'string_param') read.correlationId = correlationText(value as string)
      else throw wrongType(name, 'int64_param or string_param.')
      return
    case 'sequence_start':
      read.isSequenceStart = boolOf(name, parameter)
      return
    case 'sequence_end':
      read.isSequenceEnd = boolOf(name, parameter)
      return
    case 'priority':
      if (kind !== 'int64_param' && kind !== 'uint64_param') {
        throw wrongType(name, 'int64_param or uint64_param.')
      }
      if ((value as bigint) < 0n) throw invalid("invalid value for 'priority', expected value >= 0.")
      read.priority = value as bigint
      return
    case 'timeout':
      if (kind !== 'int64_param') throw wrongType(name, 'int64_param.')
      read.timeoutUs = BigInt.asUintN(64, value as bigint)
      return
    case emptyFinalParameter:
      read.wantsEmptyFinal = boolOf(name, parameter)
      return
    default:
      if (name.startsWith('triton_')) {
        throw invalid(
          "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting " +
            `with 'triton_' are allowed: ${emptyFinalParameter}`,
        )
      }
      if (kind === 'not set' || kind === 'uint64_param') {
        throw wrongType(name, 'int64_param, bool_param, or string_param.')
      }
      read.custom.set(name, value)
  }
}

function boolOf(name: string, { kind, value }: WireParameter): boolean {
  if (kind !== 'bool_param') throw wrongType(name, 'bool_param.')
  return value as boolean
}

const longestCorrelationBytes = 128

function correlationText(text: string): string {
  if (Buffer.byteLength(text) > longestCorrelationBytes) {
    throw worded('unsupported', { text: 'string correlation ID cannot be longer than 128 characters' })
  }
  return text
}

type RequestInputs = {
  readonly tensors: Tensor[]
  /** Index of an input → where its bytes lie; its tensor has none yet. */
  readonly sharedMemory: ReadonlyMap<number, SharedMemoryPlace>
}

const noPlaces: ReadonlyMap<number, SharedMemoryPlace> = new Map()
const noBytes = new Uint8Array(0)

/** The bytes of inputs whose contents were read in steps, or the error of an input. */
export type DecodedContents = ReadonlyMap<WireInput, Uint8Array | ServerError>

/** Larger contents are read in steps, so that other requests are served meanwhile. */
const mostContentsAtOnce = 128 * 1024

export function hasLargeContents(request: WireInferRequest): boolean {
  let bytes = 0
  for (const { contents } of request.inputs) {
    if (contents !== null) for (const part of contents) bytes += part.length
  }
  return bytes > mostContentsAtOnce
}

/** Call it before `readInputs` for a request with large contents; other requests may run between the steps. */
export function* decodeContentsInSteps(request: WireInferRequest, modelName: string): Generator<void, DecodedContents> {
  const decoded = new Map<WireInput, Uint8Array | ServerError>()
  // Typed contents beside raw contents or a region are refused later, so they are not read.
  if (request.rawContentsCount > 0) return decoded
  for (const input of request.inputs) {
    if (input.contents === null || input.parameters?.has('shared_memory_region') === true) continue
    try {
      decoded.set(input, yield* encodeContentsInSteps(input.contents, input.dataType, inputOf(input, modelName)))
    } catch (reason) {
      decoded.set(input, ServerError.from(reason))
      // The request is refused for this input, or for an earlier mistake.
      break
    }
  }
  return decoded
}

const inputOf = ({ name }: WireInput, modelName: string): string => `input tensor '${name}' for model '${modelName}'`

/** The tensors of the request. Raw contents are views on the message. */
export function readInputs(
  request: WireInferRequest,
  modelName: string,
  decoded: DecodedContents | null = null,
): RequestInputs {
  refuseRepeatedNames(request)
  const tensors: Tensor[] = []
  let sharedMemory: Map<number, SharedMemoryPlace> | null = null
  let rawIndex = 0
  for (const input of request.inputs) {
    const place = readSharedMemoryPlace(input.name, input.parameters)
    let bytes: Uint8Array
    if (place !== null) {
      if (input.contents !== null) {
        throw invalid(
          `unexpected 'content' provided when using shared memory for input tensor '${input.name}' for model ` +
            `'${modelName}'`,
        )
      }
      sharedMemory ??= new Map()
      sharedMemory.set(tensors.length, place)
      bytes = noBytes
    } else if (input.contents !== null) {
      if (request.rawContentsCount > 0) {
        throw invalid(
          `contents field must not be specified when using raw_input_contents for '${input.name}' for model ` +
            `'${modelName}'`,
        )
      }
      const known = decoded?.get(input)
      if (known instanceof ServerError) throw known
      bytes = known ?? encodeContents(input.contents, input.dataType, inputOf(input, modelName))
    } else {
      const raw = request.rawContents[rawIndex++]
      if (raw === undefined) {
        throw invalid(`unable to find data for input tensor '${input.name}' for model '${modelName}' in request.`)
      }
      bytes = raw
    }
    tensors.push(tensorOf(input, bytes))
  }
  return { tensors, sharedMemory: sharedMemory ?? noPlaces }
}

/** Triton adds all inputs to its request before it looks for the bytes of one. */
function refuseRepeatedNames({ inputs, id }: WireInferRequest): void {
  for (let i = 1; i < inputs.length; i++) {
    const { name } = inputs[i] as WireInput
    for (let j = 0; j < i; j++) {
      if (inputs[j]?.name !== name) continue
      throw invalid(`${idPrefix(id)}input '${name}' already exists in request`)
    }
  }
}

function tensorOf(input: WireInput, bytes: Uint8Array): Tensor {
  // An unknown type gets Triton's name for it; the check against the model refuses it later.
  const dataType = isDataType(input.dataType) ? input.dataType : ('<invalid>' as DataType)
  return new Tensor(input.name, dataType, input.shape, bytes)
}

export function readOutputSelections(outputs: readonly WireOutput[]): OutputSelection[] {
  const selections: OutputSelection[] = []
  for (const { name, parameters } of outputs) {
    const sharedMemory = readSharedMemoryPlace(name, parameters)
    const classificationCount = readClassification(parameters)
    if (sharedMemory !== null && classificationCount > 0) {
      throw invalid("output can't set both 'shared_memory_region' and 'classification'")
    }
    selections.push({ name, classificationCount, sharedMemory })
  }
  return selections
}

function readClassification(parameters: WireParameters | null): number {
  const parameter = parameters?.get('classification')
  if (parameter === undefined) return 0
  if (parameter.kind !== 'int64_param') throw wrongType('classification', 'int64_param')
  const count = parameter.value as bigint
  // In the words of Triton, which does not take zero either.
  if (count <= 0n) throw invalid("invalid value for 'classification' parameter, expected >= 0")
  return Number(count > 0x7fffffffn ? 0x7fffffffn : count)
}

function readSharedMemoryPlace(tensor: string, parameters: WireParameters | null): SharedMemoryPlace | null {
  if (parameters === null) return null
  const region = parameters.get('shared_memory_region')
  if (region === undefined) {
    for (const name of ['shared_memory_offset', 'shared_memory_byte_size']) {
      if (!parameters.has(name)) continue
      throw invalid(`'${name}' can not be specified without 'shared_memory_region' parameter for tensor '${tensor}'`)
    }
    return null
  }
  const ofTensor = (name: string, expected: string): ServerError =>
    invalid(`invalid value type for '${name}' parameter for tensor '${tensor}', expected ${expected}.`)
  if (region.kind !== 'string_param') throw ofTensor('shared_memory_region', 'string_param')
  const numberOf = (name: string): bigint => {
    const parameter = parameters.get(name)
    if (parameter === undefined) return 0n
    if (parameter.kind !== 'int64_param') throw ofTensor(name, 'int64_param')
    return parameter.value as bigint
  }
  const offset = numberOf('shared_memory_offset')
  if (!parameters.has('shared_memory_byte_size')) {
    throw invalid(
      `'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor '${tensor}'`,
    )
  }
  return { region: region.value as string, offset, byteSize: numberOf('shared_memory_byte_size') }
}
