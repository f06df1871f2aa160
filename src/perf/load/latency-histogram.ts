// Counts of latencies in buckets that grow with the latency: 32 to a doubling, so a bucket is at most 3 % wide. Room for
// everything from a microsecond to half an hour in 4 KiB, and no allocation per value.

const perDoubling = 32
const doublings = 31

export const bucketCount = doublings * perDoubling

/** Of whole microseconds; what is longer than half an hour goes into the last bucket. */
export function bucketOf(us: number): number {
  const value = Math.min(2 ** doublings - 1, Math.max(0, Math.floor(us)))
  if (value < perDoubling) return value
  const exponent = 31 - Math.clz32(value)
  return Math.min(bucketCount - 1, (exponent - 4) * perDoubling + ((value >>> (exponent - 5)) & (perDoubling - 1)))
}

/** The least value of a bucket. */
export function bucketStartUs(bucket: number): number {
  if (bucket < perDoubling) return bucket
  const exponent = Math.floor(bucket / perDoubling) + 4
  return 2 ** exponent + (bucket % perDoubling) * 2 ** (exponent - 5)
}

/** Nearest rank, the upper edge of its bucket: never less than the truth. */
export function histogramPercentileUs(counts: Uint32Array, percentile: number): number {
  let total = 0
  for (const count of counts) total += count
  const rank = Math.max(1, Math.ceil((total * percentile) / 100))
  let seen = 0
  for (let bucket = 0; bucket < counts.length; bucket++) {
    seen += counts[bucket] as number
    if (seen >= rank) return bucketStartUs(bucket + 1)
  }
  return 0
}
