import { elementBytes } from '../../tensor/data-type.ts'
import { elementCount, shapeText, type Shape } from '../../tensor/shape.ts'
import type { ParameterValue } from '../../model/parameters.ts'
import { describe, splitByteElements } from './element-arrays.ts'
import { InferenceError } from './inference-error.ts'
import { ModelTensor } from './model-tensor.ts'
import type { ExpectedOutput } from './worker-protocol.ts'

type ResponseParameters = Readonly<Record<string, ParameterValue>> | ReadonlyMap<string, ParameterValue>

/** One answer of a model: its outputs, alone or with parameters for the client. */
export type ModelResponse =
  readonly ModelTensor[] | { readonly outputs: readonly ModelTensor[]; readonly parameters?: ResponseParameters }

type CheckedResponse = {
  readonly outputs: readonly ModelTensor[]
  readonly parameters: ReadonlyMap<string, ParameterValue> | null
}

/** Turns the answer of a model into a response, or into an InferenceError that says what is wrong. */
export function checkResponse(
  response: unknown,
  expected: ReadonlyMap<string, ExpectedOutput>,
  isBatching: boolean,
  requestedOutputs: readonly string[],
): CheckedResponse {
  const isList = Array.isArray(response)
  if (!isList && (typeof response !== 'object' || response === null || !('outputs' in response))) {
    throw new InferenceError(`expected a response (an array of tensors, or { outputs }), got ${describe(response)}`)
  }
  const tensors: unknown = isList ? response : response.outputs
  if (!Array.isArray(tensors)) throw new InferenceError(`outputs must be an array of tensors, got ${describe(tensors)}`)
  const names = new Set<string>()
  const outputs: ModelTensor[] = []
  for (const [index, tensor] of tensors.entries()) {
    const output = checkOutput(index, tensor, expected, isBatching)
    if (names.has(output.name)) throw new InferenceError(`output '${output.name}' is in the response twice`)
    names.add(output.name)
    if (requestedOutputs.length === 0 || requestedOutputs.includes(output.name)) outputs.push(output)
  }
  const parameters = isList || !('parameters' in response) ? null : checkParameters(response.parameters)
  return { outputs, parameters }
}

function checkOutput(
  index: number,
  tensor: unknown,
  expected: ReadonlyMap<string, ExpectedOutput>,
  isBatching: boolean,
): ModelTensor {
  if (!(tensor instanceof ModelTensor)) {
    throw new InferenceError(
      `output ${index} is ${describe(tensor)}, expected a tensor made with tensor(name, dataType, shape, values)`,
    )
  }
  const spec = expected.get(tensor.name)
  if (spec === undefined) {
    const known = [...expected.keys()].map((name) => `'${name}'`).join(', ')
    throw new InferenceError(`output '${tensor.name}' is not in the model's configuration, which has ${known}`)
  }
  if (tensor.dataType !== spec.dataType) {
    throw new InferenceError(`output '${tensor.name}': expected datatype ${spec.dataType}, got ${tensor.dataType}`)
  }
  if (!shapeFits(tensor.shape, spec.dims, isBatching)) {
    const wanted = shapeText(isBatching ? [-1, ...spec.dims] : spec.dims)
    throw new InferenceError(`output '${tensor.name}': expected shape ${wanted}, got ${shapeText(tensor.shape)}`)
  }
  if (!tensor.shape.every((size) => Number.isSafeInteger(size) && size >= 0)) {
    throw new InferenceError(`output '${tensor.name}': ${shapeText(tensor.shape)} is not a shape`)
  }
  checkSize(tensor)
  return tensor
}

function shapeFits(shape: Shape, dims: Shape, isBatching: boolean): boolean {
  const skipped = isBatching ? 1 : 0
  if (shape.length !== dims.length + skipped) return false
  return dims.every((size, index) => size === -1 || size === shape[index + skipped])
}

function checkSize(tensor: ModelTensor): void {
  const buffer: ArrayBufferLike = tensor.bytes.buffer
  if (buffer instanceof ArrayBuffer && buffer.detached) {
    throw new InferenceError(
      `output '${tensor.name}': its memory was handed over with an earlier response; make a new array for every response`,
    )
  }
  if (tensor.dataType === 'BYTES') {
    const count = splitByteElements(tensor.bytes).length
    if (count === tensor.elementCount) return
    throw new InferenceError(`output '${tensor.name}': expected ${tensor.elementCount} elements, got ${count}`)
  }
  const expected = elementCount(tensor.shape) * elementBytes[tensor.dataType]
  if (tensor.bytes.byteLength !== expected) {
    const type = `${tensor.dataType} of shape ${shapeText(tensor.shape)}`
    throw new InferenceError(`output '${tensor.name}': ${type} takes ${expected} bytes, got ${tensor.bytes.byteLength}`)
  }
}

function checkParameters(parameters: unknown): ReadonlyMap<string, ParameterValue> | null {
  if (parameters === undefined || parameters === null) return null
  if (typeof parameters !== 'object') {
    throw new InferenceError(`response parameters must be an object or a Map, got ${describe(parameters)}`)
  }
  const entries: Iterable<[unknown, unknown]> = parameters instanceof Map ? parameters : Object.entries(parameters)
  const checked = new Map<string, ParameterValue>()
  for (const [key, value] of entries) {
    if (typeof key !== 'string')
      throw new InferenceError(`response parameter names must be strings, got ${describe(key)}`)
    if (typeof value === 'string' || typeof value === 'boolean' || typeof value === 'bigint') checked.set(key, value)
    // JavaScript has one type for integers and doubles; the wire has two.
    else if (typeof value === 'number') checked.set(key, Number.isSafeInteger(value) ? BigInt(value) : value)
    else
      throw new InferenceError(
        `response parameter '${key}': expected string, number, bigint or boolean, got ${describe(value)}`,
      )
  }
  return checked
}
