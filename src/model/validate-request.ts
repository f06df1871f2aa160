// The checks of every request of every protocol, with the error texts of Triton's core.
// HOT: once per request. No allocation unless something is wrong.

import { ServerError } from '../base/server-error.ts'
import { elementBytes } from '../tensor/data-type.ts'
import { elementCount, shapeText, type Shape } from '../tensor/shape.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { InferenceRequest } from './inference-request.ts'
import type { InputSpec, ModelSignature } from '../config/model-signature.ts'
import { worded } from './worded-error.ts'

/** Any client can cause refusals, one per request, so a refusal has no stack trace. */
const invalid = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)

/** Throws ServerError. Sets `request.batchSize`. */
export function validateRequest(request: InferenceRequest, signature: ModelSignature): void {
  validateNames(request, signature)
  const { inputs } = request
  for (let i = inputs.length - 1; i >= 0; i--) {
    const strings = checkTensor(request, signature, inputs[i] as Tensor)
    if (strings !== null) walkStrings(strings, Infinity)
  }
}

/** Strings per step. A step takes two to six milliseconds when all strings are empty. */
const stringsPerStep = 1_000_000

/**
 * Each string of a BYTES input has to be looked at, and 64 MiB hold sixteen million empty ones. Above this many bytes a
 * request is validated in steps, so that others are served in between.
 */
const longStringBytes = 4 * stringsPerStep

export function isLongToValidate({ inputs }: InferenceRequest): boolean {
  for (let i = 0; i < inputs.length; i++) {
    const { dataType, bytes } = inputs[i] as Tensor
    if (dataType === 'BYTES' && bytes.length > longStringBytes) return true
  }
  return false
}

/** The same as validateRequest, a few milliseconds at a time. */
export function* validateInSteps(request: InferenceRequest, signature: ModelSignature): Generator<void, void> {
  validateNames(request, signature)
  const { inputs } = request
  for (let i = inputs.length - 1; i >= 0; i--) {
    const strings = checkTensor(request, signature, inputs[i] as Tensor)
    if (strings === null) continue
    while (!walkStrings(strings, stringsPerStep)) yield
  }
}

function validateNames(request: InferenceRequest, signature: ModelSignature): void {
  const { modelName } = signature
  for (const name of request.requestedOutputs) {
    if (!signature.outputByName.has(name)) {
      throw worded('unexpectedOutput', { output: name, model: modelName })
    }
  }
  checkInputCount(request, signature)
  const inputs = request.inputs
  let batchSize = 0
  // Triton checks the inputs from last to first, so of several mistakes it reports the one of the last input.
  for (let i = inputs.length - 1; i >= 0; i--) {
    const tensor = inputs[i] as Tensor
    if (!signature.inputByName.has(tensor.name)) {
      throw worded('unexpectedInput', { input: tensor.name, model: modelName })
    }
    refuseEarlierOfTheName(request, i)
    if (signature.isBatching) batchSize = nextBatchSize(request, signature, tensor, batchSize)
  }
  if (batchSize > signature.maxBatchSize) {
    throw worded('batchTooLarge', {
      prefix: request.errorPrefix,
      model: modelName,
      most: signature.maxBatchSize,
      batchSize,
      shapes: inputs.map(({ name, shape }) => [name, shape]),
    })
  }
  request.batchSize = batchSize
}

function refuseEarlierOfTheName(request: InferenceRequest, index: number): void {
  const { inputs } = request
  const name = inputs[index]?.name
  for (let i = 0; i < index; i++) {
    if (inputs[i]?.name === name) throw invalid(`${request.errorPrefix}input '${name}' already exists in request`)
  }
}

function checkInputCount(request: InferenceRequest, signature: ModelSignature): void {
  const count = request.inputs.length
  const [least, most] = [signature.requiredInputCount, signature.inputs.length]
  if (count >= least && count <= most) return
  // A model that calls another one can name so many inputs, and more of them than it has.
  for (let i = 1; i < Math.min(count, most + 1); i++) refuseEarlierOfTheName(request, i)
  const given = request.inputs.map((tensor) => tensor.name)
  const missing = signature.inputs.filter((input) => !input.isOptional && !given.includes(input.name))
  throw worded('inputCount', {
    prefix: request.errorPrefix,
    model: signature.modelName,
    least,
    most,
    given,
    missing: missing.map(({ name }) => name),
  })
}

function nextBatchSize(
  request: InferenceRequest,
  signature: ModelSignature,
  tensor: Tensor,
  batchSize: number,
): number {
  const first = tensor.shape[0]
  if (first === undefined) {
    throw invalid(
      `${request.errorPrefix}input '${tensor.name}' has no shape but model requires batch dimension for ` +
        `'${signature.modelName}'`,
    )
  }
  if (batchSize !== 0 && first !== batchSize) {
    throw invalid(
      `${request.errorPrefix}input '${tensor.name}' batch size does not match other inputs for '${signature.modelName}'`,
    )
  }
  return first
}

/** Null when the input is fine; the strings of a BYTES input are still to be walked. */
function checkTensor(request: InferenceRequest, signature: ModelSignature, given: Tensor): StringWalk | null {
  const { modelName } = signature
  const spec = signature.inputByName.get(given.name) as InputSpec
  const tensor = spec.widensFloats && given.dataType === 'FP32' ? widened(request, given) : given
  if (tensor.dataType !== spec.dataType) {
    throw invalid(
      `${request.errorPrefix}inference input '${tensor.name}' data-type is '${tensor.dataType}', but model ` +
        `'${modelName}' expects '${spec.dataType}'`,
    )
  }
  const offset = signature.isBatching ? 1 : 0
  if (!matches(tensor.shape, spec.dims, offset)) {
    const expected = signature.isBatching ? [-1, ...spec.dims] : spec.dims
    throw worded('shape', {
      prefix: request.errorPrefix,
      input: tensor.name,
      model: modelName,
      expected,
      got: tensor.shape,
      isBatching: signature.isBatching,
    })
  }
  // For a batch of no rows Triton still expects the bytes of one row.
  const hasNoRows = signature.isBatching && tensor.shape[0] === 0
  const elements = elementCount(hasNoRows ? tensor.shape.slice(1) : tensor.shape)
  if (elements < 0) {
    throw invalid(
      `${request.errorPrefix}All input dimensions should be specified for input '${tensor.name}' for model ` +
        `'${modelName}', got ${shapeText(tensor.shape)}`,
    )
  }
  if (tensor.dataType === 'BYTES') {
    if (hasNoRows) throw noRows(request, modelName, tensor)
    return new StringWalk(request, modelName, tensor, elements)
  }
  const expectedBytes = elements * elementBytes[tensor.dataType]
  if (tensor.bytes.length !== expectedBytes) {
    throw invalid(
      `${request.errorPrefix}input byte size mismatch for input '${tensor.name}' for model '${modelName}'. Expected ` +
        `${expectedBytes}, got ${tensor.bytes.length}`,
    )
  }
  if (hasNoRows) throw noRows(request, modelName, tensor)
  return null
}

/** Above this many bytes of FP32 the copy would hold other requests up. */
const widenedBytesLimit = 2 ** 20

/** Every FP32 is an FP64, so no answer changes. Puts the wider tensor into the request. */
function widened(request: InferenceRequest, tensor: Tensor): Tensor {
  const { bytes, name, shape } = tensor
  if (bytes.length % 4 !== 0 || bytes.length > widenedBytesLimit) return tensor
  const floats = new Float32Array(bytes.length / 4)
  new Uint8Array(floats.buffer).set(bytes)
  const wider = new Tensor(name, 'FP64', shape, new Uint8Array(Float64Array.from(floats).buffer))
  request.inputs[request.inputs.indexOf(tensor)] = wider
  return wider
}

/** Its bytes would be read as rows of the other requests in its batch. */
const noRows = (request: InferenceRequest, modelName: string, tensor: Tensor): ServerError =>
  invalid(
    `${request.errorPrefix}inference request batch-size must be >= 1 for '${modelName}', but input '${tensor.name}' has ` +
      `shape ${shapeText(tensor.shape)}`,
  )

function matches(shape: Shape, dims: Shape, offset: number): boolean {
  if (shape.length !== dims.length + offset) return false
  for (let i = 0; i < dims.length; i++) {
    const expected = dims[i] as number
    if (expected !== -1 && expected !== shape[i + offset]) return false
  }
  return true
}

/** How far the strings of one input have been checked. */
class StringWalk {
  readonly request: InferenceRequest
  readonly modelName: string
  readonly tensor: Tensor
  readonly expectedCount: number
  count = 0
  at = 0

  constructor(request: InferenceRequest, modelName: string, tensor: Tensor, expectedCount: number) {
    this.request = request
    this.modelName = modelName
    this.tensor = tensor
    this.expectedCount = expectedCount
  }
}

/** Looks at `most` strings; true when that was the last of them. */
function walkStrings(walk: StringWalk, most: number): boolean {
  const { request, modelName, tensor, expectedCount } = walk
  const { bytes } = tensor
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const lastCount = walk.count + most
  let { count, at } = walk
  while (at < bytes.length) {
    if (count >= lastCount) {
      walk.count = count
      walk.at = at
      return false
    }
    const available = bytes.length - at
    if (available < 4) {
      throw invalid(
        `${request.errorPrefix}incomplete string length indicator for inference input '${tensor.name}' for model ` +
          `'${modelName}', expecting 4 bytes but only ${available} bytes available. Please make sure the string ` +
          'length indicator is in one buffer.',
      )
    }
    if (count >= expectedCount) {
      throw invalid(
        `${request.errorPrefix}unexpected number of string elements ${count + 1} for inference input ` +
          `'${tensor.name}' for model '${modelName}', expecting ${expectedCount}`,
      )
    }
    const length = view.getUint32(at, true)
    if (length > available - 4) {
      // Triton's core counts an element that is cut off; only the model notices that the element is incomplete.
      count++
      if (count !== expectedCount) break
      throw invalid(
        `incomplete string data for inference input '${tensor.name}', expecting string of length ${length} but only ` +
          `${available - 4} bytes available`,
      )
    }
    at += 4 + length
    count++
  }
  if (count !== expectedCount) {
    throw invalid(
      `${request.errorPrefix}expected ${expectedCount} string elements for inference input '${tensor.name}' for model ` +
        `'${modelName}', got ${count}`,
    )
  }
  return true
}
