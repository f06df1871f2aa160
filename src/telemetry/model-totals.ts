import { BucketCounts } from './bucket-counts.ts'
import { latencyBounds } from './latency-histogram.ts'
import { failureReasons, type FailureReason, type Statistics } from './statistics.ts'

export const durationKinds = ['request', 'queue', 'computeInput', 'computeInfer', 'computeOutput'] as const
export type DurationKind = (typeof durationKinds)[number]

export const latencyKinds = ['request', 'queue', 'compute'] as const
export type LatencyKind = (typeof latencyKinds)[number]

const zeros = (): number[] => Array.from({ length: latencyBounds.length + 1 }, () => 0)

/** What the versions of one label set have done together, those that are gone included: counters never go back. */
export class ModelTotals {
  successCount = 0
  inferenceCount = 0
  executionCount = 0
  readonly durationsNs: Record<DurationKind, bigint> = {
    request: 0n,
    queue: 0n,
    computeInput: 0n,
    computeInfer: 0n,
    computeOutput: 0n,
  }
  readonly failures: Record<FailureReason, number> = { REJECTED: 0, CANCELED: 0, BACKEND: 0, OTHER: 0 }
  readonly latencies: Record<LatencyKind, number[]> = { request: zeros(), queue: zeros(), compute: zeros() }
  readonly executionsBySize = new Map<number, number>()
  /** Of the newest version that has it. */
  firstResponses: BucketCounts | null = null

  add(statistics: Statistics): void {
    this.successCount += statistics.success.count
    this.inferenceCount += statistics.inferenceCount
    this.executionCount += statistics.executionCount
    this.durationsNs.request += statistics.success.ns
    this.durationsNs.queue += statistics.queue.ns
    this.durationsNs.computeInput += statistics.compute.input.ns
    this.durationsNs.computeInfer += statistics.compute.infer.ns
    this.durationsNs.computeOutput += statistics.compute.output.ns
    for (const reason of failureReasons) this.failures[reason] += statistics.failures[reason]
    for (const kind of latencyKinds) {
      const into = this.latencies[kind]
      for (const [i, count] of statistics.latencies[kind].counts.entries()) into[i] = (into[i] ?? 0) + count
    }
    this.#addFirstResponses(statistics.firstResponses)
    for (const [size, count] of statistics.executionsBySize()) {
      this.executionsBySize.set(size, (this.executionsBySize.get(size) ?? 0) + count)
    }
  }

  addTotals(other: ModelTotals): void {
    this.successCount += other.successCount
    this.inferenceCount += other.inferenceCount
    this.executionCount += other.executionCount
    for (const kind of durationKinds) this.durationsNs[kind] += other.durationsNs[kind]
    for (const reason of failureReasons) this.failures[reason] += other.failures[reason]
    for (const kind of latencyKinds) {
      const into = this.latencies[kind]
      for (const [i, count] of other.latencies[kind].entries()) into[i] = (into[i] ?? 0) + count
    }
    this.#addFirstResponses(other.firstResponses)
    for (const [size, count] of other.executionsBySize) {
      this.executionsBySize.set(size, (this.executionsBySize.get(size) ?? 0) + count)
    }
  }

  #addFirstResponses(added: BucketCounts | null): void {
    if (added === null) return
    const sum = new BucketCounts(added.bounds)
    sum.addCounts(added)
    if (this.firstResponses !== null) sum.addCounts(this.firstResponses)
    this.firstResponses = sum
  }

  /** All but the failures: their series outlive the model, as in Triton. */
  withoutSuccesses(): ModelTotals {
    const kept = new ModelTotals()
    Object.assign(kept.failures, this.failures)
    return kept
  }
}
