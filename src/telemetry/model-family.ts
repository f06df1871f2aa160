// What a metric family with a series per model version is, and the kinds there are.

import { latencyBounds } from './latency-histogram.ts'
import { histogramLines, sampleLine, type MetricsText, type MetricType } from './metrics-text.ts'
import type { LedgerEntry } from './model-ledger.ts'
import type { LoadFigures } from './pressure-meter.ts'
import type { DurationKind, LatencyKind, ModelTotals } from './model-totals.ts'

export type FamilySettings = {
  /** `--metrics-config counter_latencies` */
  readonly hasCounters: boolean
  /** `--metrics-config summary_latencies` */
  readonly hasSummaries: boolean
  /** `--metrics-config histogram_latencies`, where the version of Triton that is meant has it. */
  readonly hasFirstResponses: boolean
  /** `--metrics-config summary_quantiles`, without their allowed errors. */
  readonly quantiles: readonly number[]
  /** The families that Triton 2.51 does not have. */
  readonly hasOwnFamilies: boolean
}

export type FamilyContext = {
  readonly settings: FamilySettings
  readonly text: MetricsText
  /** One moment on both clocks. */
  readonly nowNs: number
  readonly wallMs: number
  /** Null: nothing is measured yet. */
  readonly load: LoadFigures | null
}

export type ModelFamily = {
  readonly name: string
  readonly type: MetricType
  readonly help: string
  /** Labels beside model, version and the model's own tags. */
  readonly extraLabel: string
  /** The settings under which the family is there; always, when left out. */
  readonly isOn: (settings: FamilySettings) => boolean
  /** True: the series stay when the version is gone. */
  readonly outlivesVersion: boolean
  /** `cached`: models whose answers are kept; `uncached`: the others. */
  readonly only: 'cached' | 'uncached' | null
  readonly lines: (entry: LedgerEntry, totals: ModelTotals, context: FamilyContext) => string
}

export type Traits = Partial<Pick<ModelFamily, 'extraLabel' | 'isOn' | 'outlivesVersion' | 'only'>>

const always = (): boolean => true

export const family = (
  name: string,
  type: MetricType,
  help: string,
  lines: ModelFamily['lines'],
  traits: Traits = {},
): ModelFamily => ({
  name,
  type,
  help,
  lines,
  extraLabel: '',
  isOn: always,
  outlivesVersion: false,
  only: null,
  ...traits,
})

/** Without counter_latencies Triton still shows these counters and never moves them. */
export const counter = (name: string, help: string, read: (totals: ModelTotals) => number): ModelFamily =>
  family(name, 'counter', help, (entry, totals, { settings, text }) =>
    sampleLine(text, name, entry.labelText, settings.hasCounters ? read(totals) : 0),
  )

/** Families that Triton has only with counter_latencies. */
export const latencyCounter = (
  name: string,
  help: string,
  read: (totals: ModelTotals) => number | bigint,
  traits: Traits = {},
): ModelFamily =>
  family(name, 'counter', help, (entry, totals, { text }) => sampleLine(text, name, entry.labelText, read(totals)), {
    isOn: ({ hasCounters }) => hasCounters,
    ...traits,
  })

export const duration = (name: string, help: string, kind: DurationKind, traits: Traits = {}): ModelFamily =>
  latencyCounter(name, help, (totals) => totals.durationsNs[kind] / 1000n, traits)

export const ownTraits: Traits = { isOn: ({ hasOwnFamilies }) => hasOwnFamilies }

/** A family that Triton does not have, with a figure of the versions that serve. */
export const own = (
  name: string,
  type: 'counter' | 'gauge',
  help: string,
  read: (entry: LedgerEntry, nowNs: number) => number,
): ModelFamily =>
  family(
    name,
    type,
    help,
    (entry, _totals, { text, nowNs }) => sampleLine(text, name, entry.labelText, read(entry, nowNs)),
    ownTraits,
  )

export const summary = (name: string, help: string, kind: DurationKind, traits: Traits = {}): ModelFamily =>
  family(
    name,
    'summary',
    help,
    (entry, totals, { settings, text, nowNs }) => {
      const { quantiles } = settings
      const { count, sumUs } = totals.summaries[kind]
      // During a reload two versions serve: the quantiles are those of the newer one.
      const newest = [...entry.live].at(-1)?.statistics.summaries?.[kind]
      const values = newest?.window.quantiles(quantiles, nowNs) ?? quantiles.map(() => NaN)
      const before = `${entry.labelText},quantile="`
      let lines = sampleLine(text, `${name}_count`, entry.labelText, count)
      lines += sampleLine(text, `${name}_sum`, entry.labelText, sumUs)
      for (const [i, quantile] of quantiles.entries()) {
        lines += sampleLine(text, name, `${before}${text.boundText(quantile)}"`, values[i] as number)
      }
      return lines
    },
    { extraLabel: 'quantile', isOn: ({ hasSummaries }) => hasSummaries, ...traits },
  )

export const latency = (name: string, help: string, kind: LatencyKind, sums: readonly DurationKind[]): ModelFamily =>
  family(
    name,
    'histogram',
    help,
    (entry, totals, { text, nowNs, wallMs }) => {
      const ns = sums.reduce((sum, part) => sum + totals.durationsNs[part], 0n)
      const noted = totals.exemplars[kind]
      return histogramLines(text, name, entry.labelText, {
        bounds: latencyBounds,
        counts: totals.latencies[kind],
        sum: Number(ns) / 1e9,
        exemplars: noted === null ? null : { exemplars: noted, nowNs, wallMs },
      })
    },
    { ...ownTraits, extraLabel: 'le' },
  )
