// Fills gaps of config.pbtxt from the model file, by Triton's rules. Pure.

import { ServerError } from '../../base/server-error.ts'
import { notCarried } from '../../onnx-file/not-carried.ts'
import type { ConfigDataType, ModelConfig, ModelInput, ModelOutput } from '../../config/model-config.ts'
import { configDataType } from '../../tensor/data-type.ts'
import type { OnnxTensorSpec } from './onnx-session.ts'

type ModelDescription = {
  readonly inputs: readonly OnnxTensorSpec[]
  readonly outputs: readonly OnnxTensorSpec[]
}

/** A configuration with inputs and outputs is complete; the model file is not read for it. */
export const isComplete = (config: ModelConfig): boolean => config.input.length > 0 && config.output.length > 0

export function completeConfig(
  draft: ModelConfig,
  { inputs, outputs }: ModelDescription,
  defaultMaxBatchSize: number,
): ModelConfig {
  if (isComplete(draft)) return draft
  completeBatching(draft, [...inputs, ...outputs], defaultMaxBatchSize)
  const isBatching = draft.maxBatchSize > 0
  if (draft.input.length === 0) draft.input = inputs.map((spec) => inputOf(draft.name, spec, isBatching))
  if (draft.output.length === 0) draft.output = outputs.map((spec) => outputOf(draft.name, spec, isBatching))
  return draft
}

/** Batching is possible when the first dimension of all inputs and outputs is open. */
function completeBatching(draft: ModelConfig, tensors: readonly OnnxTensorSpec[], defaultMaxBatchSize: number): void {
  const canBatch = tensors.every((tensor) => tensor.shape?.[0] === -1)
  if (!canBatch) {
    if (draft.maxBatchSize === 0) return
    throw new ServerError(
      'INVALID_ARG',
      `autofill failed for model '${draft.name}': model does not support batching while non-zero max_batch_size is specified`,
    )
  }
  if (draft.maxBatchSize === 0) draft.maxBatchSize = Math.max(0, defaultMaxBatchSize)
  const hasScheduler = [draft.dynamicBatching, draft.sequenceBatching, draft.ensembleScheduling].some(Boolean)
  if (draft.maxBatchSize > 1 && !hasScheduler) {
    draft.dynamicBatching = {
      preferredBatchSize: [],
      maxQueueDelayMicroseconds: 0n,
      preserveOrdering: false,
      priorityLevels: 0n,
      defaultPriorityLevel: 0n,
      defaultQueuePolicy: null,
      priorityQueuePolicy: new Map(),
    }
  }
}

type TensorPart = Pick<ModelOutput, 'name' | 'dataType' | 'dims' | 'reshape'>

function tensorOf(modelName: string, spec: OnnxTensorSpec, isBatching: boolean): TensorPart {
  if (spec.dataType === null) {
    throw new ServerError(
      'UNSUPPORTED',
      `autofill failed for model '${modelName}': tensor ${notCarried(spec.name, spec.typeText)}`,
    )
  }
  const dims = (spec.shape ?? []).slice(isBatching ? 1 : 0)
  const { name } = spec
  const dataType = configDataType(spec.dataType) as ConfigDataType
  // `dims` must not be empty, so a scalar is one element on the wire. Only models that batch may have an empty reshape.
  return dims.length === 0
    ? { name, dataType, dims: [1], reshape: isBatching ? { shape: [] } : null }
    : { name, dataType, dims, reshape: null }
}

const inputOf = (modelName: string, spec: OnnxTensorSpec, isBatching: boolean): ModelInput => ({
  ...tensorOf(modelName, spec, isBatching),
  format: 'FORMAT_NONE',
  isShapeTensor: false,
  allowRaggedBatch: false,
  optional: false,
  isNonLinearFormatIo: false,
})

const outputOf = (modelName: string, spec: OnnxTensorSpec, isBatching: boolean): ModelOutput => ({
  ...tensorOf(modelName, spec, isBatching),
  labelFilename: '',
  isShapeTensor: false,
  isNonLinearFormatIo: false,
})
