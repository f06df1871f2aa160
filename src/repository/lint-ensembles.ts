// Rules that look at an ensemble and at the models it calls.

import type { ModelConfig, ModelEnsemblingStep } from '../config/model-config.ts'
import { nearestWord } from '../base/nearest-word.ts'
import type { LintFinding } from './lint-finding.ts'
import { ModelFindings } from './lint-finding.ts'
import type { LintedModel } from './lint-model.ts'

export function lintEnsembles(models: readonly LintedModel[]): LintFinding[] {
  const byName = new Map(models.map((model) => [model.name, model]))
  return models.flatMap((model) => lintEnsemble(model, byName))
}

function lintEnsemble(model: LintedModel, models: ReadonlyMap<string, LintedModel>): LintFinding[] {
  const found = new ModelFindings(model.name)
  for (const [index, step] of (model.config?.ensembleScheduling?.step ?? []).entries()) {
    const path = `ensemble_scheduling.step[${index}]`
    const at = (field: string): ReturnType<LintedModel['positions']['nearest']> =>
      model.positions.nearest(`${path}.${field}`)
    if (step.modelName === '') continue
    const callee = models.get(step.modelName)
    if (callee === undefined) {
      const near = nearestWord(step.modelName, models.keys())
      const fix = near === null ? 'add the model to the repository' : `did you mean '${near}'?`
      const message = `ensemble ${model.name} contains models that are not available or ambiguous: ${step.modelName}`
      found.error('ensemble', model.configFile, at('model_name'), message, fix)
      continue
    }
    if (step.modelVersion === 0) {
      const message = `ensemble '${model.name}' depends on '${step.modelName}' whose required version 0 is not loaded.`
      found.error('ensemble', model.configFile, at('model_version'), message, 'write model_version: -1 for the latest')
    }
    for (const mistake of mapProblems(model.name, step, callee.config)) {
      found.error('ensemble', model.configFile, at(mistake.field), mistake.message, mistake.fix)
    }
  }
  return found.findings
}

type MapProblem = { readonly field: string; readonly message: string; readonly fix: string }

/** Only where the configuration of the called model lists its tensors: what a backend fills in is not known here. */
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
