// Counts latencies in buckets that grow with the latency: 32 per doubling, so a bucket is at most 3 % wide. 4 KiB hold
// all latencies from a microsecond to half an hour, without an allocation per value.

const perDoubling = 32
const doublings = 31

export const bucketCount = doublings * perDoubling

/** The bucket of a latency in whole microseconds; latencies above half an hour go into the last bucket. */
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

/** The upper edge of the bucket of the nearest rank, so the result is never below the exact percentile. */
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
