// Checks whether the steps of an ensemble fit the models that they call. The check runs when all these models are loaded:
// only then are their inputs and outputs known. The texts are Triton's.

import { shapeText, type Shape } from '../tensor/shape.ts'
import type { ModelConfig, ModelEnsemblingStep, ModelInput, ModelOutput } from './model-config.ts'

/** The configuration, as it serves, of the model that a step calls. */
export type ComposingConfigs = (step: ModelEnsemblingStep) => ModelConfig

/** What is known of one tensor that steps share, and the model that says it. */
type SharedTensor = {
  readonly modelName: string
  readonly dataType: string
  /** Without the batch dimension. */
  readonly dims: Shape
  /** With the batch dimension, where the model batches. */
  readonly fullDims: Shape
}

/** The first thing that does not fit; null: all fits. */
export function ensembleInconsistency(config: ModelConfig, models: ComposingConfigs): string | null {
  const tensors = new Map<string, SharedTensor>()
  // Steps see a tensor of the ensemble itself as its `reshape` says; callers of a step's model see the dims of that model.
  for (const tensor of [...config.input, ...config.output]) {
    tensors.set(tensor.name, sharedTensor(config, { ...tensor, dims: tensor.reshape?.shape ?? tensor.dims }))
  }
  for (const step of config.ensembleScheduling?.step ?? []) {
    const model = models(step)
    const problem =
      batchProblem(config, model) ?? mapProblem(config, step, model) ?? tensorProblem(config, step, model, tensors)
    if (problem !== null) return problem
  }
  return originProblem(config, models)
}

/** An ensemble answers more than once as soon as one of its steps does. */
export const isEnsembleDecoupled = (config: ModelConfig, models: ComposingConfigs): boolean =>
  (config.ensembleScheduling?.step ?? []).some((step) => isDecoupled(models(step)))

const isDecoupled = (config: ModelConfig): boolean => config.modelTransactionPolicy?.decoupled ?? false

function sharedTensor(config: ModelConfig, { dataType, dims }: ModelInput | ModelOutput): SharedTensor {
  return { modelName: config.name, dataType, dims, fullDims: config.maxBatchSize > 0 ? [-1, ...dims] : dims }
}

/** A model that does not batch may be a step of an ensemble that batches: it gets one row, without the batch dimension. */
function batchProblem(config: ModelConfig, model: ModelConfig): string | null {
  if (model.maxBatchSize === 0 || model.maxBatchSize >= config.maxBatchSize) return null
  return (
    `ensemble ${config.name} allows maximum batch size ${config.maxBatchSize}, but it contains model ${model.name} ` +
    `which only allows maximum batch size to be ${model.maxBatchSize}`
  )
}

function mapProblem(config: ModelConfig, step: ModelEnsemblingStep, model: ModelConfig): string | null {
  const which = `in ensemble ${config.name}`
  for (const [key, tensor] of step.inputMap) {
    if (model.input.some(({ name }) => name === key)) continue
    return `${which}, ensemble tensor ${tensor} is mapping to non-existing input ${key} in model ${model.name}`
  }
  for (const { name, optional } of model.input) {
    if (optional || step.inputMap.has(name)) continue
    return `${which}, input ${name} in model ${model.name} is not mapped to any ensemble tensors`
  }
  for (const [key, tensor] of step.outputMap) {
    if (model.output.some(({ name }) => name === key)) continue
    return `${which}, ensemble tensor ${tensor} is mapped from non-existing output ${key} in model ${model.name}`
  }
  return null
}

function tensorProblem(
  config: ModelConfig,
  step: ModelEnsemblingStep,
  model: ModelConfig,
  tensors: Map<string, SharedTensor>,
): string | null {
  const ends = [
    ...[...step.inputMap].map(([key, name]) => [name, model.input.find((input) => input.name === key)] as const),
    ...[...step.outputMap].map(([key, name]) => [name, model.output.find((output) => output.name === key)] as const),
  ]
  for (const [name, tensor] of ends) {
    if (tensor === undefined) continue
    const here = sharedTensor(model, tensor)
    const known = tensors.get(name)
    if (known === undefined) tensors.set(name, here)
    else {
      const problem = difference(known, here)
      if (problem !== null) return `in ensemble ${config.name}, ensemble tensor ${name}: ${problem}`
    }
  }
  return null
}

function difference(a: SharedTensor, b: SharedTensor): string | null {
  const tell = (what: string, first: string, second: string): string =>
    `inconsistent ${what}: ${first} is inferred from model ${a.modelName} while ${second} is inferred from model ${b.modelName}`
  if (a.dataType !== b.dataType) return tell('data type', a.dataType, b.dataType)
  // A model that does not batch may write the batch dimension into its dims.
  if (canBeEqual(a.dims, b.dims) || canBeEqual(a.fullDims, b.fullDims)) return null
  return tell('shape', shapeText(a.fullDims), shapeText(b.fullDims))
}

const canBeEqual = (a: Shape, b: Shape): boolean =>
  a.length === b.length && a.every((size, i) => size === b[i] || size === -1 || b[i] === -1)

/** Responses of two decoupled steps have no common order, so no step may need tensors of both. */
function originProblem(config: ModelConfig, models: ComposingConfigs): string | null {
  const steps = config.ensembleScheduling?.step ?? []
  const producers = new Map(steps.flatMap((step) => [...step.outputMap.values()].map((name) => [name, step] as const)))
  const origins = new Map<ModelEnsemblingStep, ModelEnsemblingStep | null>()
  const originOfTensor = (name: string): ModelEnsemblingStep | null => {
    const step = producers.get(name)
    if (step === undefined) return null
    return isDecoupled(models(step)) ? step : originOfStep(step)
  }
  const originOfStep = (step: ModelEnsemblingStep): ModelEnsemblingStep | null => {
    const known = origins.get(step)
    if (known !== undefined) return known
    const found = [...new Set([...step.inputMap.values()].map(originOfTensor))].filter((origin) => origin !== null)
    if (found.length > 1) mixing.push(step.modelName)
    origins.set(step, found[0] ?? null)
    return found[0] ?? null
  }
  const mixing: string[] = []
  for (const step of steps) originOfStep(step)
  const ends = new Set(config.output.map(({ name }) => originOfTensor(name)).filter((origin) => origin !== null))
  // As in Triton the ensemble's own outputs are inputs of a step that has the name of the ensemble.
  if (ends.size > 1) mixing.push(config.name)
  const [first] = mixing
  if (first === undefined) return null
  return `in ensemble ${config.name}, step of model '${first}' receives inputs originated from different decoupled models`
}
