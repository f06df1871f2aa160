// `reshape` in a ModelConfig: clients see `dims`, the model sees `reshape.shape`. Only shapes change, never bytes.

import type { Shape } from '../tensor/shape.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { InferenceRequest } from './inference-request.ts'
import type { InferenceResponse } from './inference-response.ts'
import type { ModelSignature } from '../config/model-signature.ts'

/** Puts the sizes of `shape`'s open dimensions (where `from` has -1) into the open dimensions of `to`, in order. */
function reshaped(shape: Shape, from: Shape, to: Shape, batchRank: 0 | 1): Shape {
  const open: number[] = []
  for (let i = 0; i < from.length; i++) if (from[i] === -1) open.push(shape[i + batchRank] ?? 1)
  let next = 0
  const result = to.map((size) => (size === -1 ? (open[next++] ?? 1) : size))
  return batchRank === 1 ? [shape[0] ?? 1, ...result] : result
}

export function reshapeInputs(request: InferenceRequest, signature: ModelSignature): void {
  if (!signature.hasReshape) return
  const batchRank = signature.isBatching ? 1 : 0
  request.inputs = request.inputs.map((tensor) => {
    const spec = signature.inputByName.get(tensor.name)
    if (spec === undefined || spec.reshape === null) return tensor
    const shape = reshaped(tensor.shape, spec.dims, spec.reshape, batchRank)
    return new Tensor(tensor.name, tensor.dataType, shape, tensor.bytes)
  })
}

export function reshapeOutputs(response: InferenceResponse, signature: ModelSignature): InferenceResponse {
  if (!signature.hasReshape || response.outputs.length === 0) return response
  const batchRank = signature.isBatching ? 1 : 0
  return response.withOutputs(
    response.outputs.map((tensor) => {
      const spec = signature.outputByName.get(tensor.name)
      if (spec === undefined || spec.reshape === null || tensor.shape.length !== spec.reshape.length + batchRank) {
        return tensor
      }
      const shape = reshaped(tensor.shape, spec.reshape, spec.dims, batchRank)
      return new Tensor(tensor.name, tensor.dataType, shape, tensor.bytes)
    }),
  )
}
