import assert from 'node:assert/strict'
import { test } from 'node:test'
import { averageAfter, parkBelowNs, parkUntilNs, shouldPark } from './parking.ts'

test('nothing is parked before the first execution is measured', () => {
  assert.equal(shouldPark(false, 0), false)
})

test('parking starts below the lower limit and goes on until the upper one', () => {
  const between = (parkBelowNs + parkUntilNs) / 2
  assert.deepEqual(
    [parkBelowNs - 1, between, parkUntilNs].map((averageNs) => shouldPark(false, averageNs)),
    [true, false, false],
  )
  assert.deepEqual(
    [parkBelowNs - 1, between, parkUntilNs].map((averageNs) => shouldPark(true, averageNs)),
    [true, true, false],
  )
})

test('one long execution ends parking, and short ones bring it back', () => {
  let averageNs = averageAfter(0, 20_000)
  assert.equal(averageNs, 20_000)
  averageNs = averageAfter(averageNs, 1e9)
  assert.equal(shouldPark(true, averageNs), false)
  let count = 0
  while (!shouldPark(false, averageNs)) {
    averageNs = averageAfter(averageNs, 20_000)
    count++
  }
  assert.ok(count > 8 && count < 64, `took ${count} executions`)
})
