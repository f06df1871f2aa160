// The sums behind a judgement, by metric. They are plain values: they are stored, sent, and those of several servers add up.

import { addCountSums, noCountSums, type CountSums } from './counts-test.ts'
import { addDriftSums, noDriftSums, type DriftSums } from './drift-test.ts'
import { addMeanSums, lessMeanSums, noMeanSums, type MeanSums } from './mean-interval.ts'
import type { MetricRule } from './metric-rule.ts'
import { addShareSums, noShareSums, type ShareSums } from './share-test.ts'
import { addSignSums, noSignSums, type SignSums } from './sign-test.ts'
import { lessCounts, ValueHistogram, type HistogramCounts } from './value-histogram.ts'

export type ArmValues = { readonly histogram: HistogramCounts; readonly mean: MeanSums }

/** The values of both arms. */
export type BothValues = { readonly candidate: ArmValues; readonly stable: ArmValues }

export type SignTestSums = BothValues & {
  readonly test: 'sign'
  readonly signs: SignSums
  /** The values since each later start of `signs`, as they were after the last tick. */
  readonly later: readonly (BothValues & { readonly start: number })[]
}

export type MetricSums =
  | { readonly test: 'counts'; readonly counts: CountSums }
  | SignTestSums
  | ({ readonly test: 'share' } & ShareSums)
  | { readonly test: 'drift'; readonly drift: DriftSums }
  | { readonly test: 'memory'; readonly candidateBytes: number; readonly stableBytes: number }
  | { readonly test: 'promql'; readonly failuresInRow: number; readonly checks: number }

/** By name of the metric. */
export type EvidenceSums = Readonly<Record<string, MetricSums>>

export const noArmValues: ArmValues = { histogram: [], mean: noMeanSums }

export function noMetricSums(rule: MetricRule): MetricSums {
  if (rule.test === 'drift') return { test: 'drift', drift: noDriftSums(rule.classes) }
  return emptySums[rule.test]
}

const emptySums: Readonly<Record<Exclude<MetricRule['test'], 'drift'>, MetricSums>> = {
  counts: { test: 'counts', counts: noCountSums },
  sign: { test: 'sign', signs: noSignSums, candidate: noArmValues, stable: noArmValues, later: [] },
  share: { test: 'share', ...noShareSums },
  memory: { test: 'memory', candidateBytes: 0, stableBytes: 0 },
  promql: { test: 'promql', failuresInRow: 0, checks: 0 },
}

/** Sums that an earlier program kept, or that one sends, may have no windows. */
export function withWindows(sums: MetricSums): MetricSums {
  if (sums.test === 'share') return { ...noShareSums, ...sums }
  if (sums.test === 'drift') return { test: 'drift', drift: { ...noDriftSums(0), ...sums.drift } }
  return sums
}

/** Throws when the two are sums of different tests: the servers have different rollouts then. */
function addMetricSums(a: MetricSums, b: MetricSums): MetricSums {
  if (a.test === 'counts' && b.test === 'counts') return { test: 'counts', counts: addCountSums(a.counts, b.counts) }
  if (a.test === 'sign' && b.test === 'sign') {
    const signs = addSignSums(a.signs, b.signs)
    return { ...addBothValues(a, b), test: 'sign', signs, later: addLaterValues(signs, [...a.later, ...b.later]) }
  }
  if (a.test === 'share' && b.test === 'share') return { test: 'share', ...addShareSums(a, b) }
  if (a.test === 'drift' && b.test === 'drift') return { test: 'drift', drift: addDriftSums(a.drift, b.drift) }
  // Every server has its own copy of both versions: the worst server decides.
  if (a.test === 'memory' && b.test === 'memory') {
    return a.candidateBytes - a.stableBytes >= b.candidateBytes - b.stableBytes ? a : b
  }
  // All servers ask the same Prometheus.
  if (a.test === 'promql' && b.test === 'promql') return a.failuresInRow >= b.failuresInRow ? a : b
  throw new Error(`sums of the test '${a.test}' and of the test '${b.test}' do not add up`)
}

const addBothValues = (a: BothValues, b: BothValues): BothValues => ({
  candidate: addArmValues(a.candidate, b.candidate),
  stable: addArmValues(a.stable, b.stable),
})

/** Of the starts that the votes have. */
const addLaterValues = ({ later }: SignSums, values: SignTestSums['later']): SignTestSums['later'] =>
  later.flatMap(({ start }) => {
    const [first, ...others] = values.filter((one) => one.start === start)
    return first === undefined ? [] : [{ ...others.reduce<BothValues>(addBothValues, first), start }]
  })

function addArmValues(a: ArmValues, b: ArmValues): ArmValues {
  const histogram = new ValueHistogram(a.histogram)
  histogram.addAll(new ValueHistogram(b.histogram))
  return { histogram: histogram.counts(), mean: addMeanSums(a.mean, b.mean) }
}

/** The values of `a` without those of `b`, which are some of them. */
export const lessArmValues = (a: ArmValues, b: ArmValues): ArmValues => ({
  histogram: lessCounts(a.histogram, b.histogram),
  mean: lessMeanSums(a.mean, b.mean),
})

export function addEvidence(a: EvidenceSums, b: EvidenceSums): EvidenceSums {
  const all: Record<string, MetricSums> = { ...a }
  for (const [name, sums] of Object.entries(b)) {
    const known = all[name]
    all[name] = known === undefined ? sums : addMetricSums(withWindows(known), withWindows(sums))
  }
  return all
}
