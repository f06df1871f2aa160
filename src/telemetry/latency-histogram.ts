import { BucketExemplars } from './bucket-exemplars.ts'

/** Upper bounds in seconds, 100 µs to 30 s; what is above the last falls under +Inf. */
export const latencyBounds: readonly number[] = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
]

const boundsNs: readonly number[] = latencyBounds.map((seconds) => seconds * 1e9)

/** How many durations fell between two bounds. Their sum is kept elsewhere, exactly. */
export class LatencyHistogram {
  /** One per bound and one for what is above them all; not cumulative. */
  readonly counts: number[] = Array.from({ length: boundsNs.length + 1 }, () => 0)
  /** Null until a traced request came by. */
  exemplars: BucketExemplars | null = null

  // HOT: small durations, the frequent ones, are found first.
  add(durationNs: number, traceId: string, nowNs: number): void {
    let bucket = 0
    while (bucket < boundsNs.length && durationNs > (boundsNs[bucket] as number)) bucket++
    ;(this.counts[bucket] as number)++
    if (traceId === '') return
    this.exemplars ??= new BucketExemplars(boundsNs.length + 1)
    this.exemplars.note(bucket, traceId, durationNs, nowNs)
  }
}
