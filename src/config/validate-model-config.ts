// Triton judges a configuration at two moments: when the repository is polled (a refusal there is only logged) and when
// the model is loaded, after its backend has completed it. The rules are generators, so that the server can stop at the
// first problem and `galatea check` can show all of them.

import { acceleratorProblems } from './accelerator-keys.ts'
import { problem, throwFirst, type ConfigProblem } from './config-problem.ts'
import { backendOfPlatform, isEnsemble, knownBackend } from './known-backends.ts'
import type { ModelConfig } from './model-config.ts'
import { parameterProblems } from './model-parameters.ts'
import { dynamicBatchingProblems } from './validate-dynamic-batching.ts'
import { ensembleProblems } from './validate-ensemble.ts'
import { amountProblems } from './validate-amounts.ts'
import { instanceGroupProblems, type GpuRules } from './validate-instance-groups.ts'
import { sequenceBatchingProblems, sequenceStateProblems } from './validate-sequence-batching.ts'
import { tensorProblems, untypedBatchInputs } from './validate-tensors.ts'

type PollRules = { readonly isAutoCompleteDisabled: boolean }
type LoadRules = GpuRules

/** While polling: throws the first problem. The configuration is normalised, its backend detected. */
export function validatePolledConfig(config: ModelConfig, rules: PollRules): void {
  throwFirst(pollProblems(config, rules))
}

/** While loading: throws the first problem. The backend has completed the configuration. */
export function validateLoadedConfig(config: ModelConfig, rules: LoadRules, advise?: (fix: string) => void): void {
  throwFirst(loadProblems(config, rules), advise)
}

export function* pollProblems(config: ModelConfig, rules: PollRules): Generator<ConfigProblem> {
  yield* configProblems(config)
  // No backend will complete the inputs and outputs, so the rules for them can run now.
  if (rules.isAutoCompleteDisabled) yield* tensorProblems(config)
}

export function* loadProblems(config: ModelConfig, rules: LoadRules): Generator<ConfigProblem> {
  yield* instanceGroupProblems(config, rules)
  yield* configProblems(config)
  yield* amountProblems(config)
  yield* untypedBatchInputs(config)
  yield* tensorProblems(config)
  yield* sequenceStateProblems(config)
  yield* parameterProblems(config)
  // Other backends have accelerators of their own.
  if (config.backend === 'onnxruntime') yield* acceleratorProblems(config)
}

function* configProblems(config: ModelConfig): Generator<ConfigProblem> {
  if (config.name === '') yield problem('', "model configuration must specify 'name'")
  yield* backendProblems(config)
  if (config.maxBatchSize < 0) {
    const message = `'max_batch_size' must be non-negative value for ${config.name}`
    yield problem('max_batch_size', message, 'use 0 for a model that does not batch')
  }
  yield* dynamicBatchingProblems(config)
  yield* sequenceBatchingProblems(config)
  yield* ensembleProblems(config)
  yield* metricsProblems(config)
  yield* responseCacheProblems(config)
  yield* parameterProblems(config, 'single_flight')
}

function* backendProblems(config: ModelConfig): Generator<ConfigProblem> {
  const { name, platform, backend } = config
  if (backend === '' && !isEnsemble(config)) {
    const fix = 'write backend: "onnxruntime", "python", "typescript" or the name of your own'
    yield problem('platform', `unexpected platform type '${platform}' for ${name}`, fix)
    return
  }
  if (backend !== '' && isEnsemble(config)) {
    const message = `Ensemble model '${name}' must have platform type '${platform}' and empty backend type`
    yield problem('backend', message, "remove 'backend'")
    return
  }
  // Only backends with platforms of their own are held to them; with any other backend the platform is free text.
  const isBound = (knownBackend(backend)?.platforms.length ?? 0) > 0
  if (isBound && backendOfPlatform(platform)?.name !== backend) {
    const message = `unexpected 'platform' and 'backend' pair, got:${platform}, ${backend}`
    yield problem('platform', message, "remove 'platform': the backend alone is enough")
  }
}

function* metricsProblems(config: ModelConfig): Generator<ConfigProblem> {
  for (const [index, control] of (config.modelMetrics?.metricControl ?? []).entries()) {
    const path = `model_metrics.metric_control[${index}]`
    if (control.metricIdentifier === null) yield problem(path, "metric control must specify 'metric_identifier'")
    else if (control.metricIdentifier.family === '') {
      yield problem(`${path}.metric_identifier`, "metric identifier must specify non-empty 'family'")
    }
    if (control.histogramOptions === null) yield problem(path, "metric control must specify 'histogram_options'")
    else if (control.histogramOptions.buckets.length === 0) {
      yield problem(`${path}.histogram_options`, "histogram options must specify non-empty 'buckets'")
    }
  }
}

function* responseCacheProblems(config: ModelConfig): Generator<ConfigProblem> {
  if (!(config.responseCache?.enable ?? false)) return
  const says = (what: string): string =>
    `Response Cache does not currently support model ${config.name} with ${what}. Please disable the response cache.`
  if (config.sequenceBatching !== null) {
    yield problem('response_cache', says('sequence batching scheduler'), "remove 'response_cache'")
  }
  if (config.modelTransactionPolicy?.decoupled ?? false) {
    yield problem('response_cache', says("'decoupled' transaction policy"), "remove 'response_cache'")
  }
}
