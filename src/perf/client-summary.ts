// Summarises one or several windows of the client from the records of all threads.

import { histogramPercentileUs } from './load/latency-histogram.ts'
import type { WindowRecord } from './load/window-recorder.ts'

export type ClientSummary = {
  readonly durationMs: number
  readonly requestCount: number
  readonly failedCount: number
  readonly failures: readonly (readonly [text: string, count: number])[]
  readonly inferPerSecond: number
  readonly responsesPerSecond: number
  readonly sequenceCount: number
  readonly sequencesPerSecond: number
  readonly sentPerSecond: number
  /** The share of sent requests that were sent late, 0 to 1. */
  readonly delayedShare: number
  readonly averageUs: number
  readonly deviationUs: number
  readonly percentilesUs: ReadonlyMap<number, number>
  readonly averageRequestUs: number
  readonly averageSendUs: number
  readonly averageReceiveUs: number
  /** How busy the threads of the client were, 0 to 1. Near 1 the client limits the figures, not the server. */
  readonly utilisation: number
  readonly histogram: Uint32Array
}

const standardPercentiles = [50, 90, 95, 99]

/** `windows`: one list of records per window, a record per thread. */
export function summarise(
  windows: readonly (readonly WindowRecord[])[],
  batchSize: number,
  percentile: number | null,
): ClientSummary {
  const records = windows.flat()
  const total = (of: (record: WindowRecord) => number): number => records.reduce((sum, record) => sum + of(record), 0)
  // Threads run beside each other, windows one after another.
  const durationMs = windows.reduce((sum, window) => sum + meanOf(window.map((record) => record.durationMs)), 0)
  const perSecond = (count: number): number => (durationMs === 0 ? 0 : (count * 1000) / durationMs)
  const count = total((record) => record.count)
  const average = (of: (record: WindowRecord) => number): number => (count === 0 ? 0 : total(of) / count)
  const averageUs = average((record) => record.sumLatencyUs)
  const variance = count < 2 ? 0 : (total((record) => record.sumSquareLatencyUs) - count * averageUs ** 2) / (count - 1)
  const wanted = new Set([...standardPercentiles, ...(percentile === null ? [] : [percentile])])
  const sent = total((record) => record.sent)
  return {
    durationMs,
    requestCount: count,
    failedCount: total((record) => record.failed),
    failures: mergedFailures(records),
    inferPerSecond: perSecond(count * batchSize),
    responsesPerSecond: perSecond(total((record) => record.responses)),
    sequenceCount: total((record) => record.sequences),
    sequencesPerSecond: perSecond(total((record) => record.sequences)),
    sentPerSecond: perSecond(sent),
    delayedShare: sent === 0 ? 0 : total((record) => record.delayed) / sent,
    averageUs,
    deviationUs: Math.sqrt(Math.max(0, variance)),
    percentilesUs: percentilesOf(
      records,
      count,
      [...wanted].toSorted((a, b) => a - b),
    ),
    averageRequestUs: average((record) => record.sumRequestUs),
    averageSendUs: average((record) => record.sumSendUs),
    averageReceiveUs: average((record) => record.sumReceiveUs),
    utilisation: meanOf(records.map((record) => record.utilisation)),
    histogram: mergedHistogram(records),
  }
}

const meanOf = (values: readonly number[]): number =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length

function percentilesOf(
  records: readonly WindowRecord[],
  count: number,
  percentiles: readonly number[],
): ReadonlyMap<number, number> {
  const kept = records.reduce((sum, record) => sum + record.latenciesUs.length, 0)
  if (kept < count) {
    const histogram = mergedHistogram(records)
    return new Map(percentiles.map((percentile) => [percentile, histogramPercentileUs(histogram, percentile)]))
  }
  const sorted = new Float64Array(kept)
  let at = 0
  for (const { latenciesUs } of records) {
    sorted.set(latenciesUs, at)
    at += latenciesUs.length
  }
  sorted.sort()
  return new Map(percentiles.map((percentile) => [percentile, percentileOf(sorted, percentile)]))
}

/** As perf_analyzer rounds: the index is this share of the last index, rounded to the nearest. 0 without values. */
export const percentileOf = (sorted: Float64Array, percentile: number): number =>
  sorted[Math.floor((percentile / 100) * (sorted.length - 1) + 0.5)] ?? 0

function mergedHistogram(records: readonly WindowRecord[]): Uint32Array {
  const merged = new Uint32Array(records[0]?.histogram.length ?? 0)
  for (const { histogram } of records)
    for (const [at, count] of histogram.entries()) merged[at] = (merged[at] ?? 0) + count
  return merged
}

function mergedFailures(records: readonly WindowRecord[]): [string, number][] {
  const counts = new Map<string, number>()
  for (const [text, count] of records.flatMap((record) => record.failures)) {
    counts.set(text, (counts.get(text) ?? 0) + count)
  }
  return [...counts].toSorted(([, a], [, b]) => b - a)
}

/** The latency that is compared for stability and thresholds. */
export const stabilisingUs = (summary: ClientSummary, percentile: number | null): number =>
  percentile === null ? summary.averageUs : (summary.percentilesUs.get(percentile) ?? 0)
