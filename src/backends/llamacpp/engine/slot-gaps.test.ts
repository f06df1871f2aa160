import assert from 'node:assert/strict'
import { test } from 'node:test'
import { slotsInGaps } from './slot-gaps.ts'

test('narrow gaps between the slots of a step are filled, wide ones and the ends are not', () => {
  assert.deepEqual(slotsInGaps([]), [])
  assert.deepEqual(slotsInGaps([3]), [])
  assert.deepEqual(slotsInGaps([1, 2, 3]), [])
  assert.deepEqual(slotsInGaps([0, 2, 3, 6, 10]), [1, 4, 5])
})
