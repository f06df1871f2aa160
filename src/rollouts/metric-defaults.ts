// The metrics that `judge.metrics` of a rollout may name, with what they are when the file says no more.

import type { MetricRule } from './judge/metric-rule.ts'

const shared = { onWorse: 'rollback', isDryRun: false } as const
const counts = { ...shared, test: 'counts', leastTicks: 3, leastSources: 3, limit: null } as const
const sign = { ...shared, test: 'sign', margin: 0.2, atLeast: 0, isHigherWorse: true } as const

const fixed: Readonly<Record<string, MetricRule>> = {
  errors: { ...counts, name: 'errors', source: 'errors', addedRate: 0.005, factor: 1.5, leastEvents: 5 },
  executions: {
    ...counts,
    name: 'executions',
    source: 'executions',
    addedRate: 0,
    factor: 1,
    leastEvents: 3,
  },
  accuracy: { ...counts, name: 'accuracy', source: 'accuracy', addedRate: 0.01, factor: 1, leastEvents: 20 },
  compute: { ...sign, name: 'compute', source: 'compute', quantile: 0.5 },
  tokens_per_second: {
    ...sign,
    name: 'tokens_per_second',
    source: 'tokens_per_second',
    quantile: 0.5,
    isHigherWorse: false,
  },
  slo: { ...shared, name: 'slo', test: 'share', source: 'slo', limit: 0.01, aboveMs: 0 },
  agreement: { ...shared, name: 'agreement', test: 'share', source: 'agreement', limit: 0.01, aboveMs: 0 },
  drift: { ...shared, name: 'drift', test: 'drift', output: '', bins: null, classes: 100, margin: 0.1 },
  memory: { ...shared, name: 'memory', test: 'memory', factor: 1.5, limitBytes: null },
  promql: {
    ...shared,
    name: 'promql',
    test: 'promql',
    query: '',
    failIf: { comparison: '>', value: 0 },
    intervalNs: 30e9,
    failures: 3,
  },
}

/** For messages. */
export const metricNames: readonly string[] = [
  ...Object.keys(fixed),
  'latency_p50',
  'latency_p99',
  'first_response_p99',
  'score:<name>',
]

/** `latency_p999` is the quantile 0.999. Other names of three digits, as `latency_p100`, are mistakes: nobody means p10 by them. */
const quantileName = /^(latency|first_response)_p([1-9][0-9]?|9[0-9]{2,3})$/

/** Null for a name that is no metric. Several `drift` or `promql` metrics are told apart as `drift:a`, `promql:b`. */
export function metricDefaults(name: string): MetricRule | null {
  const [, source, digits] = quantileName.exec(name) ?? []
  if (source !== undefined && digits !== undefined) {
    const quantile = Number(`0.${digits.length === 1 ? `0${digits}` : digits}`)
    return { ...sign, name, source, quantile, atLeast: 1 }
  }
  if (/^score:.{1,100}$/.test(name)) {
    return { ...sign, name, source: name, quantile: null, margin: 0.05, isHigherWorse: false }
  }
  const [kind = ''] = /^(drift|promql)(?=:.{1,100}$)/.exec(name) ?? []
  const rule = fixed[kind === '' ? name : kind]
  return rule === undefined || !Object.hasOwn(fixed, kind === '' ? name : kind) ? null : { ...rule, name }
}
