import { problem, type ConfigProblem } from './config-problem.ts'
import type { ModelConfig, ModelDynamicBatching, ModelQueuePolicy } from './model-config.ts'
import { parameterProblems } from './model-parameters.ts'

export function* dynamicBatchingProblems(config: ModelConfig): Generator<ConfigProblem> {
  const batching = config.dynamicBatching
  yield* parameterProblems(config, 'slo_ms')
  if (batching === null) return
  const at = 'dynamic_batching'
  yield* preferredSizeProblems(config, batching.preferredBatchSize, 'dynamic batching preferred size', at)
  yield* priorityProblems(config, batching, at)
  if (batching.preserveOrdering) yield* orderingProblems(config, batching, at)
}

/** For the dynamic batcher and for the sequence batcher's `oldest` strategy; `what` is Triton's name for the sizes. */
export function* preferredSizeProblems(
  config: ModelConfig,
  sizes: readonly number[],
  what: string,
  at: string,
): Generator<ConfigProblem> {
  for (const [index, size] of sizes.entries()) {
    const path = `${at}.preferred_batch_size[${index}]`
    if (size <= 0) yield problem(path, `${what} must be positive for ${config.name}`, `it is ${size}`)
    if (size > config.maxBatchSize) {
      const fix =
        config.maxBatchSize === 0
          ? "set 'max_batch_size' at the top level of the file: without it the model does not batch at all"
          : `lower it to ${config.maxBatchSize}, or raise 'max_batch_size'`
      yield problem(path, `${what} must be <= max batch size for ${config.name}`, fix)
    }
  }
}

function* priorityProblems(config: ModelConfig, batching: ModelDynamicBatching, at: string): Generator<ConfigProblem> {
  const levels = batching.priorityLevels
  if (levels === 0n) return
  const isLevel = (level: bigint): boolean => level >= 1n && level <= levels
  if (!isLevel(batching.defaultPriorityLevel)) {
    const message = `default priority level must be in range [1, ${levels}] for ${config.name}`
    const fix = "set 'default_priority_level': the level of requests that ask for none; 1 is the highest"
    const path = batching.defaultPriorityLevel === 0n ? 'priority_levels' : 'default_priority_level'
    yield problem(`${at}.${path}`, message, fix)
  }
  for (const level of batching.priorityQueuePolicy.keys()) {
    if (isLevel(level)) continue
    const message = `priority queue policy must have priority level in range [1, ${levels}] for ${config.name}`
    yield problem(`${at}.priority_queue_policy["${level}"]`, message, `the key is ${level}`)
  }
}

function* orderingProblems(config: ModelConfig, batching: ModelDynamicBatching, at: string): Generator<ConfigProblem> {
  if (batching.priorityLevels > 1n) {
    const message = `Only one priority level is allowed when 'preserve_ordering' is true for ${config.name}`
    yield problem(`${at}.priority_levels`, message, "remove 'preserve_ordering' or the priority levels")
  }
  const delays = (policy: ModelQueuePolicy | null): boolean =>
    policy !== null && policy.timeoutAction === 'DELAY' && policy.defaultTimeoutMicroseconds !== 0n
  const message = `Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for ${config.name}`
  const fix = "use timeout_action: REJECT, or remove 'preserve_ordering'"
  if (delays(batching.defaultQueuePolicy)) yield problem(`${at}.default_queue_policy`, message, fix)
  for (const [level, policy] of batching.priorityQueuePolicy) {
    if (delays(policy)) yield problem(`${at}.priority_queue_policy["${level}"]`, message, fix)
  }
}
