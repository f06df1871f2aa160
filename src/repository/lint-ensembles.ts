// Rules that look at an ensemble and at the models it calls.

import { ensembleInconsistency } from '../config/ensemble-consistency.ts'
import type { ModelConfig, ModelEnsemblingStep } from '../config/model-config.ts'
import { nearestWord } from '../base/nearest-word.ts'
import type { LintFinding } from './lint-finding.ts'
import { ModelFindings } from './lint-finding.ts'
import type { LintedModel } from './lint-model.ts'

type Models = ReadonlyMap<string, LintedModel>

/** `failing`: models that do not load, for reasons of their own. */
export function lintEnsembles(models: readonly LintedModel[], failing: ReadonlySet<string>): LintFinding[] {
  const byName = new Map(models.map((model) => [model.name, model]))
  const ensembles = models.filter(({ config }) => config !== null && config.ensembleScheduling !== null)
  const found = new Map(ensembles.map((model) => [model.name, lintEnsemble(model, byName)]))
  const failed = new Set([...failing, ...[...found].filter(([, one]) => one.findings.length > 0).map(([name]) => name)])
  // An ensemble of ensembles: a round for each level that fails.
  for (let size = -1; size !== failed.size;) {
    size = failed.size
    for (const model of ensembles) addFailingParts(model, failed, found.get(model.name) as ModelFindings)
  }
  return [...found.values()].flatMap(({ findings }) => findings)
}

function addFailingParts(model: LintedModel, failed: Set<string>, found: ModelFindings): void {
  for (const [index, { modelName }] of stepsOf(model).entries()) {
    if (!failed.has(modelName) || modelName === model.name) continue
    const message = `ensemble '${model.name}' depends on '${modelName}' which has no loaded version`
    const at = model.positions.nearest(`ensemble_scheduling.step[${index}].model_name`)
    found.error('ensemble', model.configFile, at, message, `mend '${modelName}' first`)
    failed.add(model.name)
  }
}

const stepsOf = (model: LintedModel): readonly ModelEnsemblingStep[] => model.config?.ensembleScheduling?.step ?? []

function lintEnsemble(model: LintedModel, models: Models): ModelFindings {
  const found = new ModelFindings(model.name)
  for (const [index, step] of stepsOf(model).entries()) {
    const path = `ensemble_scheduling.step[${index}]`
    const at = (field: string): ReturnType<LintedModel['positions']['nearest']> =>
      model.positions.nearest(`${path}.${field}`)
    if (step.modelName === '') continue
    const callee = models.get(step.modelName)
    if (callee === undefined || callee === model) {
      const near = nearestWord(step.modelName, models.keys())
      const others = near === null ? 'add the model to the repository' : `did you mean '${near}'?`
      const fix = callee === model ? 'an ensemble cannot call itself' : others
      const message = `ensemble ${model.name} contains models that are not available or ambiguous: ${step.modelName}`
      found.error('ensemble', model.configFile, at('model_name'), message, fix)
      continue
    }
    if (reaches(callee, model.name, models)) {
      const message = `circular dependency between ensembles: ${model.name} -> ... -> ${callee.name} -> ${model.name}`
      found.error('ensemble', model.configFile, at('model_name'), message, 'take one of the steps out')
      continue
    }
    const wanted = String(step.modelVersion)
    if (step.modelVersion !== -1 && callee.config !== null && !callee.versions.includes(wanted)) {
      const message = `ensemble '${model.name}' depends on '${step.modelName}' whose required version ${wanted} is not loaded.`
      const served = callee.versions.length === 0 ? '' : `; it serves version ${callee.versions.join(', ')}`
      const fix = `write model_version: -1 for the latest${served}`
      found.error('ensemble', model.configFile, at('model_version'), message, fix)
    }
    for (const mistake of mapProblems(model.name, step, callee.config)) {
      found.error('ensemble', model.configFile, at(mistake.field), mistake.message, mistake.fix)
    }
  }
  if (found.findings.length === 0) addInconsistency(model, models, found)
  return found
}

/** Whether `model` calls `wanted`, itself or through other ensembles. */
function reaches(model: LintedModel, wanted: string, models: Models): boolean {
  const seen = new Set([model.name])
  for (const name of seen) {
    const steps = models.get(name)
    for (const { modelName } of steps === undefined ? [] : stepsOf(steps)) seen.add(modelName)
  }
  return seen.has(wanted)
}

/** The check of the load itself, on as many steps as are known with all their tensors. */
function addInconsistency(model: LintedModel, models: Models, found: ModelFindings): void {
  const { config } = model
  if (config?.ensembleScheduling === undefined || config.ensembleScheduling === null) return
  const { ensembleScheduling } = config
  const configOf = (step: ModelEnsemblingStep): ModelConfig => models.get(step.modelName)?.config as ModelConfig
  const known = ensembleScheduling.step.filter((step) => isDescribed(models.get(step.modelName)?.config ?? null))
  for (const index of known.keys()) {
    const first = { ...config, ensembleScheduling: { ...ensembleScheduling, step: known.slice(0, index + 1) } }
    const message = ensembleInconsistency(first, configOf)
    if (message === null) continue
    const place = ensembleScheduling.step.indexOf(known[index] as ModelEnsemblingStep)
    const at = model.positions.nearest(`ensemble_scheduling.step[${place}].model_name`)
    found.error('ensemble', model.configFile, at, message, inconsistencyFix(message))
    return
  }
}

const isDescribed = (config: ModelConfig | null): boolean =>
  config !== null && config.input.length > 0 && config.output.length > 0

const inconsistencyFix = (message: string): string =>
  message.includes('maximum batch size')
    ? 'lower max_batch_size of the ensemble, or raise that of the model'
    : message.includes('inconsistent')
      ? 'make both sides equal: correct the type or the dims where they are wrong, or put a model between them that converts'
      : ''

type MapProblem = { readonly field: string; readonly message: string; readonly fix: string }

/** Only where the tensors of the called model are known: some backends fill them in by running the model. */
function* mapProblems(ensemble: string, step: ModelEnsemblingStep, callee: ModelConfig | null): Generator<MapProblem> {
  const inputs = callee?.input.map((input) => input.name) ?? []
  const outputs = callee?.output.map((output) => output.name) ?? []
  for (const [key, tensor] of inputs.length > 0 ? step.inputMap : []) {
    if (inputs.includes(key)) continue
    const message = `in ensemble ${ensemble}, ensemble tensor ${tensor} is mapping to non-existing input ${key} in model ${step.modelName}`
    yield { field: `input_map["${key}"]`, message, fix: `its inputs are ${inputs.join(', ')}` }
  }
  for (const [key, tensor] of outputs.length > 0 ? step.outputMap : []) {
    if (outputs.includes(key)) continue
    const message = `in ensemble ${ensemble}, ensemble tensor ${tensor} is mapped from non-existing output ${key} in model ${step.modelName}`
    yield { field: `output_map["${key}"]`, message, fix: `its outputs are ${outputs.join(', ')}` }
  }
  for (const input of callee?.input ?? []) {
    if (input.optional || step.inputMap.has(input.name)) continue
    const message = `in ensemble ${ensemble}, input ${input.name} in model ${step.modelName} is not mapped to any ensemble tensors`
    yield {
      field: 'input_map',
      message,
      fix: `add input_map { key: "${input.name}" value: "<tensor of the ensemble>" }`,
    }
  }
}
