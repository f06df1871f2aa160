import type { InferenceRequest } from '../model/inference-request.ts'
import type { ModelSignature } from '../model/model-signature.ts'
import type { Shape } from '../tensor/shape.ts'
import type { Tensor } from '../tensor/tensor.ts'

/**
 * Requests of one batch have the same optional inputs, and inputs with open dimensions have one shape beyond the batch
 * dimension, unless the configuration lets them be ragged. Null when every valid request of the model agrees anyway.
 */
export function joinRule(
  signature: ModelSignature,
  { acceptsRagged }: { acceptsRagged: boolean },
): ((first: InferenceRequest, next: InferenceRequest) => boolean) | null {
  const { inputs } = signature
  const hasOptional = inputs.some((input) => input.isOptional)
  const equalShaped = new Set(
    inputs
      .filter(({ dims, allowsRagged }) => dims.includes(-1) && !(allowsRagged && acceptsRagged))
      .map((input) => input.name),
  )
  if (!hasOptional && equalShaped.size === 0) return null
  return (first, next) => {
    if (first.inputs.length !== next.inputs.length) return false
    for (let i = 0; i < first.inputs.length; i++) {
      const a = first.inputs[i] as Tensor
      const b = namesake(next.inputs, i, a.name)
      if (b === undefined || (equalShaped.has(a.name) && !rowsEqual(a.shape, b.shape))) return false
    }
    return true
  }
}

/** Clients send their inputs in one order nearly always. */
function namesake(inputs: readonly Tensor[], index: number, name: string): Tensor | undefined {
  const likely = inputs[index]
  return likely?.name === name ? likely : inputs.find((input) => input.name === name)
}

function rowsEqual(a: Shape, b: Shape): boolean {
  if (a.length !== b.length) return false
  for (let i = 1; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}
