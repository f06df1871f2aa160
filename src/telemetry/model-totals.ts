import { BucketCounts } from './bucket-counts.ts'
import { BucketExemplars } from './bucket-exemplars.ts'
import { latencyBounds } from './latency-histogram.ts'
import { countedSize, failureReasons, type FailureReason, type Statistics } from './statistics.ts'

const durationKinds = [
  'request',
  'queue',
  'computeInput',
  'computeInfer',
  'computeOutput',
  'cacheHit',
  'cacheMiss',
] as const
export type DurationKind = (typeof durationKinds)[number]
const ofEachDuration = <Value>(make: () => Value): Record<DurationKind, Value> =>
  Object.fromEntries(durationKinds.map((kind) => [kind, make()])) as Record<DurationKind, Value>

const latencyKinds = ['request', 'queue', 'compute'] as const
export type LatencyKind = (typeof latencyKinds)[number]

const zeros = (): number[] => Array.from({ length: latencyBounds.length + 1 }, () => 0)

/** What the versions of one label set have done together, those that are gone included: counters never go back. */
export class ModelTotals {
  successCount = 0
  inferenceCount = 0
  executionCount = 0
  readonly durationsNs = ofEachDuration(() => 0n)
  cacheHitCount = 0
  cacheMissCount = 0
  readonly failures: Record<FailureReason, number> = { REJECTED: 0, CANCELED: 0, BACKEND: 0, OTHER: 0 }
  readonly latencies: Record<LatencyKind, number[]> = { request: zeros(), queue: zeros(), compute: zeros() }
  /** Null when no request of these versions was traced. */
  readonly exemplars: Record<LatencyKind, BucketExemplars | null> = { request: null, queue: null, compute: null }
  /** Counts and sums of the summaries. Their quantiles come from the versions that serve. */
  readonly summaries = ofEachDuration(() => ({ count: 0, sumUs: 0 }))
  readonly executionsBySize = new Map<number, number>()
  /** The histogram of the newest version that has one. */
  firstResponses: BucketCounts | null = null

  add(statistics: Statistics): void {
    this.successCount += statistics.success.count
    this.inferenceCount += statistics.inferenceCount
    this.executionCount += statistics.executionCount
    this.cacheHitCount += statistics.cacheHit.count
    this.cacheMissCount += statistics.cacheMiss.count
    this.durationsNs.request += statistics.success.ns
    this.durationsNs.queue += statistics.queue.ns
    this.durationsNs.computeInput += statistics.compute.input.ns
    this.durationsNs.computeInfer += statistics.compute.infer.ns
    this.durationsNs.computeOutput += statistics.compute.output.ns
    this.durationsNs.cacheHit += statistics.cacheHit.ns
    this.durationsNs.cacheMiss += statistics.cacheMiss.ns
    for (const reason of failureReasons) this.failures[reason] += statistics.failures[reason]
    for (const kind of latencyKinds) {
      const into = this.latencies[kind]
      const { counts, exemplars } = statistics.latencies[kind]
      for (const [i, count] of counts.entries()) into[i] = (into[i] ?? 0) + count
      this.#addExemplars(kind, exemplars)
    }
    if (statistics.summaries !== null) this.#addSummaries(statistics.summaries)
    this.#addFirstResponses(statistics.firstResponses)
    for (const [size, count] of statistics.executionsBySize()) this.#addExecutions(size, count)
  }

  addTotals(other: ModelTotals): void {
    this.successCount += other.successCount
    this.inferenceCount += other.inferenceCount
    this.executionCount += other.executionCount
    this.cacheHitCount += other.cacheHitCount
    this.cacheMissCount += other.cacheMissCount
    for (const kind of durationKinds) this.durationsNs[kind] += other.durationsNs[kind]
    for (const reason of failureReasons) this.failures[reason] += other.failures[reason]
    for (const kind of latencyKinds) {
      const into = this.latencies[kind]
      for (const [i, count] of other.latencies[kind].entries()) into[i] = (into[i] ?? 0) + count
      this.#addExemplars(kind, other.exemplars[kind])
    }
    this.#addSummaries(other.summaries)
    this.#addFirstResponses(other.firstResponses)
    for (const [size, count] of other.executionsBySize) this.#addExecutions(size, count)
  }

  #addExecutions(size: number, count: number): void {
    const counted = countedSize(this.executionsBySize, size)
    this.executionsBySize.set(counted, (this.executionsBySize.get(counted) ?? 0) + count)
  }

  #addSummaries(added: Readonly<Record<DurationKind, { readonly count: number; readonly sumUs: number }>>): void {
    for (const kind of durationKinds) {
      this.summaries[kind].count += added[kind].count
      this.summaries[kind].sumUs += added[kind].sumUs
    }
  }

  #addExemplars(kind: LatencyKind, added: BucketExemplars | null): void {
    if (added === null) return
    const all = (this.exemplars[kind] ??= new BucketExemplars(latencyBounds.length + 1))
    all.merge(added)
  }

  #addFirstResponses(added: BucketCounts | null): void {
    if (added === null) return
    const sum = new BucketCounts(added.bounds)
    sum.addCounts(added)
    if (this.firstResponses !== null) sum.addCounts(this.firstResponses)
    this.firstResponses = sum
  }

  /** Forgets all but the failures: the series of failures outlive the model, as in Triton. */
  withoutSuccesses(): ModelTotals {
    const kept = new ModelTotals()
    Object.assign(kept.failures, this.failures)
    return kept
  }
}
