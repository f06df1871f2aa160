// Adds the result of auto_complete_config to the configuration: only the fields that a backend may change.

import { ServerError } from '../../base/server-error.ts'
import {
  configMessage,
  type ConfigDataType,
  type ModelConfig,
  type ModelInput,
  type ModelOutput,
} from '../../config/model-config.ts'
import { enumTypes } from '../../config/model-config-schema.ts'

type TensorJson = { name?: unknown; data_type?: unknown; dims?: unknown; optional?: unknown; reshape?: unknown }
export type CompletedJson = {
  max_batch_size?: unknown
  input?: TensorJson[]
  output?: TensorJson[]
  dynamic_batching?: unknown
  model_transaction_policy?: { decoupled?: unknown }
  /** From the framework backends: the names of the classes, by output. */
  class_names?: Record<string, string[]>
}

export function applyCompletedConfig(draft: ModelConfig, completed: CompletedJson): ModelConfig {
  const refuse = (what: string): ServerError =>
    new ServerError('INTERNAL', `auto_complete_config of model '${draft.name}' returned ${what}`)
  if (completed.max_batch_size !== undefined) {
    if (!Number.isSafeInteger(completed.max_batch_size)) throw refuse('a max_batch_size that is not a whole number')
    draft.maxBatchSize = completed.max_batch_size as number
  }
  draft.input = (completed.input ?? []).map((json) => {
    const known = draft.input.find((input) => input.name === json.name)
    const input = known ?? configMessage('ModelInput')
    takeTensor(input, json, refuse)
    if (json.optional !== undefined) input.optional = json.optional === true
    return input
  })
  draft.output = (completed.output ?? []).map((json) => {
    const known = draft.output.find((output) => output.name === json.name)
    const output = known ?? configMessage('ModelOutput')
    takeTensor(output, json, refuse)
    return output
  })
  const hasScheduler =
    draft.dynamicBatching !== null || draft.sequenceBatching !== null || draft.ensembleScheduling !== null
  if (completed.dynamic_batching !== undefined && !hasScheduler) {
    draft.dynamicBatching = configMessage('ModelDynamicBatching')
  }
  if (completed.model_transaction_policy !== undefined) {
    draft.modelTransactionPolicy = { decoupled: completed.model_transaction_policy.decoupled === true }
  }
  return draft
}

function takeTensor(target: ModelInput | ModelOutput, json: TensorJson, refuse: (what: string) => ServerError): void {
  if (typeof json.name !== 'string') throw refuse('a tensor without a name')
  if (typeof json.data_type !== 'string' || !Object.hasOwn(enumTypes.DataType, json.data_type)) {
    throw refuse(`data_type '${String(json.data_type)}' for tensor '${json.name}', which is no type`)
  }
  const { dims } = json
  if (!Array.isArray(dims) || !dims.every((size) => Number.isSafeInteger(size))) {
    throw refuse(`dims of tensor '${json.name}' that are not whole numbers`)
  }
  target.name = json.name
  target.dataType = json.data_type as ConfigDataType
  target.dims = dims as number[]
  // The framework backends say in this way that a row is one number; Triton's auto_complete_config cannot say it.
  if (isEmptyReshape(json.reshape)) target.reshape = { shape: [] }
}

const isEmptyReshape = (reshape: unknown): boolean =>
  typeof reshape === 'object' &&
  reshape !== null &&
  Array.isArray((reshape as { shape?: unknown }).shape) &&
  (reshape as { shape: unknown[] }).shape.length === 0
