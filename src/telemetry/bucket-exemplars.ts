/** For each bucket of a histogram, the last request whose trace can be looked up. Made when the first such request comes. */
export class BucketExemplars {
  /** '' for a bucket without an exemplar. */
  readonly traceIds: string[]
  readonly durationsNs: number[]
  /** Times on the monotonic clock. */
  readonly timesNs: number[]

  constructor(bucketCount: number) {
    this.traceIds = Array.from({ length: bucketCount }, () => '')
    this.durationsNs = Array.from({ length: bucketCount }, () => 0)
    this.timesNs = Array.from({ length: bucketCount }, () => 0)
  }

  note(bucket: number, traceId: string, durationNs: number, timeNs: number): void {
    this.traceIds[bucket] = traceId
    this.durationsNs[bucket] = durationNs
    this.timesNs[bucket] = timeNs
  }

  /** Keeps the newer exemplar of each bucket. */
  merge(other: BucketExemplars): void {
    for (let i = 0; i < this.traceIds.length; i++) {
      if (other.traceIds[i] === '' || (other.timesNs[i] as number) < (this.timesNs[i] as number)) continue
      this.note(i, other.traceIds[i] as string, other.durationsNs[i] as number, other.timesNs[i] as number)
    }
  }
}
