// Rates and latencies of every version between two looks at the totals. Nothing is counted for this: whoever asks pays.

import type { Clock } from '../base/clock.ts'
import { latencyBounds } from './latency-histogram.ts'
import type { LedgerEntry } from './model-ledger.ts'
import type { ModelTotals } from './model-totals.ts'

/** The figures of a version, in the order in which a history keeps them. Null: nothing happened that could be measured. */
export const versionFigureNames = [
  'requests_per_s',
  'errors_per_s',
  'mean_ms',
  'p50_ms',
  'p99_ms',
  'queue_ms',
  'compute_ms',
  'batch',
  'waiting',
  'in_flight',
  'instances',
  'busy',
] as const
export type VersionFigures = Readonly<Record<(typeof versionFigureNames)[number], number | null>>

export const serverFigureNames = [
  'requests_per_s',
  'errors_per_s',
  'p50_ms',
  'p99_ms',
  'cpu_cores',
  'memory_bytes',
  'main_thread',
  'connections',
] as const
export type ServerFigures = Readonly<Record<(typeof serverFigureNames)[number], number | null>>

export type FigureSample = {
  readonly server: ServerFigures
  /** By `model/version`. */
  readonly versions: ReadonlyMap<string, VersionFigures>
}

/** What the process has used so far. */
export interface ProcessCounters {
  cpuMicros(): number
  memoryBytes(): number
  connectionCount(): number
  /** The share of time in which the main thread worked since the last call of the same reader. */
  mainThreadReader(): () => number
}

type Counts = {
  readonly successes: number
  readonly failures: number
  readonly rows: number
  readonly executions: number
  readonly requestNs: number
  readonly queueNs: number
  readonly computeNs: number
  readonly busyNs: number
  readonly buckets: readonly number[]
}

type FigureSource = {
  readonly clock: Clock
  readonly entries: () => Iterable<LedgerEntry>
  readonly process: ProcessCounters
}

/** The most versions that are looked at: later ones have metrics and no live figures. */
const mostVersions = 500

export class FigureSampler {
  readonly #source: FigureSource
  readonly #mainThread: () => number
  #before = new Map<string, Counts>()
  #beforeNs: number
  #beforeCpu: number

  constructor(source: FigureSource) {
    this.#source = source
    this.#mainThread = source.process.mainThreadReader()
    this.#beforeNs = source.clock.nowNs()
    this.#beforeCpu = source.process.cpuMicros()
    for (const [key, entry] of this.#serving()) this.#before.set(key, countsOf(entry, this.#beforeNs))
  }

  /** Since the last call. */
  sample(): FigureSample {
    const nowNs = this.#source.clock.nowNs()
    const seconds = Math.max(nowNs - this.#beforeNs, 1e6) / 1e9
    const versions = new Map<string, VersionFigures>()
    const counts = new Map<string, Counts>()
    const sum = { successes: 0, failures: 0, buckets: latencyBounds.map(() => 0).concat(0) }
    for (const [key, entry] of this.#serving()) {
      const now = countsOf(entry, nowNs)
      const change = difference(now, this.#before.get(key) ?? null)
      counts.set(key, now)
      sum.successes += change.successes
      sum.failures += change.failures
      for (const [i, count] of change.buckets.entries()) sum.buckets[i] = (sum.buckets[i] as number) + count
      versions.set(key, versionFigures(entry, change, seconds))
    }
    const { process } = this.#source
    const cpu = process.cpuMicros()
    const server: ServerFigures = {
      requests_per_s: round((sum.successes + sum.failures) / seconds),
      errors_per_s: round(sum.failures / seconds),
      p50_ms: quantileMs(sum.buckets, 0.5),
      p99_ms: quantileMs(sum.buckets, 0.99),
      cpu_cores: round((cpu - this.#beforeCpu) / 1e6 / seconds),
      memory_bytes: process.memoryBytes(),
      main_thread: round(this.#mainThread()),
      connections: process.connectionCount(),
    }
    this.#before = counts
    this.#beforeNs = nowNs
    this.#beforeCpu = cpu
    return { server, versions }
  }

  *#serving(): Generator<[key: string, entry: LedgerEntry]> {
    let count = 0
    for (const entry of this.#source.entries()) {
      if (!entry.isServing) continue
      if (++count > mostVersions) return
      const label = (wanted: string): string => entry.labels.find(([name]) => name === wanted)?.[1] ?? ''
      yield [`${label('model')}/${label('version')}`, entry]
    }
  }
}

function countsOf(entry: LedgerEntry, nowNs: number): Counts {
  const totals: ModelTotals = entry.totals()
  const { REJECTED, CANCELED, BACKEND, OTHER } = totals.failures
  const { request, queue, computeInput, computeInfer, computeOutput } = totals.durationsNs
  return {
    successes: totals.successCount,
    failures: REJECTED + CANCELED + BACKEND + OTHER,
    rows: totals.inferenceCount,
    executions: totals.executionCount,
    requestNs: Number(request),
    queueNs: Number(queue),
    computeNs: Number(computeInput + computeInfer + computeOutput),
    busyNs: entry.busyNs(nowNs),
    buckets: totals.latencies.request,
  }
}

/** A version that was loaded anew begins at nothing. */
function difference(now: Counts, before: Counts | null): Counts {
  if (before === null || now.successes < before.successes || now.failures < before.failures) return now
  return {
    successes: now.successes - before.successes,
    failures: now.failures - before.failures,
    rows: now.rows - before.rows,
    executions: now.executions - before.executions,
    requestNs: now.requestNs - before.requestNs,
    queueNs: now.queueNs - before.queueNs,
    computeNs: now.computeNs - before.computeNs,
    busyNs: now.busyNs - before.busyNs,
    buckets: now.buckets.map((count, i) => count - (before.buckets[i] ?? 0)),
  }
}

function versionFigures(entry: LedgerEntry, change: Counts, seconds: number): VersionFigures {
  const each = (ns: number): number | null => (change.successes === 0 ? null : round(ns / 1e6 / change.successes))
  const instances = entry.sum(({ workload }) => workload.readyCount)
  return {
    requests_per_s: round((change.successes + change.failures) / seconds),
    errors_per_s: round(change.failures / seconds),
    mean_ms: each(change.requestNs),
    p50_ms: quantileMs(change.buckets, 0.5),
    p99_ms: quantileMs(change.buckets, 0.99),
    queue_ms: each(change.queueNs),
    compute_ms: each(change.computeNs),
    batch: change.executions === 0 ? null : round(change.rows / change.executions),
    waiting: entry.pendingCount(),
    in_flight: entry.sum(({ inFlightCount }) => inFlightCount),
    instances,
    busy: instances === 0 ? null : round(Math.min(1, Math.max(0, change.busyNs / 1e9 / seconds / instances))),
  }
}

/** Between the bounds of a bucket every value is as likely. Null when the buckets are empty. */
export function quantileMs(buckets: readonly number[], share: number): number | null {
  const total = buckets.reduce((sum, count) => sum + count, 0)
  if (total <= 0) return null
  let left = share * total
  for (const [i, count] of buckets.entries()) {
    const low = latencyBounds[i - 1] ?? 0
    const high = latencyBounds[i] ?? low
    if (count >= left && count > 0) return round((low + (high - low) * (left / count)) * 1000)
    left -= count
  }
  return round((latencyBounds.at(-1) ?? 0) * 1000)
}

const round = (value: number): number => (value >= 1000 ? Math.round(value) : Number(value.toPrecision(4)))
