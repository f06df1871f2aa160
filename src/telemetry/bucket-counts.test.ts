import assert from 'node:assert/strict'
import test from 'node:test'
import { BucketCounts } from './bucket-counts.ts'

test('a value belongs to the first bound that is not below it', () => {
  const counts = new BucketCounts([1, 5])
  for (const value of [0, 1, 2, 5, 6, 100]) counts.add(value)
  assert.deepEqual(counts.counts, [2, 2, 2])
  assert.equal(counts.sum, 114)
})

test('counts add up over the same bounds only', () => {
  const [one, same, other] = [new BucketCounts([1, 5]), new BucketCounts([1, 5]), new BucketCounts([1, 6])]
  for (const counts of [one, same, other]) counts.add(3)
  one.addCounts(same)
  one.addCounts(other)
  assert.deepEqual(one.counts, [0, 2, 0])
  assert.equal(one.sum, 6)
})
