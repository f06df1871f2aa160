// Every metric family that has a series per model version: the page prints this table and the reference is made from it.

import { latencyBounds } from './latency-histogram.ts'
import type { LatencySummary } from './latency-summaries.ts'
import type { LedgerEntry } from './model-ledger.ts'
import type { DurationKind, LatencyKind, ModelTotals } from './model-totals.ts'
import { histogramLines, labelText, sampleLine, type MetricType } from './prometheus-text.ts'
import { failureReasons } from './statistics.ts'

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

export type FamilyContext = { readonly settings: FamilySettings; readonly nowNs: number }

export type ModelFamily = {
  readonly name: string
  readonly type: MetricType
  readonly help: string
  /** Labels beside model, version and the model's own tags. */
  readonly extraLabel: string
  /** Which settings it needs; all of them have it when left out. */
  readonly isOn: (settings: FamilySettings) => boolean
  /** True: the series stay when the version is gone. */
  readonly outlivesVersion: boolean
  readonly lines: (entry: LedgerEntry, totals: ModelTotals, context: FamilyContext) => string
}

type Traits = Partial<Pick<ModelFamily, 'extraLabel' | 'isOn' | 'outlivesVersion'>>

const always = (): boolean => true
const family = (
  name: string,
  type: MetricType,
  help: string,
  lines: ModelFamily['lines'],
  traits: Traits = {},
): ModelFamily => ({ name, type, help, lines, extraLabel: '', isOn: always, outlivesVersion: false, ...traits })

/** Without counter_latencies Triton still shows these counters and never moves them. */
const counter = (name: string, help: string, read: (totals: ModelTotals) => number): ModelFamily =>
  family(name, 'counter', help, (entry, totals, { settings }) =>
    sampleLine(name, entry.labelText, settings.hasCounters ? read(totals) : 0),
  )

const duration = (name: string, help: string, kind: DurationKind): ModelFamily =>
  family(
    name,
    'counter',
    help,
    (entry, totals) => sampleLine(name, entry.labelText, totals.durationsNs[kind] / 1000n),
    { isOn: ({ hasCounters }) => hasCounters },
  )

const summary = (name: string, help: string, kind: DurationKind): ModelFamily =>
  family(
    name,
    'summary',
    help,
    (entry, _totals, context) => {
      const summaries = [...entry.live].map(({ statistics }) => statistics.summaries?.[kind])
      return summaryLines(
        name,
        entry.labelText,
        summaries.filter((one) => one !== undefined),
        context,
      )
    },
    { extraLabel: 'quantile', isOn: ({ hasSummaries }) => hasSummaries },
  )

/** While a reload goes on there are two; the newer one tells the quantiles. */
function summaryLines(
  name: string,
  labels: string,
  summaries: readonly LatencySummary[],
  context: FamilyContext,
): string {
  const { quantiles } = context.settings
  const count = summaries.reduce((sum, one) => sum + one.count, 0)
  const sum = summaries.reduce((total, one) => total + one.sumUs, 0)
  const values = summaries.at(-1)?.window.quantiles(quantiles, context.nowNs) ?? quantiles.map(() => NaN)
  const lines = quantiles.map((quantile, i) =>
    sampleLine(name, `${labels},quantile="${quantile}"`, values[i] as number),
  )
  return `${sampleLine(`${name}_count`, labels, count)}${sampleLine(`${name}_sum`, labels, sum)}${lines.join('')}`
}

const own: Traits = { isOn: ({ hasOwnFamilies }) => hasOwnFamilies }

const latency = (name: string, help: string, kind: LatencyKind, sums: readonly DurationKind[]): ModelFamily =>
  family(
    name,
    'histogram',
    help,
    (entry, totals) => {
      const ns = sums.reduce((sum, part) => sum + totals.durationsNs[part], 0n)
      return histogramLines(name, entry.labelText, latencyBounds, totals.latencies[kind], Number(ns) / 1e9)
    },
    { ...own, extraLabel: 'le' },
  )

/** Triton's; `model_metrics` of a model's configuration sets others. */
export const firstResponseBounds: readonly number[] = [100, 500, 2000, 5000]
export const firstResponseFamily = 'nv_inference_first_response_histogram_ms'

const batchSizeBounds = [1, 2, 4, 8, 16, 32, 64, 128, 256]

function batchSizeLines(name: string, entry: LedgerEntry, totals: ModelTotals): string {
  const counts = [...batchSizeBounds.map(() => 0), 0]
  let rows = 0
  for (const [size, count] of totals.executionsBySize) {
    const bucket = batchSizeBounds.findIndex((bound) => size <= bound)
    const at = bucket < 0 ? batchSizeBounds.length : bucket
    counts[at] = (counts[at] as number) + count
    rows += size * count
  }
  return histogramLines(name, entry.labelText, batchSizeBounds, counts, rows)
}

function failureLines(entry: LedgerEntry, totals: ModelTotals, { settings }: FamilyContext): string {
  return failureReasons
    .map((reason) => {
      const labels = labelText([...entry.labels, ['reason', reason]])
      return sampleLine('nv_inference_request_failure', labels, settings.hasCounters ? totals.failures[reason] : 0)
    })
    .join('')
}

export const modelFamilies: readonly ModelFamily[] = [
  counter(
    'nv_inference_request_success',
    'Number of successful inference requests, all batch sizes',
    (totals) => totals.successCount,
  ),
  family(
    'nv_inference_request_failure',
    'counter',
    'Number of failed inference requests, all batch sizes',
    failureLines,
    { extraLabel: 'reason', outlivesVersion: true },
  ),
  counter(
    'nv_inference_count',
    'Number of inferences performed (does not include cached requests)',
    (totals) => totals.inferenceCount,
  ),
  counter(
    'nv_inference_exec_count',
    'Number of model executions performed (does not include cached requests)',
    (totals) => totals.executionCount,
  ),
  duration(
    'nv_inference_request_duration_us',
    'Cumulative inference request duration in microseconds (includes cached requests)',
    'request',
  ),
  duration(
    'nv_inference_queue_duration_us',
    'Cumulative inference queuing duration in microseconds (includes cached requests)',
    'queue',
  ),
  duration(
    'nv_inference_compute_input_duration_us',
    'Cumulative compute input duration in microseconds (does not include cached requests)',
    'computeInput',
  ),
  duration(
    'nv_inference_compute_infer_duration_us',
    'Cumulative compute inference duration in microseconds (does not include cached requests)',
    'computeInfer',
  ),
  duration(
    'nv_inference_compute_output_duration_us',
    'Cumulative inference compute output duration in microseconds (does not include cached requests)',
    'computeOutput',
  ),
  family(
    'nv_inference_pending_request_count',
    'gauge',
    'Instantaneous number of pending requests awaiting execution per-model.',
    (entry) => sampleLine('nv_inference_pending_request_count', entry.labelText, entry.pendingCount()),
  ),
  summary(
    'nv_inference_request_summary_us',
    'Summary of inference request duration in microseconds (includes cached requests)',
    'request',
  ),
  summary(
    'nv_inference_queue_summary_us',
    'Summary of inference queuing duration in microseconds (includes cached requests)',
    'queue',
  ),
  summary(
    'nv_inference_compute_input_summary_us',
    'Cumulative compute input duration in microseconds (does not include cached requests)',
    'computeInput',
  ),
  summary(
    'nv_inference_compute_infer_summary_us',
    'Cumulative compute inference duration in microseconds (does not include cached requests)',
    'computeInfer',
  ),
  summary(
    'nv_inference_compute_output_summary_us',
    'Cumulative inference compute output duration in microseconds (does not include cached requests)',
    'computeOutput',
  ),
  family(
    firstResponseFamily,
    'histogram',
    'Duration from request to first response in milliseconds',
    (entry, { firstResponses }) =>
      firstResponses === null
        ? ''
        : histogramLines(
            firstResponseFamily,
            entry.labelText,
            firstResponses.bounds,
            firstResponses.counts,
            firstResponses.sum,
          ),
    { extraLabel: 'le', isOn: ({ hasFirstResponses }) => hasFirstResponses },
  ),
  family(
    'nv_model_load_duration_secs',
    'gauge',
    'Model load time in seconds',
    (entry) => sampleLine('nv_model_load_duration_secs', entry.labelText, entry.loadSeconds()),
    own,
  ),
  latency(
    'galatea_request_duration_seconds',
    'Time from a request to its last response, of those that succeeded',
    'request',
    ['request'],
  ),
  latency('galatea_queue_duration_seconds', 'Time that requests that succeeded waited for their execution', 'queue', [
    'queue',
  ]),
  latency('galatea_compute_duration_seconds', 'Time that the execution of requests that succeeded took', 'compute', [
    'computeInput',
    'computeInfer',
    'computeOutput',
  ]),
  family(
    'galatea_batch_size',
    'histogram',
    'Rows that were executed together',
    (entry, totals) => batchSizeLines('galatea_batch_size', entry, totals),
    { ...own, extraLabel: 'le' },
  ),
  family(
    'galatea_requests_in_flight',
    'gauge',
    'Requests that were admitted and have not ended, waiting ones included',
    (entry) => sampleLine('galatea_requests_in_flight', entry.labelText, entry.inFlightCount()),
    own,
  ),
]
