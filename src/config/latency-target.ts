import { problem, type ConfigProblem } from './config-problem.ts'
import type { ModelConfig } from './model-config.ts'

const parameter = 'slo_ms'

/** `parameters { key: "slo_ms" … }`: how long an answer may take, for a batcher that chooses its delay. Null: not set. */
export function latencyTargetNs(config: ModelConfig): number | null {
  const text = config.parameters.get(parameter)?.stringValue
  return text === undefined ? null : Number(text) * 1e6
}

export function* latencyTargetProblems(config: ModelConfig): Generator<ConfigProblem> {
  const text = config.parameters.get(parameter)?.stringValue
  if (text === undefined) return
  const say = (what: string): ConfigProblem =>
    problem(`parameters["${parameter}"]`, `parameter '${parameter}' of model '${config.name}' ${what}`)
  const value = text.trim() === '' ? NaN : Number(text)
  if (!(value > 0 && value <= 3_600_000)) {
    yield say(`must be a number of milliseconds above 0 and up to 3600000, got '${text}'`)
  }
  if (config.dynamicBatching === null) yield say("needs 'dynamic_batching { }', whose delay it chooses")
}
