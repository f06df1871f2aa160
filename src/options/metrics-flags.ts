// The metrics port, and which metrics there are.

import { flag, ours, repeatable, settingsOf, type FlagValues } from './flag.ts'
import {
  badOption,
  badSetting,
  boolean,
  choice,
  formOf,
  milliseconds,
  parseBoolean,
  parseSetting,
  port,
  text,
} from './flag-forms.ts'
import type { MetricsOptions } from './server-options.ts'

export const metricsFlags = [
  flag('allow-metrics', boolean, 'true').says('Serve metrics').switches('metrics'),
  flag('allow-gpu-metrics', boolean, 'true')
    .says('Report GPUs, where nvidia-smi is')
    .set(
      'metrics.hasGpu',
      (flags, { environment }) =>
        flags.isOn('allow-gpu-metrics') && environment['TRITON_SERVER_CPU_ONLY'] === undefined,
    ),
  flag('allow-cpu-metrics', boolean, 'true').says('Report CPU and memory').to('metrics.hasHost'),
  flag('metrics-address', text('ADDRESS'), '')
    .says('Address to listen on; that of HTTP when not set')
    .set('metrics.address', (flags) => flags.text('metrics-address') || flags.text('http-address')),
  flag('metrics-port', port, '8002').says('Port to listen on').to('metrics.port'),
  flag('metrics-interval-ms', milliseconds, '2000')
    .says('Milliseconds between two looks at the hardware')
    .to('metrics.intervalMs'),
  flag(
    'metrics-config',
    formOf('KEY=VALUE', (name, value) => readSetting(name, parseSetting(name, value))),
    '',
    repeatable,
  )
    .says('Which metrics there are, such as summary_latencies=true')
    .set('metrics.hasCounters', (flags) => latencies(flags).hasCounters)
    .set('metrics.hasSummaries', (flags) => latencies(flags).hasSummaries)
    .set('metrics.quantiles', (flags) => latencies(flags).quantiles)
    // The version of Triton that --triton-defaults follows does not have this family yet.
    .set('metrics.hasFirstResponses', (flags) => latencies(flags).hasFirstResponses && !flags.isOn('triton-defaults')),
  flag('llm-metrics', choice('galatea', 'vllm'), 'galatea', ours)
    .says("Names of the metrics of language models: galatea_llm_* alone, or vLLM's vllm:* beside them")
    .to('engine.languageMetricNames'),
  flag('galatea-metrics', boolean, 'true', { ...ours, tritonDefault: 'false' })
    .says('Serve the metrics that Triton does not have, too')
    .to('metrics.hasOwnFamilies'),
]

type Latencies = Pick<MetricsOptions, 'hasCounters' | 'hasSummaries' | 'hasFirstResponses' | 'quantiles'>

const latencies = (flags: FlagValues): Latencies =>
  Object.assign(
    { hasCounters: true, hasSummaries: false, hasFirstResponses: false, quantiles: [0.5, 0.9, 0.95, 0.99, 0.999] },
    ...settingsOf(flags, 'metrics-config').map((setting) => readSetting('metrics-config', setting)),
  ) as Latencies

function readSetting(name: string, { owner, key, value }: ReturnType<typeof parseSetting>): Partial<Latencies> {
  if (owner !== '') throw badSetting(name, `${owner},${key}=${value}`)
  switch (key) {
    case 'counter_latencies':
      return { hasCounters: parseBoolean(name, value) }
    case 'summary_latencies':
      return { hasSummaries: parseBoolean(name, value) }
    case 'summary_quantiles':
      return { quantiles: parseQuantiles(name, value) }
    case 'histogram_latencies':
      return { hasFirstResponses: parseBoolean(name, value) }
    default:
      throw badOption(
        name,
        `unknown setting '${key}' (expected counter_latencies, summary_latencies, summary_quantiles or histogram_latencies)`,
      )
  }
}

/** `0.5:0.05,0.99:0.001`: a quantile and the error that it may have. The error is not used: ours is always smaller. */
function parseQuantiles(name: string, list: string): number[] {
  return list.split(',').map((pair) => {
    const match = /^(\d*\.?\d+):(\d*\.?\d+)$/.exec(pair.trim())
    const quantile = Number(match?.[1] ?? NaN)
    if (quantile >= 0 && quantile <= 1) return quantile
    throw badOption(name, `summary_quantiles are '<quantile>:<error>,…' from 0 to 1, got '${pair}'`)
  })
}
