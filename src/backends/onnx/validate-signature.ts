// Does the configuration fit the model that is in memory? Triton's checks and texts, from config/compare-signature.ts.

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

/** Throws the first problem. What is wrong with a shape is hard to see in Triton's text, so the hint follows it. */
export function validateSignature(config: ModelConfig, model: SessionDescription): void {
  // Initializers count when the configuration says so.
  const named = new Set(config.input.map((input) => input.name))
  const inputs = [...model.inputs, ...model.overridable.filter((spec) => named.has(spec.name))]
  const actual = { inputs: described(config, inputs), outputs: described(config, model.outputs) }
  for (const { path, message, fix, code } of signatureProblems(config, actual)) {
    throw new ServerError(code, path.endsWith('.dims') && fix !== '' ? `${message}. Hint: ${fix}` : message)
  }
}

/** In the order of their names, which is how Triton lists them. */
function described(config: ModelConfig, specs: readonly OnnxTensorSpec[]): TensorDescription[] {
  const sorted = specs.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  return sorted.map(({ name, dataType, shape }) => ({
    name,
    dataType: dataType === null ? 'TYPE_INVALID' : (configDataType(dataType) as ConfigDataType),
    shape: shape ?? configuredShape(config, name),
  }))
}

/** A model that gives no shape takes any: as good as the one that is configured. */
function configuredShape(config: ModelConfig, name: string): readonly number[] {
  const tensor = [...config.input, ...config.output].find((each) => each.name === name)
  const dims = tensor?.reshape?.shape ?? tensor?.dims ?? []
  return config.maxBatchSize > 0 ? [-1, ...dims] : dims
}
