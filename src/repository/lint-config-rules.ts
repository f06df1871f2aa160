// Warnings about what the server accepts in a configuration, but nobody is likely to mean.

import type { ModelConfig, ModelDynamicBatching, ModelInstanceGroup } from '../config/model-config.ts'
import { nearestParameter, parameterRow } from '../config/model-parameters.ts'

type ConfigWarning = {
  readonly rule: string
  readonly path: string
  readonly message: string
  readonly fix: string
}

export function* configWarnings(config: ModelConfig): Generator<ConfigWarning> {
  yield* repeatedNames(config)
  if (config.dynamicBatching !== null) yield* batchingWarnings(config, config.dynamicBatching)
  yield* sequenceWarnings(config)
  for (const [index, group] of config.instanceGroup.entries()) {
    yield* instanceWarnings(group, `instance_group[${index}]`)
  }
  yield* ensembleWarnings(config)
  yield* parameterWarnings(config)
}

function* repeatedNames(config: ModelConfig): Generator<ConfigWarning> {
  for (const [kind, tensors] of [
    ['input', config.input],
    ['output', config.output],
  ] as const) {
    const seen = new Set<string>()
    for (const [index, { name }] of tensors.entries()) {
      if (seen.has(name)) {
        const message = `${kind} '${name}' is listed twice; the second is ignored`
        yield { rule: 'repeated-name', path: `${kind}[${index}]`, message, fix: 'remove one of them' }
      }
      seen.add(name)
    }
  }
}

function* batchingWarnings(config: ModelConfig, batching: ModelDynamicBatching): Generator<ConfigWarning> {
  if (config.maxBatchSize === 0 && config.input.length > 0 && config.output.length > 0) {
    const message = 'dynamic_batching has no effect: max_batch_size is 0, so every request runs alone'
    const fix = 'set max_batch_size at the top level of the file, or remove dynamic_batching'
    yield { rule: 'batching-without-size', path: 'dynamic_batching', message, fix }
  }
  const policy = batching.defaultQueuePolicy
  if (policy !== null && policy.allowTimeoutOverride && policy.defaultTimeoutMicroseconds === 0n) {
    const message =
      "allow_timeout_override has no effect: a request's timeout only counts when it is shorter than the default"
    const fix = 'set default_timeout_microseconds to the longest wait you allow'
    yield { rule: 'timeout-override', path: 'dynamic_batching.default_queue_policy', message, fix }
  }
}

function* sequenceWarnings(config: ModelConfig): Generator<ConfigWarning> {
  for (const [index, input] of (config.sequenceBatching?.controlInput ?? []).entries()) {
    if (input.control.length > 0) continue
    const message = `control_input '${input.name}' has no control: the model never gets it`
    const path = `sequence_batching.control_input[${index}]`
    yield { rule: 'empty-control', path, message, fix: 'add control { kind: CONTROL_SEQUENCE_START … }, or remove it' }
  }
}

function* instanceWarnings(group: ModelInstanceGroup, path: string): Generator<ConfigWarning> {
  if (group.count < 0) {
    const message = `count is ${group.count}; the backend's default is used`
    yield { rule: 'instance-count', path: `${path}.count`, message, fix: 'give a count of 1 or more, or leave it out' }
  }
  const resources = group.rateLimiter?.resources ?? []
  for (const [index, { name, global }] of resources.entries()) {
    if (!resources.slice(0, index).some((other) => other.name === name && other.global !== global)) continue
    const message = `Resource "${name}" is present as both global and device-specific resource in the model configuration.`
    const fix = 'this is refused when the rate limiter is on: give it another name'
    yield { rule: 'resource-clash', path: `${path}.rate_limiter.resources[${index}]`, message, fix }
  }
}

function* ensembleWarnings(config: ModelConfig): Generator<ConfigWarning> {
  if (config.ensembleScheduling === null || config.defaultModelFilename === '') return
  const message = 'default_model_filename means nothing for an ensemble'
  yield { rule: 'ensemble-file', path: 'default_model_filename', message, fix: 'remove it' }
}

/** A model may have parameters of its own, so only a key that is nearly right gets a warning. */
function* parameterWarnings({ backend, parameters }: ModelConfig): Generator<ConfigWarning> {
  for (const key of parameters.keys()) {
    const near = parameterRow(backend, key) === null ? nearestParameter(backend, key) : null
    if (near === null) continue
    const message = `parameter '${key}' means nothing to the server`
    yield { rule: 'parameter', path: `parameters["${key}"]`, message, fix: `did you mean '${near}'?` }
  }
}
