import type { InputSpec, ModelSignature, OutputSpec } from '../config/model-signature.ts'

type TensorSpec = InputSpec | OutputSpec

/** How the candidate's inputs and outputs differ from those of stable, for people; '' when they are the same. */
export function signatureDifference(stable: ModelSignature, candidate: ModelSignature): string {
  const found = [
    ...tensorDifferences('input', stable.inputs, candidate.inputs),
    ...tensorDifferences('output', stable.outputs, candidate.outputs),
  ]
  if (stable.isBatching !== candidate.isBatching) {
    found.push(`max_batch_size is ${candidate.maxBatchSize}, stable has ${stable.maxBatchSize}`)
  }
  if (stable.isDecoupled !== candidate.isDecoupled) {
    found.push(candidate.isDecoupled ? 'it is decoupled, stable is not' : 'it is not decoupled, stable is')
  }
  return found.join('; ')
}

function tensorDifferences(kind: string, stable: readonly TensorSpec[], candidate: readonly TensorSpec[]): string[] {
  const differences: string[] = []
  for (const { name, dataType, dims } of stable) {
    const other = candidate.find((one) => one.name === name)
    if (other === undefined) differences.push(`${kind} '${name}' is missing`)
    else if (other.dataType !== dataType)
      differences.push(`${kind} '${name}' is ${other.dataType}, stable has ${dataType}`)
    else if (String(other.dims) !== String(dims)) {
      differences.push(`${kind} '${name}' has the shape [${String(other.dims)}], stable has [${String(dims)}]`)
    }
  }
  for (const spec of candidate) {
    const isOptional = 'isOptional' in spec && spec.isOptional
    if (isOptional || stable.some((one) => one.name === spec.name)) continue
    differences.push(`${kind} '${spec.name}' is new`)
  }
  return differences
}
