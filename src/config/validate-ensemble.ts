// Rules for an ensemble's own configuration. Whether its steps fit the models that they call is checked later, when these
// models are loaded (ensemble-consistency.ts).

import { problem, type ConfigProblem } from './config-problem.ts'
import { isEnsemble } from './known-backends.ts'
import type { ModelConfig, ModelEnsemblingStep } from './model-config.ts'

const at = 'ensemble_scheduling'

export function* ensembleProblems(config: ModelConfig): Generator<ConfigProblem> {
  const scheduling = config.ensembleScheduling
  if (scheduling === null) {
    if (!isEnsemble(config)) return
    const message = `ensemble scheduling must be set for ensemble ${config.name} whose platform is ensemble`
    yield problem('platform', message, 'add ensemble_scheduling { step { … } }')
    return
  }
  if (!isEnsemble(config)) {
    const message = `ensemble scheduling cannot be set for model '${config.name}' whose platform is not ensemble`
    yield problem(at, message, 'write platform: "ensemble" and leave backend out')
    return
  }
  yield* forbiddenProblems(config)
  if (scheduling.step.length === 0) {
    yield problem(at, `must specify 'step' for ensemble '${config.name}'`, 'add one step for each model to call')
    return
  }
  const graph = new Map<string, EnsembleTensor>()
  yield* stepProblems(config, graph)
  if (scheduling.step.some((step) => step.inputMap.size === 0 || step.outputMap.size === 0)) return
  yield* flowProblems(config, graph)
}

function* forbiddenProblems(config: ModelConfig): Generator<ConfigProblem> {
  const fix = 'it belongs into the configuration of the models it calls'
  if (config.instanceGroup.length > 0) {
    yield problem('instance_group', `instance group should not be specified for ensemble '${config.name}'`, fix)
  }
  if (config.optimization !== null) {
    yield problem('optimization', `optimization should not be specified for ensemble '${config.name}'`, fix)
  }
  if (config.modelWarmup.length > 0) {
    yield problem('model_warmup', `model_warmup can not be specified for ensemble '${config.name}'`, fix)
  }
}

type EnsembleTensor = {
  readonly path: string
  /** The input tensors of the step that writes this tensor; empty for an input of the ensemble. */
  readonly needs: string[]
  readonly feeds: string[]
  isWritten: boolean
  isReady: boolean
}

function* stepProblems(config: ModelConfig, graph: Map<string, EnsembleTensor>): Generator<ConfigProblem> {
  for (const [index, step] of (config.ensembleScheduling?.step ?? []).entries()) {
    const path = `${at}.step[${index}]`
    const which = `in step ${index} of ensemble '${config.name}'`
    if (step.modelName === '') yield problem(path, `must specify 'model_name' ${which}`, 'name the model to call')
    if (step.inputMap.size === 0) {
      const fix = 'add input_map { key: "<input of the model>" value: "<tensor of the ensemble>" } for each input'
      yield problem(path, `must specify 'input_map' ${which}`, fix)
    }
    if (step.outputMap.size === 0) {
      const fix = 'add output_map { key: "<output of the model>" value: "<tensor of the ensemble>" } for each output'
      yield problem(path, `must specify 'output_map' ${which}`, fix)
    }
    yield* connectStep(config, step, index, graph)
  }
}

function* connectStep(
  config: ModelConfig,
  step: ModelEnsemblingStep,
  index: number,
  graph: Map<string, EnsembleTensor>,
): Generator<ConfigProblem> {
  const node = (name: string, path: string): EnsembleTensor => {
    let tensor = graph.get(name)
    if (tensor === undefined) {
      graph.set(name, (tensor = { path, needs: [], feeds: [], isWritten: false, isReady: false }))
    }
    return tensor
  }
  const path = `${at}.step[${index}]`
  const sources = [...step.inputMap].map(([key, name]) => [name, node(name, `${path}.input_map["${key}"]`)] as const)
  for (const [key, name] of step.outputMap) {
    const target = node(name, `${path}.output_map["${key}"]`)
    if (target.isWritten) {
      const message = `ensemble tensor '${name}' can appear in an output map only once for ensemble '${config.name}' step ${index}`
      yield problem(`${path}.output_map["${key}"]`, message, 'give it another name here')
    }
    target.isWritten = true
    for (const [sourceName, source] of sources) {
      target.needs.push(sourceName)
      source.feeds.push(name)
    }
  }
}

function* flowProblems(config: ModelConfig, graph: Map<string, EnsembleTensor>): Generator<ConfigProblem> {
  const ready: EnsembleTensor[] = []
  for (const [index, { name }] of config.input.entries()) {
    const tensor = graph.get(name)
    if (tensor === undefined) {
      // The quote missing before the ensemble's name is Triton's.
      const message = `ensemble input '${name}' for ensemble ${config.name}' is not used`
      yield problem(`input[${index}]`, message, 'map it into a step with input_map, or remove it')
      continue
    }
    tensor.isReady = true
    ready.push(tensor)
  }
  const isReady = (name: string): boolean => graph.get(name)?.isReady ?? false
  for (let tensor = ready.pop(); tensor !== undefined; tensor = ready.pop()) {
    for (const name of tensor.feeds) {
      const next = graph.get(name)
      if (next === undefined || next.isReady || !next.needs.every(isReady)) continue
      next.isReady = true
      ready.push(next)
    }
  }
  for (const [index, { name }] of config.output.entries()) {
    const tensor = graph.get(name)
    if (tensor === undefined) {
      const message = `ensemble output '${name}' for ensemble ${config.name}' is not used`
      yield problem(`output[${index}]`, message, 'write it from a step with output_map, or remove it')
    } else if (!tensor.isReady) {
      const missing = tensor.needs.find((need) => !isReady(need))
      const why = missing === undefined ? '' : `: at least one of its depending tensors, '${missing}', is not connected`
      yield problem(`output[${index}]`, `output '${name}' for ensemble '${config.name}' is not written${why}`)
    }
  }
  const outputs = new Set(config.output.map((output) => output.name))
  for (const [name, tensor] of graph) {
    if (outputs.has(name) || (tensor.isReady && tensor.feeds.length > 0)) continue
    const message = `ensemble tensor '${name}' is unused in ensemble '${config.name}'`
    yield problem(tensor.path, message, 'connect it to a step or an output, or remove it from the map')
  }
}
