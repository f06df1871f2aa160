import fc from 'fast-check'
import { test } from 'node:test'
import { bucketCount, bucketOf, bucketStartUs, histogramPercentileUs } from './latency-histogram.ts'

test('every value is in a bucket that begins at or below it and is at most 3 % wide', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 31 - 1 }), (us) => {
      const bucket = bucketOf(us)
      const start = bucketStartUs(bucket)
      const end = bucketStartUs(bucket + 1)
      return bucket < bucketCount && start <= us && us < end && end - start <= Math.max(1, start / 31)
    }),
  )
})

test('percentiles of the histogram are never less than the exact ones, and within a bucket of them', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 10_000_000 }), { minLength: 1, maxLength: 300 }), (values) => {
      const counts = new Uint32Array(bucketCount)
      for (const value of values) {
        const bucket = bucketOf(value)
        counts[bucket] = (counts[bucket] ?? 0) + 1
      }
      const sorted = values.toSorted((a, b) => a - b)
      return [50, 90, 99].every((percentile) => {
        const exact = sorted[Math.ceil((sorted.length * percentile) / 100) - 1] ?? 0
        const found = histogramPercentileUs(counts, percentile)
        return found >= exact && found <= exact * 1.04 + 1
      })
    }),
  )
})
