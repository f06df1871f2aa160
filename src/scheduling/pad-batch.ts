// Pads the inputs of requests that are about to run together, and cuts back their outputs. See batch-padding.ts.

import { paddedLength, type BatchPadding, type CutOutput, type PaddedInput } from '../config/batch-padding.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import { elementBytes } from '../tensor/data-type.ts'
import { cutAxis, padInto, resized } from '../tensor/pad.ts'
import { elementCount } from '../tensor/shape.ts'
import { Tensor } from '../tensor/tensor.ts'

/** The length of an input in a request, and the length that it was padded to. */
type Stretch = { readonly own: number; readonly padded: number }

/**
 * Writes each input of the whole batch into one buffer, request after request: a backend that gathers the inputs finds
 * them gathered. 1 copy.
 */
export function padBatch(padding: BatchPadding, requests: readonly InferenceRequest[]): void {
  const stretches = requests.map(() => new Map<string, Stretch>())
  for (const input of padding.inputs) padInput(input, requests, stretches)
  for (const [index, request] of requests.entries()) {
    const own = stretches[index] as Map<string, Stretch>
    if ([...own.values()].every((stretch) => stretch.own === stretch.padded)) continue
    request.setStage('trim', { pass: (response) => cutBack(padding.outputs, own, response) })
  }
}

function padInput(
  { name, dataType, axis, fill, buckets }: PaddedInput,
  requests: readonly InferenceRequest[],
  stretches: readonly Map<string, Stretch>[],
): void {
  const positions = requests.map((request) => request.inputs.findIndex((input) => input.name === name))
  const tensors = requests.map((request, i) => request.inputs[positions[i] ?? -1])
  const lengths = tensors.map((tensor) => tensor?.shape[axis] ?? 0)
  const longest = Math.max(...lengths)
  const sizes = lengths.map((length) => paddedLength(buckets, length, longest))
  for (const [i, tensor] of tensors.entries()) {
    if (tensor !== undefined) stretches[i]?.set(name, { own: lengths[i] as number, padded: sizes[i] as number })
  }
  if (sizes.every((size, i) => size === lengths[i])) return
  const shapes = tensors.map((tensor, i) =>
    tensor === undefined ? [0] : resized(tensor.shape, axis, sizes[i] as number),
  )
  const target = Buffer.allocUnsafe(
    shapes.reduce((sum, shape) => sum + elementCount(shape), 0) * elementBytes[dataType],
  )
  let at = 0
  for (const [i, tensor] of tensors.entries()) {
    if (tensor === undefined) continue
    const size = sizes[i] as number
    const written = padInto(target, at, tensor.bytes, tensor.shape, dataType, { axis, size, fill })
    const bytes = target.subarray(at, at + written)
    const request = requests[i] as InferenceRequest
    request.inputs = request.inputs.with(
      positions[i] as number,
      new Tensor(name, dataType, shapes[i] as number[], bytes),
    )
    at += written
  }
}

function cutBack(
  cuts: readonly CutOutput[],
  stretches: ReadonlyMap<string, Stretch>,
  response: InferenceResponse,
): InferenceResponse {
  if (response.outputs.length === 0) return response
  let isCut = false
  const outputs = response.outputs.map((output) => {
    const cut = cuts.find((each) => each.name === output.name)
    const stretch = cut === undefined ? undefined : stretches.get(cut.input)
    if (cut === undefined || stretch === undefined || stretch.own === stretch.padded) return output
    // A dimension of another size is not the padded dimension.
    if (output.shape[cut.axis] !== stretch.padded) return output
    isCut = true
    const { name, dataType, shape, bytes } = output
    const cutBytes = cutAxis(bytes, shape, dataType, cut.axis, stretch.own)
    return new Tensor(name, dataType, resized(shape, cut.axis, stretch.own), cutBytes)
  })
  return isCut ? response.withOutputs(outputs) : response
}
