import { lengthClass, type BatchPadding, type PaddedInput } from '../config/batch-padding.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { ModelSignature } from '../config/model-signature.ts'
import type { Shape } from '../tensor/shape.ts'
import type { Tensor } from '../tensor/tensor.ts'

type JoinOptions = {
  /** Null or absent: nothing is padded. */
  readonly padding?: BatchPadding | null
}

/**
 * Requests of one batch must have the same optional inputs, and an input with open dimensions must have one shape
 * beyond the batch dimension, unless the configuration allows ragged inputs or pads them. Null: all valid requests of
 * the model fit together.
 */
export function joinRule(
  signature: ModelSignature,
  { padding = null }: JoinOptions = {},
): ((first: InferenceRequest, next: InferenceRequest) => boolean) | null {
  const { inputs } = signature
  const hasOptional = inputs.some((input) => input.isOptional)
  /** Null: the shapes must be equal. */
  const compared = new Map<string, PaddedInput | null>()
  for (const { name, dims, allowsRagged } of inputs) {
    if (!dims.includes(-1) || allowsRagged) continue
    compared.set(name, padding?.inputs.find((input) => input.name === name) ?? null)
  }
  if (!hasOptional && compared.size === 0) return null
  return (first, next) => {
    if (first.inputs.length !== next.inputs.length) return false
    for (let i = 0; i < first.inputs.length; i++) {
      const a = first.inputs[i] as Tensor
      const b = namesake(next.inputs, i, a.name)
      if (b === undefined) return false
      const padded = compared.get(a.name)
      if (padded !== undefined && !rowsFit(a.shape, b.shape, padded)) return false
    }
    return true
  }
}

/** Looks at `index` first, because clients nearly always send their inputs in one order. */
function namesake(inputs: readonly Tensor[], index: number, name: string): Tensor | undefined {
  const likely = inputs[index]
  return likely?.name === name ? likely : inputs.find((input) => input.name === name)
}

/** Equal beyond the batch dimension; the padded dimension after it is filled up. */
function rowsFit(a: Shape, b: Shape, padded: PaddedInput | null): boolean {
  if (a.length !== b.length) return false
  for (let i = 1; i < a.length; i++) {
    if (a[i] === b[i]) continue
    if (padded === null || padded.axis !== i) return false
    const [own = 0, other = 0] = [a[i], b[i]]
    if (lengthClass(padded.buckets, own) !== lengthClass(padded.buckets, other)) return false
  }
  return true
}
