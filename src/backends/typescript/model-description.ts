// The description of a model in its own code, instead of or beside config.pbtxt, and the rules that join the two.

import { ServerError } from '../../base/server-error.ts'
import type { ConfigDataType, ModelConfig, ModelInput, ModelOutput } from '../../config/model-config.ts'
import { configDataType, dataTypeOfConfig, dataTypes, isDataType, type DataType } from '../../tensor/data-type.ts'
import { shapesEqual, shapeText, type Shape } from '../../tensor/shape.ts'

type TensorDescription = {
  readonly name: string
  /** `FP32` or `TYPE_FP32`. */
  readonly dataType: DataType | ConfigDataType
  /** Without the batch dimension; -1 is open. */
  readonly dims: Shape
}

/** A model's `config`, or the result of its `autoCompleteConfig`. A key that is left out stays as in config.pbtxt. */
export type ModelDescription = {
  readonly maxBatchSize?: number
  readonly input?: readonly (TensorDescription & { readonly optional?: boolean; readonly allowRaggedBatch?: boolean })[]
  readonly output?: readonly (TensorDescription & { readonly labelFilename?: string })[]
  /** A request may get several responses, or none. */
  readonly decoupled?: boolean
  /** Batches requests dynamically; only when config.pbtxt chose no scheduler. */
  readonly dynamicBatching?: boolean
}

type Listed = Partial<ModelInput & ModelOutput>

/** Adds the description to the draft. Only fields that a backend may fill in are read; contradictions are errors. */
export function applyDescription(draft: ModelConfig, description: ModelDescription): ModelConfig {
  return {
    ...draft,
    maxBatchSize: joinBatchSize(draft, description.maxBatchSize),
    input: joinTensors(draft.name, 'input', draft.input, description.input, fullInput),
    output: joinTensors(draft.name, 'output', draft.output, description.output, fullOutput),
    modelTransactionPolicy: joinDecoupled(draft, description.decoupled),
    dynamicBatching: joinScheduling(draft, description.dynamicBatching),
  }
}

function joinBatchSize(draft: ModelConfig, described: unknown): number {
  if (described === undefined) return draft.maxBatchSize
  if (typeof described !== 'number' || !Number.isInteger(described) || described < 0) {
    throw invalid(
      `model '${draft.name}': maxBatchSize must be an integer of 0 or more, got ${JSON.stringify(described)}`,
    )
  }
  if (draft.maxBatchSize > described) {
    throw invalid(
      `configuration specified max_batch_size ${draft.maxBatchSize}, but in auto-complete-config function for model ` +
        `'${draft.name}' specified max_batch_size ${described}`,
    )
  }
  return draft.maxBatchSize > 0 ? draft.maxBatchSize : described
}

function joinDecoupled(draft: ModelConfig, described: unknown): ModelConfig['modelTransactionPolicy'] {
  const policy = draft.modelTransactionPolicy
  if (described === undefined) return policy
  const decoupled = described === true
  if (policy !== null && policy.decoupled !== decoupled) {
    throw invalid(
      `trying to change decoupled property in auto-complete-config for model '${draft.name}', which is already set to ` +
        `'${policy.decoupled ? 'True' : 'False'}'.`,
    )
  }
  return { decoupled }
}

function joinScheduling(draft: ModelConfig, described: unknown): ModelConfig['dynamicBatching'] {
  if (described !== true || draft.dynamicBatching !== null) return draft.dynamicBatching
  if (draft.sequenceBatching !== null) {
    throw invalid(
      `Configuration specified scheduling_choice as 'sequence_batching', but auto-complete-config function for model ` +
        `'${draft.name}' tries to set scheduling_choice as 'dynamic_batching'`,
    )
  }
  if (draft.ensembleScheduling !== null) return null
  return {
    preferredBatchSize: [],
    maxQueueDelayMicroseconds: 0n,
    preserveOrdering: false,
    priorityLevels: 0n,
    defaultPriorityLevel: 0n,
    defaultQueuePolicy: null,
    priorityQueuePolicy: new Map(),
  }
}

function joinTensors<T extends ModelInput | ModelOutput>(
  model: string,
  role: 'input' | 'output',
  configured: readonly T[],
  described: unknown,
  complete: (tensor: Listed & TensorHead) => T,
): T[] {
  if (described === undefined) return [...configured]
  if (!Array.isArray(described)) throw invalid(`model '${model}': its ${role} list must be an array`)
  const joined = [...configured]
  for (const listed of described as readonly unknown[]) {
    const tensor = checkHead(model, role, listed)
    const existing = configured.find((candidate) => candidate.name === tensor.name)
    if (existing === undefined) joined.push(complete(tensor))
    else checkAgreement(model, role, existing, tensor)
  }
  return joined
}

type TensorHead = { name: string; dataType: ConfigDataType; dims: number[] }

function checkHead(model: string, role: string, listed: unknown): Listed & TensorHead {
  const tensor = (listed ?? {}) as Listed
  const where = `${role} '${tensor.name ?? ''}' in auto-complete-config function for model '${model}'`
  if (typeof tensor.name !== 'string' || tensor.name === '') throw invalid(`${where} is missing 'name' property.`)
  if (tensor.dataType === undefined) throw invalid(`${where} is missing 'data_type' property.`)
  if (tensor.dims === undefined) throw invalid(`${where} is missing 'dims' property.`)
  const given: string = tensor.dataType
  // The names of the protocol, and those of config.pbtxt with or without their TYPE_.
  const dataType = isDataType(given) ? given : (dataTypeOfConfig(given) ?? dataTypeOfConfig(`TYPE_${given}`))
  if (dataType === null)
    throw invalid(`${where} has the unknown data type '${given}'; there are ${dataTypes.join(', ')}.`)
  if (!Array.isArray(tensor.dims) || !tensor.dims.every((size) => Number.isInteger(size) && size >= -1)) {
    throw invalid(`${where} must have dims that are integers of -1 or more.`)
  }
  return { ...tensor, name: tensor.name, dataType: configDataType(dataType) as ConfigDataType, dims: [...tensor.dims] }
}

function checkAgreement(model: string, role: string, existing: ModelInput | ModelOutput, described: TensorHead): void {
  if (existing.dataType !== described.dataType) {
    throw invalid(
      `unable to load model '${model}', configuration expects datatype ${existing.dataType} for ${role} ` +
        `'${existing.name}', model provides ${described.dataType}`,
    )
  }
  if (!shapesEqual(existing.dims, described.dims)) {
    throw invalid(
      `model '${model}', tensor '${existing.name}': the model expects dims ${shapeText(described.dims)} but the model ` +
        `configuration specifies dims ${shapeText(existing.dims)}`,
    )
  }
}

const fullInput = (tensor: Listed & TensorHead): ModelInput => ({
  name: tensor.name,
  dataType: tensor.dataType,
  format: 'FORMAT_NONE',
  dims: tensor.dims,
  reshape: null,
  isShapeTensor: false,
  allowRaggedBatch: tensor.allowRaggedBatch === true,
  optional: tensor.optional === true,
  isNonLinearFormatIo: false,
})

const fullOutput = (tensor: Listed & TensorHead): ModelOutput => ({
  name: tensor.name,
  dataType: tensor.dataType,
  dims: tensor.dims,
  reshape: null,
  labelFilename: typeof tensor.labelFilename === 'string' ? tensor.labelFilename : '',
  isShapeTensor: false,
  isNonLinearFormatIo: false,
})

const invalid = (message: string): ServerError => new ServerError('INVALID_ARG', message)
