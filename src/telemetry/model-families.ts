// Every metric family that has a series per model version: the page prints this table and the reference is made from it.

import { histogramLines, labelText, sampleLine } from './metrics-text.ts'
import {
  counter,
  duration,
  family,
  latency,
  latencyCounter,
  own,
  ownTraits,
  summary,
  type FamilyContext,
  type ModelFamily,
  type Traits,
} from './model-family.ts'
import type { LedgerEntry } from './model-ledger.ts'
import { queueRefusals, type OverloadState } from '../model/queue-report.ts'
import type { ModelTotals } from './model-totals.ts'
import { failureReasons } from './statistics.ts'

/** Triton's; `model_metrics` of a model's configuration sets others. */
export const firstResponseBounds: readonly number[] = [100, 500, 2000, 5000]
export const firstResponseFamily = 'nv_inference_first_response_histogram_ms'

const batchSizeBounds = [1, 2, 4, 8, 16, 32, 64, 128, 256]

function batchSizeLines(entry: LedgerEntry, totals: ModelTotals, { text }: FamilyContext): string {
  const counts = [...batchSizeBounds.map(() => 0), 0]
  let rows = 0
  for (const [size, count] of totals.executionsBySize) {
    const bucket = batchSizeBounds.findIndex((bound) => size <= bound)
    const at = bucket < 0 ? batchSizeBounds.length : bucket
    counts[at] = (counts[at] as number) + count
    rows += size * count
  }
  return histogramLines(text, 'galatea_batch_size', entry.labelText, { bounds: batchSizeBounds, counts, sum: rows })
}

function failureLines(entry: LedgerEntry, totals: ModelTotals, { settings, text }: FamilyContext): string {
  return failureReasons
    .map((reason) => {
      const labels = labelText([...entry.labels, ['reason', reason]])
      return sampleLine(
        text,
        'nv_inference_request_failure',
        labels,
        settings.hasCounters ? totals.failures[reason] : 0,
      )
    })
    .join('')
}

const queueStates: readonly OverloadState[] = ['CALM', 'NEWEST_FIRST', 'REFUSING']

const refusalLines = (entry: LedgerEntry, _totals: ModelTotals, { text }: FamilyContext): string =>
  queueRefusals
    .map((reason) => {
      const labels = labelText([...entry.labels, ['reason', reason]])
      return sampleLine(text, 'galatea_queue_refusals_total', labels, entry.refusalCount(reason))
    })
    .join('')

const cached: Traits = { only: 'cached' }

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
  latencyCounter(
    'nv_cache_num_hits_per_model',
    'Number of cache hits per model',
    (totals) => totals.cacheHitCount,
    cached,
  ),
  duration(
    'nv_cache_hit_duration_per_model',
    'Total cache hit duration per model, in microseconds',
    'cacheHit',
    cached,
  ),
  latencyCounter(
    'nv_cache_num_misses_per_model',
    'Number of cache misses per model',
    (totals) => totals.cacheMissCount,
    cached,
  ),
  duration(
    'nv_cache_miss_duration_per_model',
    'Total cache miss (insert+lookup) duration per model, in microseconds',
    'cacheMiss',
    cached,
  ),
  family(
    'nv_inference_pending_request_count',
    'gauge',
    'Instantaneous number of pending requests awaiting execution per-model.',
    (entry, _totals, { text }) =>
      sampleLine(text, 'nv_inference_pending_request_count', entry.labelText, entry.pendingCount()),
  ),
  summary(
    'nv_inference_request_summary_us',
    'Summary of inference request duration in microseconds (includes cached requests)',
    'request',
    // Triton leaves models with a response cache out here, although its help text says otherwise.
    { only: 'uncached' },
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
  summary(
    'nv_cache_hit_summary_per_model',
    'Summary of cache hit counts/durations per model, in microseconds.',
    'cacheHit',
    cached,
  ),
  summary(
    'nv_cache_miss_summary_per_model',
    'Summary of cache miss counts/durations per model, in microseconds.',
    'cacheMiss',
    cached,
  ),
  family(
    firstResponseFamily,
    'histogram',
    'Duration from request to first response in milliseconds',
    (entry, { firstResponses }, { text }) =>
      firstResponses === null ? '' : histogramLines(text, firstResponseFamily, entry.labelText, firstResponses),
    { extraLabel: 'le', isOn: ({ hasFirstResponses }) => hasFirstResponses },
  ),
  own('nv_model_load_duration_secs', 'gauge', 'Model load time in seconds', (entry) => entry.loadSeconds()),
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
  family('galatea_batch_size', 'histogram', 'Rows that were executed together', batchSizeLines, {
    ...ownTraits,
    extraLabel: 'le',
  }),
  own(
    'galatea_requests_in_flight',
    'gauge',
    'Requests that were admitted and have not ended, waiting ones included',
    (entry) => entry.sum(({ inFlightCount }) => inFlightCount),
  ),
  own('galatea_requests_waiting', 'gauge', 'Requests that wait for their execution', (entry) => entry.pendingCount()),
  own('galatea_requests_running', 'gauge', 'Requests that were admitted, wait no longer and have not ended', (entry) =>
    Math.max(0, entry.sum(({ inFlightCount }) => inFlightCount) - entry.pendingCount()),
  ),
  family(
    'galatea_pressure',
    'gauge',
    'Demand divided by capacity over 15 s: busy instances and what waits for them, by instances that are ready. Above 1 more comes than can be done; 0.7 is a good target. From the second page on',
    (entry, _totals, { load, text }) => {
      const pressure = load?.pressures.get(entry)
      return pressure === undefined ? '' : sampleLine(text, 'galatea_pressure', entry.labelText, pressure)
    },
    ownTraits,
  ),
  own(
    'galatea_queue_state',
    'gauge',
    'Whether the queue is overloaded: 0 no, 1 the newest requests run first, 2 requests are refused too',
    (entry) =>
      Math.max(0, ...[...entry.live].map(({ version }) => queueStates.indexOf(version.queue?.state ?? 'CALM'))),
  ),
  family(
    'galatea_queue_refusals_total',
    'counter',
    'Requests that the queue refused: it was full (queue_full), more came than the model can answer in time (overload), their time-out could not be met (deadline), their tenant had more than its share (fair_share)',
    refusalLines,
    { ...ownTraits, extraLabel: 'reason' },
  ),
  own('galatea_instances', 'gauge', 'Instances that were made', (entry) => entry.sum(({ workload }) => workload.count)),
  own('galatea_instances_ready', 'gauge', 'Instances that can execute', (entry) =>
    entry.sum(({ workload }) => workload.readyCount),
  ),
  own(
    'galatea_instance_busy_seconds_total',
    'counter',
    'Time in which instances had something to execute, added up over all of them',
    (entry, nowNs) => entry.busyNs(nowNs) / 1e9,
  ),
  own(
    'galatea_worker_restarts_total',
    'counter',
    'How often the worker of an instance ended and was started anew',
    (entry) => entry.restartCount(),
  ),
]
