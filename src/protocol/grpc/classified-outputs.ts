import type { ModelSignature } from '../../config/model-signature.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { classifyInSteps } from '../classification.ts'
import type { OutputSelection } from './infer-request-fields.ts'

/** HOT: once per answer. */
export function wantsClasses(selections: readonly OutputSelection[]): boolean {
  for (let i = 0; i < selections.length; i++)
    if ((selections[i] as OutputSelection).classificationCount > 0) return true
  return false
}

/** The outputs, those of which classes are wanted as their classes. Others may be served between the steps. */
export function* classifiedOutputs(
  outputs: readonly Tensor[],
  selections: readonly OutputSelection[],
  signature: ModelSignature,
): Generator<void, Tensor[]> {
  const classified: Tensor[] = []
  for (const output of outputs) {
    const count = selections.find(({ name }) => name === output.name)?.classificationCount ?? 0
    const labels = signature.outputByName.get(output.name)?.labels ?? []
    classified.push(count === 0 ? output : yield* classifyInSteps(output, count, labels, signature.isBatching))
  }
  return classified
}
