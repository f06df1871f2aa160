// --metrics-* → MetricsOptions.

import type { MetricsOptions } from '../options/server-options.ts'
import { badOption, parseBoolean, parseSetting } from './flag-forms.ts'
import type { Environment, Flags } from './flags.ts'

const flag = 'metrics-config'

/** Null when `--allow-metrics=false`. */
export function metricsOptions(flags: Flags, environment: Environment): MetricsOptions | null {
  const settings = flags.all(flag).map((value) => parseSetting(flag, value))
  let hasCounters = true
  let hasSummaries = false
  let hasFirstResponses = false
  let quantiles = [0.5, 0.9, 0.95, 0.99, 0.999]
  for (const { owner, key, value } of settings) {
    if (owner !== '') throw badOption(flag, `unknown owner '${owner}' (expected KEY=VALUE)`)
    switch (key) {
      case 'counter_latencies':
        hasCounters = parseBoolean(flag, value)
        break
      case 'summary_latencies':
        hasSummaries = parseBoolean(flag, value)
        break
      case 'summary_quantiles':
        quantiles = parseQuantiles(value)
        break
      case 'histogram_latencies':
        hasFirstResponses = parseBoolean(flag, value)
        break
      default:
        throw badOption(
          flag,
          `unknown setting '${key}' (expected counter_latencies, summary_latencies, summary_quantiles or histogram_latencies)`,
        )
    }
  }
  if (!flags.isOn('allow-metrics')) return null
  return {
    address: flags.text('metrics-address') || flags.text('http-address'),
    port: flags.integer('metrics-port'),
    intervalMs: flags.integer('metrics-interval-ms'),
    hasGpu: flags.isOn('allow-gpu-metrics') && environment['TRITON_SERVER_CPU_ONLY'] === undefined,
    hasHost: flags.isOn('allow-cpu-metrics'),
    hasCounters,
    hasSummaries,
    quantiles,
    // The version whose defaults these are does not have that family yet.
    hasFirstResponses: hasFirstResponses && !flags.isOn('triton-defaults'),
    hasOwnFamilies: flags.isOn('galatea-metrics'),
  }
}

/** `0.5:0.05,0.99:0.001`: each with the error it may have. Ours is smaller than anybody asks for, so only the form counts. */
function parseQuantiles(text: string): number[] {
  return text.split(',').map((pair) => {
    const match = /^(\d*\.?\d+):(\d*\.?\d+)$/.exec(pair.trim())
    const quantile = Number(match?.[1] ?? NaN)
    if (!(quantile > 0 && quantile < 1)) {
      throw badOption(flag, `summary_quantiles are '<quantile>:<error>,…' between 0 and 1, got '${pair}'`)
    }
    return quantile
  })
}
