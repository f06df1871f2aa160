// Loads one version of an ensemble. An ensemble has no Backend and no Instances: its Scheduler calls other models.

import { assert } from '../../base/assert.ts'
import type { LoadedModel, ModelFiles } from '../../model/backend.ts'
import { ensembleInconsistency, isEnsembleDecoupled, type ComposingConfigs } from '../../config/ensemble-consistency.ts'
import { modelLabel, splitModelKey, type ModelKey } from '../../model/model-key.ts'
import { EnsemblePlan } from '../../config/ensemble-plan.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { ModelConfig, ModelEnsemblingStep } from '../../config/model-config.ts'
import { ModelSignature } from '../../config/model-signature.ts'
import { normaliseModelConfig } from '../../config/normalise-model-config.ts'
import { validateLoadedConfig } from '../../config/validate-model-config.ts'
import type { QueueDoor } from '../../model/queue-report.ts'
import { keyOfModel, type FoundModel } from '../../repository/model-repository.ts'
import { readLabels } from '../../repository/labels.ts'
import { EnsembleScheduler } from '../../scheduling/ensemble-scheduler.ts'
import { keyOfStep, stepsOf, type EnsembleGraph } from './ensemble-graph.ts'
import { type LoadDependencies, type LoadSettings, sharingScheduler } from '../serving/load-version.ts'
import type { ServedModel } from '../serving/served-model.ts'
import type { LoadedParts, ServedVersion } from '../serving/served-version.ts'

export type ServedModels = ReadonlyMap<ModelKey, ServedModel>

type EnsembleLoadDependencies = Pick<LoadDependencies, 'clock' | 'log' | 'responseCache'> & {
  readonly models: ServedModels
  readonly infer: (request: InferenceRequest) => void
}

const invalidText = (ensemble: ModelKey, part: string): string =>
  `ensemble ${modelLabel(ensemble)} contains models that are not available or ambiguous: ${part}`

/** The error for a part that no repository has, or whose entry cannot be read; null: all parts are there. */
export function missingPart(key: ModelKey, graph: EnsembleGraph, models: ServedModels): string | null {
  for (const part of graph.partsOf(key)) {
    const model = models.get(part)
    const isUnreadable = model === undefined || (model.versions.size === 0 && !graph.isEnsemble(part))
    if (isUnreadable) return invalidText(key, splitModelKey(part).name)
  }
  return null
}

/** Why the ensemble cannot serve with the models as they are now, in Triton's words; null when it can. */
export function ensembleProblem(ensemble: FoundModel, graph: EnsembleGraph, models: ServedModels): string | null {
  const { config, namespace } = ensemble
  for (const step of stepsOf(config)) {
    const problem = stepProblem(keyOfModel(ensemble), step, graph, models)
    if (problem !== null) return problem
  }
  return ensembleInconsistency(config, composingConfigs(models, namespace))
}

function stepProblem(
  ensemble: ModelKey,
  step: ModelEnsemblingStep,
  graph: EnsembleGraph,
  models: ServedModels,
): string | null {
  const { namespace } = splitModelKey(ensemble)
  const model = models.get(keyOfStep(step, namespace))
  if (model === undefined) return invalidText(ensemble, step.modelName)
  const { label } = model
  const depends = `ensemble '${modelLabel(ensemble)}' depends on '${label}'`
  if (model.latest === null) {
    if (graph.isEnsemble(model.key) && model.failure !== '') {
      return `${depends} which is not valid. Model '${label}' failed with error: ${model.failure}`
    }
    const failure = failureText(model)
    const why = failure === '' ? '' : ` Model '${label}' loading failed with error: ${failure}`
    return `${depends} which has no loaded version.${why}`
  }
  if (findPart(models, namespace, step) !== null) return null
  return `${depends} whose required version ${step.modelVersion} is not loaded.`
}

function failureText(model: ServedModel): string {
  return model
    .versionEntries()
    .filter(({ state, reason }) => state === 'UNAVAILABLE' && reason !== 'unloaded')
    .map(({ version, reason }) => `version ${version} is at UNAVAILABLE state: ${reason};`)
    .join('')
}

/** Every other number below 0 is a version that no model has. */
const latestVersion = -1

/** The version that a step calls; null when it does not serve. */
function findPart(
  models: ServedModels,
  namespace: string | undefined,
  step: ModelEnsemblingStep,
): ServedVersion | null {
  const model = models.get(keyOfStep(step, namespace))
  if (step.modelVersion === latestVersion) return model?.latest ?? null
  return model?.ready.find((served) => served.version === String(step.modelVersion)) ?? null
}

function composingConfigs(models: ServedModels, namespace: string | undefined): ComposingConfigs {
  return (step) => {
    const part = findPart(models, namespace, step)
    assert(part !== null, `'${step.modelName}' serves`)
    return part.config
  }
}

/** To be called when `ensembleProblem` has found no problem. The polled configuration is not changed. */
export async function loadEnsemble(
  dependencies: EnsembleLoadDependencies,
  settings: LoadSettings,
  { config: draft, namespace }: FoundModel,
  files: ModelFiles,
): Promise<LoadedParts> {
  const { clock, models, infer } = dependencies
  const config = structuredClone(draft)
  const configs = composingConfigs(models, namespace)
  normaliseModelConfig(config)
  // First, because a decoupled ensemble cannot have everything that another one can.
  config.modelTransactionPolicy = { decoupled: isEnsembleDecoupled(config, configs) }
  validateLoadedConfig(config, { gpuCount: settings.gpuCount })
  const findStep = (step: ModelEnsemblingStep): ServedVersion | null => findPart(models, namespace, step)
  const labels = inheritedLabels(config, findStep, await readLabels(config, files.modelDirectory))
  const signature = new ModelSignature(config, labels)
  const isLikeTriton = settings.runsEnsemblesLikeTriton ?? false
  const [calling, callingConfigs] =
    namespace === undefined ? [config, configs] : callingInFull(config, namespace, configs)
  const plan = new EnsemblePlan(calling, signature, callingConfigs, { isLikeTriton })
  const steps = stepsOf(config)
  const doors = (): (QueueDoor | null)[] => steps.map((step) => findStep(step)?.door ?? null)
  const uncached = new EnsembleScheduler({ clock, infer, doors }, plan, signature)
  const scheduler = await sharingScheduler(dependencies, { config, files }, uncached)
  const isReady = (): boolean => steps.every((step) => findStep(step)?.isReady ?? false)
  return { config, signature, loaded: nothingToClose, instances: null, scheduler, isReady }
}

/** The configuration of an ensemble that is not loaded. It is decoupled when a part that is known is decoupled. */
export function draftOf({ config, namespace }: FoundModel, models: ServedModels): ModelConfig {
  const isDecoupled = stepsOf(config).some((step) => {
    const model = models.get(keyOfStep(step, namespace))
    const known = model?.latest ?? model?.sleeping?.latest
    return known?.config.modelTransactionPolicy?.decoupled ?? false
  })
  return isDecoupled ? { ...config, modelTransactionPolicy: { decoupled: true } } : config
}

/** An output without labels of its own has those of the output it comes from. */
function inheritedLabels(
  config: ModelConfig,
  findStep: (step: ModelEnsemblingStep) => ServedVersion | null,
  own: ReadonlyMap<string, readonly string[]>,
): Map<string, readonly string[]> {
  const labels = new Map(own)
  for (const step of stepsOf(config)) {
    const signature = findStep(step)?.signature
    for (const [key, tensor] of step.outputMap) {
      const inherited = signature?.outputByName.get(key)?.labels ?? []
      if (inherited.length > 0 && !labels.has(tensor)) labels.set(tensor, inherited)
    }
  }
  return labels
}

const nothingToClose: LoadedModel = {
  createInstance: () => Promise.reject(new Error('an ensemble has no instances')),
  close: () => Promise.resolve(),
}

/** The configuration with steps that name models in full: with namespaces several models may have one name. */
function callingInFull(
  config: ModelConfig,
  namespace: string,
  configs: ComposingConfigs,
): [ModelConfig, ComposingConfigs] {
  const named = new Map(
    stepsOf(config).map((step) => [{ ...step, modelName: modelLabel(keyOfStep(step, namespace)) }, step]),
  )
  const ensembleScheduling = { maxInflightRequests: 0, ...config.ensembleScheduling, step: [...named.keys()] }
  return [{ ...config, ensembleScheduling }, (step) => configs(named.get(step) ?? step)]
}
