// Quantiles of what was seen in the last minute. Values are counted in buckets that are at most 1.6 % wide, so a quantile
// is that exact and costs no sorting; five slices of twelve seconds follow each other, the oldest is forgotten.

const sliceNs = 12e9
const sliceCount = 5
/** Buckets per doubling: 64. Values below 64 have a bucket each. */
const stepBits = 6
const steps = 1 << stepBits
/** Up to 2^40 µs, twelve days. */
const bucketCount = steps * (40 - stepBits + 1)

export class QuantileWindow {
  readonly #slices: (Uint32Array | null)[] = Array.from({ length: sliceCount }, () => null)
  #turn = 0

  /** A whole number of microseconds. HOT where summaries are on. */
  add(value: number, nowNs: number): void {
    this.#forget(nowNs)
    const at = this.#turn % sliceCount
    const slice = (this.#slices[at] ??= new Uint32Array(bucketCount))
    const bucket = bucketOf(value)
    slice[bucket] = (slice[bucket] as number) + 1
  }

  /** NaN for each when nothing was seen in the last minute. */
  quantiles(wanted: readonly number[], nowNs: number): number[] {
    this.#forget(nowNs)
    return quantilesOf(
      this.#slices.filter((slice) => slice !== null),
      wanted,
    )
  }

  #forget(nowNs: number): void {
    const turn = Math.floor(nowNs / sliceNs)
    if (turn === this.#turn) return
    const passed = Math.min(turn - this.#turn, sliceCount)
    for (let i = 1; i <= passed; i++) this.#slices[(turn - passed + i) % sliceCount] = null
    this.#turn = turn
  }
}

function quantilesOf(slices: readonly Uint32Array[], wanted: readonly number[]): number[] {
  const sums = new Float64Array(bucketCount)
  let total = 0
  for (const slice of slices) {
    for (let i = 0; i < bucketCount; i++) {
      sums[i] = (sums[i] as number) + (slice[i] as number)
      total += slice[i] as number
    }
  }
  return wanted.map((quantile) => {
    if (total === 0) return NaN
    const rank = Math.max(1, Math.ceil(quantile * total))
    let seen = 0
    for (let i = 0; i < bucketCount; i++) {
      seen += sums[i] as number
      if (seen >= rank) return valueOf(i)
    }
    return valueOf(bucketCount - 1)
  })
}

function bucketOf(value: number): number {
  if (!(value >= steps)) return Math.max(0, Math.floor(value) || 0)
  const exponent = Math.floor(Math.log2(value)) - stepBits
  const bucket = (exponent + 1) * steps + Math.floor(value / 2 ** exponent) - steps
  return Math.min(bucket, bucketCount - 1)
}

/** The middle of the bucket. */
function valueOf(bucket: number): number {
  if (bucket < steps) return bucket
  const exponent = Math.floor(bucket / steps) - 1
  const low = (steps + (bucket % steps)) * 2 ** exponent
  return Math.floor(low + 2 ** exponent / 2)
}
