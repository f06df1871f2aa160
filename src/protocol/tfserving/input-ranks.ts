// A value may stand for a row of one element: its shape gets ones behind it, which the model has. TensorFlow takes such a shape as it
// is, and answers with the same. So the ones are taken from the answer again.

import type { ModelSignature } from '../../config/model-signature.ts'
import { withOnes } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'

/** How many dimensions the inputs had, and how many they have now. */
export type InputRanks = { readonly given: number; readonly full: number }

/** `ranks`: null where the inputs came in the shapes of the model, or differ from each other. */
type ShapedInputs = { readonly inputs: Tensor[]; readonly ranks: InputRanks | null }

/** HOT: once per inference. */
export function inModelShapes(given: Tensor[], signature: ModelSignature): ShapedInputs {
  if (given.every((tensor) => tensor.shape.length >= rankOf(tensor.name, signature)))
    return { inputs: given, ranks: null }
  const inputs = given.map((tensor) => inModelShape(tensor, signature))
  const ranks = { given: given[0]?.shape.length ?? 0, full: inputs[0]?.shape.length ?? 0 }
  const isSameChange = inputs.every(
    ({ shape }, i) => shape.length === ranks.full && given[i]?.shape.length === ranks.given,
  )
  return { inputs, ranks: isSameChange && ranks.given < ranks.full ? ranks : null }
}

const rankOf = (name: string, { inputByName, isBatching }: ModelSignature): number =>
  (inputByName.get(name)?.dims.length ?? 0) + (isBatching ? 1 : 0)

function inModelShape(tensor: Tensor, { inputByName, isBatching }: ModelSignature): Tensor {
  const { name, dataType, shape, bytes } = tensor
  const dims = inputByName.get(name)?.dims ?? []
  const full = withOnes(shape, isBatching ? [-1, ...dims] : dims)
  return full === shape ? tensor : new Tensor(name, dataType, full, bytes)
}

/** The outputs; those of the rank that the inputs were brought to, in the rank that the inputs had. */
export function inGivenRank(outputs: readonly Tensor[], ranks: InputRanks | null): readonly Tensor[] {
  if (ranks === null) return outputs
  return outputs.map((output) => {
    const { name, dataType, shape, bytes } = output
    const isWidened = shape.length === ranks.full && shape.slice(ranks.given).every((size) => size === 1)
    return isWidened ? new Tensor(name, dataType, shape.slice(0, ranks.given), bytes) : output
  })
}
