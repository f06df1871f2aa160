// Checks that the configuration fits the loaded model, with Triton's checks and texts (config/compare-signature.ts).

import { ServerError } from '../../base/server-error.ts'
import { signatureProblems, type TensorDescription } from '../../config/compare-signature.ts'
import type { ConfigDataType, ModelConfig } from '../../config/model-config.ts'
import { configDataType } from '../../tensor/data-type.ts'
import type { OnnxTensorSpec } from './onnx-session.ts'

type SessionDescription = {
  readonly inputs: readonly OnnxTensorSpec[]
  readonly overridable: readonly OnnxTensorSpec[]
  readonly outputs: readonly OnnxTensorSpec[]
}

/** Throws the first problem. Triton's text for a wrong shape is hard to understand, so a hint follows it. */
export function validateSignature(config: ModelConfig, model: SessionDescription): void {
  // Initializers count when the configuration says so.
  const named = new Set(config.input.map((input) => input.name))
  const inputs = [...model.inputs, ...model.overridable.filter((spec) => named.has(spec.name))]
  const actual = { inputs: described(config, inputs), outputs: described(config, model.outputs) }
  for (const { path, message, fix, code } of signatureProblems(config, actual)) {
    throw new ServerError(code, path.endsWith('.dims') && fix !== '' ? `${message}. Hint: ${fix}` : message)
  }
}

/** Sorted by name, as Triton lists them. */
function described(config: ModelConfig, specs: readonly OnnxTensorSpec[]): TensorDescription[] {
  const sorted = specs.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  return sorted.map(({ name, dataType, shape }) => ({
    name,
    dataType: dataType === null ? 'TYPE_INVALID' : (configDataType(dataType) as ConfigDataType),
    shape: shape ?? configuredShape(config, name),
  }))
}

/** A model without a shape takes any shape, so the configured shape is used. */
function configuredShape(config: ModelConfig, name: string): readonly number[] {
  const tensor = [...config.input, ...config.output].find((each) => each.name === name)
  const dims = tensor?.reshape?.shape ?? tensor?.dims ?? []
  return config.maxBatchSize > 0 ? [-1, ...dims] : dims
}
