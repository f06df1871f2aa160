import { problem, type ConfigProblem } from './config-problem.ts'
import type { ModelConfig } from './model-config.ts'

const parameter = 'single_flight'

/** `parameters { key: "single_flight" … }`: equal requests that are there at one time run once. */
export function isSingleFlight(config: ModelConfig): boolean {
  return config.parameters.get(parameter)?.stringValue === 'true'
}

export function* singleFlightProblems(config: ModelConfig): Generator<ConfigProblem> {
  const value = config.parameters.get(parameter)?.stringValue ?? 'false'
  const field = `parameters.${parameter}`
  if (value !== 'true' && value !== 'false') {
    yield problem(field, `parameter '${parameter}' of model ${config.name} is '${value}'`, "give 'true' or 'false'")
  }
  if (value !== 'true') return
  const obstacles: [what: string, isThere: boolean][] = [
    ['sequence batching', config.sequenceBatching !== null],
    ["the 'decoupled' transaction policy", config.modelTransactionPolicy?.decoupled ?? false],
    ['preserve_ordering', config.dynamicBatching?.preserveOrdering ?? false],
  ]
  for (const [what, isThere] of obstacles) {
    if (!isThere) continue
    yield problem(field, `'${parameter}' of model ${config.name} does not go with ${what}`, `remove one of the two`)
  }
}
