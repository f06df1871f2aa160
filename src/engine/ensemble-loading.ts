// Brings one version of an ensemble to life. It has no Backend and no Instances: its Scheduler calls other models.

import { assert } from '../base/assert.ts'
import type { LoadedModel, ModelFiles } from '../model/backend.ts'
import { ensembleInconsistency, isEnsembleDecoupled, type ComposingConfigs } from '../model/ensemble-consistency.ts'
import { EnsemblePlan } from '../model/ensemble-plan.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { ModelConfig, ModelEnsemblingStep } from '../model/model-config.ts'
import { ModelSignature } from '../model/model-signature.ts'
import { normaliseAfterComplete } from '../model/normalise-model-config.ts'
import { validateLoadedConfig } from '../model/validate-model-config.ts'
import { readLabels } from '../repository/labels.ts'
import { EnsembleScheduler } from '../scheduling/ensemble-scheduler.ts'
import type { EnsembleGraph } from './ensemble-graph.ts'
import { cachedScheduler, type LoadDependencies, type LoadSettings } from './load-version.ts'
import type { ServedModel } from './served-model.ts'
import type { LoadedParts, ServedVersion } from './served-version.ts'

export type ServedModels = ReadonlyMap<string, ServedModel>

export type EnsembleLoadDependencies = Pick<LoadDependencies, 'clock' | 'responseCache'> & {
  readonly models: ServedModels
  readonly infer: (request: InferenceRequest) => void
}

const invalidText = (ensemble: string, part: string): string =>
  `ensemble ${ensemble} contains models that are not available or ambiguous: ${part}`

/** A part that no repository has, or whose entry cannot be read: the ensemble is then not even tried. */
export function missingPart(name: string, graph: EnsembleGraph, models: ServedModels): string | null {
  for (const part of graph.partsOf(name)) {
    const model = models.get(part)
    const isUnreadable = model === undefined || (model.versions.size === 0 && !graph.isEnsemble(part))
    if (isUnreadable) return invalidText(name, part)
  }
  return null
}

/** Why the ensemble cannot serve with the models as they are now, in Triton's words; null when it can. */
export function ensembleProblem(config: ModelConfig, graph: EnsembleGraph, models: ServedModels): string | null {
  for (const step of config.ensembleScheduling?.step ?? []) {
    const problem = stepProblem(config.name, step, graph, models)
    if (problem !== null) return problem
  }
  return ensembleInconsistency(config, composingConfigs(models))
}

function stepProblem(
  ensemble: string,
  step: ModelEnsemblingStep,
  graph: EnsembleGraph,
  models: ServedModels,
): string | null {
  const model = models.get(step.modelName)
  if (model === undefined) return invalidText(ensemble, step.modelName)
  const depends = `ensemble '${ensemble}' depends on '${step.modelName}'`
  if (model.latest === null) {
    if (graph.isEnsemble(model.name) && model.pollFailure !== '') {
      return `${depends} which is not valid. Model '${model.name}' failed with error: ${model.pollFailure}`
    }
    const failure = failureText(model)
    const why = failure === '' ? '' : ` Model '${model.name}' loading failed with error: ${failure}`
    return `${depends} which has no loaded version.${why}`
  }
  if (findPart(models, step) !== null) return null
  return `${depends} whose required version ${step.modelVersion} is not loaded.`
}

function failureText(model: ServedModel): string {
  return model
    .versionEntries()
    .filter(({ state, reason }) => state === 'UNAVAILABLE' && reason !== 'unloaded')
    .map(({ version, reason }) => `version ${version} is at UNAVAILABLE state: ${reason};`)
    .join('')
}

/** The version that a step calls; null when it does not serve. */
function findPart(models: ServedModels, step: ModelEnsemblingStep): ServedVersion | null {
  const model = models.get(step.modelName)
  if (step.modelVersion < 0) return model?.latest ?? null
  return model?.ready.find((served) => served.version === String(step.modelVersion)) ?? null
}

function composingConfigs(models: ServedModels): ComposingConfigs {
  return (step) => {
    const part = findPart(models, step)
    assert(part !== null, `'${step.modelName}' serves`)
    return part.config
  }
}

/** `ensembleProblem` has found none. `draft` is the polled configuration; it is not changed. */
export async function loadEnsemble(
  dependencies: EnsembleLoadDependencies,
  settings: LoadSettings,
  draft: ModelConfig,
  files: ModelFiles,
): Promise<LoadedParts> {
  const { clock, models, infer } = dependencies
  const config = structuredClone(draft)
  const configs = composingConfigs(models)
  normaliseAfterComplete(config)
  validateLoadedConfig(config, { gpuCount: settings.gpuCount })
  config.modelTransactionPolicy = { decoupled: isEnsembleDecoupled(config, configs) }
  const labels = inheritedLabels(config, models, await readLabels(config, files.modelDirectory))
  const signature = new ModelSignature(config, labels)
  const prunesLikeTriton = settings.prunesEnsemblesLikeTriton ?? false
  const plan = new EnsemblePlan(config, signature, configs, { prunesLikeTriton })
  const uncached = new EnsembleScheduler({ clock, infer }, plan, signature)
  const scheduler = cachedScheduler(dependencies, config, files.version, uncached)
  const steps = config.ensembleScheduling?.step ?? []
  const isReady = (): boolean => steps.every((step) => findPart(models, step)?.isReady ?? false)
  return { config, signature, loaded: nothingToClose, instances: [], scheduler, isReady }
}

/** An output without labels of its own has those of the output it comes from. */
function inheritedLabels(
  config: ModelConfig,
  models: ServedModels,
  own: ReadonlyMap<string, readonly string[]>,
): Map<string, readonly string[]> {
  const labels = new Map(own)
  for (const step of config.ensembleScheduling?.step ?? []) {
    const signature = findPart(models, step)?.signature
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
