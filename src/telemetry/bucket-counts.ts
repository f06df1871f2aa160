/** A histogram with bounds of its owner's choice. */
export class BucketCounts {
  readonly bounds: readonly number[]
  /** One per bound and one for what is above them all; not cumulative. */
  readonly counts: number[]
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0)
  }

  add(value: number): void {
    let bucket = 0
    while (bucket < this.bounds.length && value > (this.bounds[bucket] as number)) bucket++
    ;(this.counts[bucket] as number)++
    this.sum += value
  }

  addCounts(other: BucketCounts): void {
    // Bounds may change with a reload; then the new ones begin anew.
    if (other.bounds.length !== this.bounds.length || other.bounds.some((bound, i) => bound !== this.bounds[i])) return
    for (const [i, count] of other.counts.entries()) this.counts[i] = (this.counts[i] as number) + count
    this.sum += other.sum
  }
}
