import { ServerError } from '../base/server-error.ts'
import type { InputSpec, ModelSignature } from '../config/model-signature.ts'
import { idPrefix } from '../model/id-prefix.ts'
import { worded } from '../model/worded-error.ts'
import { elementBytes } from '../tensor/data-type.ts'
import { elementCount, type Shape } from '../tensor/shape.ts'
import { Tensor } from '../tensor/tensor.ts'
import { bytesElement } from './bytes-element.ts'
import type { ParsedInfer } from './parsed-infer.ts'
import type { RequestLimits } from './request-limits.ts'

const noId = idPrefix('')

const refuse = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', noId + message)

/** Reads a body without JSON: it is the only input, and its shape follows from its size. Outputs are binary. */
export function readRawInferRequest(body: Uint8Array, signature: ModelSignature, limits: RequestLimits): ParsedInfer {
  if (body.length > limits.maxInputBytes) {
    throw ServerError.withoutStack(
      'INVALID_ARG',
      `Raw input has a byte_size (${body.length} bytes) that exceeds the maximum allowed value of ${limits.maxInputBytes} bytes. ` +
        'Use --http-max-input-size to increase the limit.',
    )
  }
  const { modelName, inputs } = signature
  const spec = inputs[0]
  if (spec === undefined || inputs.length !== 1) {
    throw worded('rawInputs', { prefix: noId, count: inputs.length, model: modelName })
  }
  const shape = deduceShape(body.length, spec, signature.isBatching)
  const bytes = spec.dataType === 'BYTES' ? bytesElement([body]) : body
  if (spec.dataType !== 'BYTES') {
    const expected = elementCount(shape) * elementBytes[spec.dataType]
    if (expected !== body.length) {
      throw worded('rawSize', { prefix: noId, model: modelName, input: spec.name, expected, found: body.length })
    }
  }
  return {
    id: '',
    parameters: new Map(),
    correlationId: 0n,
    isSequenceStart: false,
    isSequenceEnd: false,
    priority: 0n,
    timeoutUs: 0n,
    inputs: [new Tensor(spec.name, spec.dataType, shape, bytes)],
    sharedMemoryInputs: new Map(),
    outputs: [],
    binaryOutputDefault: true,
  }
}

function deduceShape(bodyBytes: number, spec: InputSpec, isBatching: boolean): Shape {
  const shape = isBatching ? [1, ...spec.dims] : [...spec.dims]
  const open = shape.indexOf(-1)
  if (open >= 0 && shape.includes(-1, open + 1)) {
    throw refuse(
      `The shape of the raw input '${spec.name}' can not be deduced because there are more than one variable-sized dimension`,
    )
  }
  const fixedCount = elementCount(shape.filter((size) => size >= 0))
  if (spec.dataType === 'BYTES') {
    if (open >= 0 || fixedCount !== 1) {
      throw refuse(`For BYTE datatype raw input '${spec.name}', the model must have input shape [1]`)
    }
  } else if (open >= 0) {
    shape[open] = Math.floor(Math.floor(bodyBytes / fixedCount) / elementBytes[spec.dataType])
  }
  return shape
}
