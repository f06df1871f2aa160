// The work of the server in a window: the difference of its statistics before and after.

import type { InferenceClient, ModelStatistics, StatisticDuration } from '../client/inference-client.ts'
import type { ComposingModel, ModelUnderTest } from './model-under-test.ts'

const durations = [
  'success',
  'queue',
  'computeInput',
  'computeInfer',
  'computeOutput',
  'cacheHit',
  'cacheMiss',
] as const
type DurationName = (typeof durations)[number]
type Durations = Readonly<Record<DurationName, StatisticDuration>>

const eachDuration = (of: (kind: DurationName) => StatisticDuration): Durations =>
  Object.fromEntries(durations.map((kind) => [kind, of(kind)])) as Durations

export type ServerWindow = {
  readonly inferenceCount: number
  readonly executionCount: number
  /** Executions by batch size. */
  readonly batches: ReadonlyMap<number, number>
  readonly composing: readonly { readonly name: string; readonly version: string; readonly window: ServerWindow }[]
} & Durations

/** The statistics of all models at one moment. */
type StatisticsSnapshot = readonly ModelStatistics[]

/** Null when the server keeps no statistics. */
export async function takeStatistics(
  client: InferenceClient,
  { hasStatistics, composing, name, version }: ModelUnderTest,
): Promise<StatisticsSnapshot | null> {
  if (!hasStatistics) return null
  return composing.length === 0 ? client.statistics(name, { version }) : client.statistics()
}

export function statisticsBetween(
  before: StatisticsSnapshot | null,
  after: StatisticsSnapshot | null,
  model: Pick<ModelUnderTest, 'name' | 'version' | 'composing'>,
): ServerWindow | null {
  if (before === null || after === null) return null
  return windowOf(before, after, model.name, model.version, model.composing)
}

function windowOf(
  before: StatisticsSnapshot,
  after: StatisticsSnapshot,
  name: string,
  version: string,
  composing: readonly ComposingModel[],
): ServerWindow {
  const now = entriesOf(after, name, version)
  const then = entriesOf(before, name, version)
  // A model that was loaded again meanwhile counts from 0.
  const difference = (of: (entry: ModelStatistics) => number): number => Math.max(0, sum(now, of) - sum(then, of))
  const duration = (kind: DurationName): StatisticDuration => ({
    count: difference((entry) => entry.inferenceStats[kind]?.count ?? 0),
    ns: difference((entry) => entry.inferenceStats[kind]?.ns ?? 0),
  })
  return {
    inferenceCount: difference((entry) => entry.inferenceCount),
    executionCount: difference((entry) => entry.executionCount),
    batches: batchesBetween(then, now),
    composing: composing.map((inner) => ({
      name: inner.name,
      version: inner.version === '' ? latestVersion(after, inner.name) : inner.version,
      window: windowOf(before, after, inner.name, inner.version, inner.composing),
    })),
    ...eachDuration(duration),
  }
}

/** Without a version: all versions, because the latest version may change meanwhile. */
const entriesOf = (snapshot: StatisticsSnapshot, name: string, version: string): ModelStatistics[] =>
  snapshot.filter((entry) => entry.name === name && (version === '' || entry.version === version))

const latestVersion = (snapshot: StatisticsSnapshot, name: string): string =>
  String(Math.max(0, ...entriesOf(snapshot, name, '').map((entry) => Number(entry.version))))

const sum = <Value>(values: readonly Value[], of: (value: Value) => number): number =>
  values.reduce((total, value) => total + of(value), 0)

function batchesBetween(then: readonly ModelStatistics[], now: readonly ModelStatistics[]): Map<number, number> {
  const counts = new Map<number, number>()
  const add = (entries: readonly ModelStatistics[], sign: number): void => {
    for (const { batchSize, computeInfer } of entries.flatMap((entry) => entry.batchStats)) {
      counts.set(batchSize, (counts.get(batchSize) ?? 0) + sign * computeInfer.count)
    }
  }
  add(now, 1)
  add(then, -1)
  return new Map([...counts].filter(([, count]) => count > 0).toSorted(([a], [b]) => a - b))
}

export function mergeServerWindows(windows: readonly (ServerWindow | null)[]): ServerWindow | null {
  const known = windows.filter((window) => window !== null)
  const first = known[0]
  if (first === undefined) return null
  const duration = (kind: DurationName): StatisticDuration => ({
    count: sum(known, (window) => window[kind].count),
    ns: sum(known, (window) => window[kind].ns),
  })
  const batches = new Map<number, number>()
  for (const [size, count] of known.flatMap((window) => [...window.batches])) {
    batches.set(size, (batches.get(size) ?? 0) + count)
  }
  return {
    inferenceCount: sum(known, (window) => window.inferenceCount),
    executionCount: sum(known, (window) => window.executionCount),
    batches: new Map([...batches].toSorted(([a], [b]) => a - b)),
    composing: first.composing.map(({ name, version }, at) => ({
      name,
      version,
      window: mergeServerWindows(known.map((window) => window.composing[at]?.window ?? null)) as ServerWindow,
    })),
    ...eachDuration(duration),
  }
}

/** Whole microseconds per event; 0 when there was none. */
export const averageUs = ({ count, ns }: StatisticDuration): number =>
  count === 0 ? 0 : Math.floor(ns / (count * 1000))
