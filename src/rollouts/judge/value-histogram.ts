// Positive values (milliseconds, tokens per second) counted in buckets whose bounds grow by 2.2 %. Histograms of several
// servers add up, and quantiles and their confidence sequences are read off the bounds.

import { shareEvidence, type Interval } from './share-interval.ts'

const bucketsPerDoubling = 32
const lowestExponent = -20
const highestExponent = 44
const bucketCount = (highestExponent - lowestExponent) * bucketsPerDoubling

/** The pairs of a bucket's number and its count that are not 0, for storing. */
export type HistogramCounts = readonly (readonly [bucket: number, count: number])[]

/** The counts of `all` without those of `some`. Both ascend by bucket. */
export function lessCounts(all: HistogramCounts, some: HistogramCounts): HistogramCounts {
  const left: [number, number][] = []
  let at = 0
  for (const [bucket, count] of all) {
    while ((some[at]?.[0] ?? Infinity) < bucket) at++
    const rest = some[at]?.[0] === bucket ? count - (some[at] as HistogramCounts[number])[1] : count
    if (rest > 0) left.push([bucket, rest])
  }
  return left
}

export class ValueHistogram {
  readonly #counts: Float64Array
  #total = 0

  constructor(counts: HistogramCounts = []) {
    this.#counts = new Float64Array(bucketCount)
    for (const [bucket, count] of counts) this.#addTo(bucket, count)
  }

  get total(): number {
    return this.#total
  }

  /** Values of 0 or less go into the first bucket, values beyond the last bound into the last one. */
  add(value: number): void {
    this.#addTo(bucketOf(value), 1)
  }

  addAll(other: ValueHistogram): void {
    for (let i = 0; i < bucketCount; i++) {
      const count = other.#counts[i] as number
      if (count > 0) this.#addTo(i, count)
    }
  }

  counts(): HistogramCounts {
    const pairs: [number, number][] = []
    this.#counts.forEach((count, bucket) => {
      if (count > 0) pairs.push([bucket, count])
    })
    return pairs
  }

  /** The upper bound of the bucket that has the quantile; 0 when there are no values. */
  quantile(p: number): number {
    if (this.#total === 0) return 0
    const rank = Math.max(1, Math.ceil(p * this.#total))
    let below = 0
    for (let i = 0; i < bucketCount; i++) {
      below += this.#counts[i] as number
      if (below >= rank) return upperBound(i)
    }
    return upperBound(bucketCount - 1)
  }

  /**
   * Where the quantile `p` is, with chance 1 - α at all times (Howard and Ramdas 2022): x is inside while the share of
   * values up to x is one that p explains. The ends are rounded outwards to bounds of buckets.
   */
  quantileInterval(p: number, alpha: number): Interval {
    const limit = -Math.log(alpha)
    let low = 0
    let below = 0
    if (this.#total === 0) return { low, high: Infinity }
    for (let i = 0; i < bucketCount; i++) {
      const count = this.#counts[i] as number
      if (count === 0) continue
      below += count
      const isOutside = shareEvidence(p, below, this.#total) >= limit
      if (!isOutside) continue
      if (below > p * this.#total) return { low, high: upperBound(i) }
      low = upperBound(i)
    }
    return { low, high: Infinity }
  }

  #addTo(bucket: number, count: number): void {
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + count
    this.#total += count
  }
}

function bucketOf(value: number): number {
  if (!(value > 0)) return 0
  const bucket = Math.ceil((Math.log2(value) - lowestExponent) * bucketsPerDoubling) - 1
  return Math.min(Math.max(bucket, 0), bucketCount - 1)
}

const upperBound = (bucket: number): number => 2 ** ((bucket + 1) / bucketsPerDoubling + lowestExponent)
