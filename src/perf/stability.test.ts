import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isOver, isOverThreshold, isStable, type WindowFigures } from './stability.ts'

const windows = (...pairs: readonly (readonly [number, number])[]): WindowFigures[] =>
  pairs.map(([inferPerSecond, latencyUs]) => ({ inferPerSecond, latencyUs }))

test('three windows in a row within the threshold are stable, two are not', () => {
  const steady = windows([100, 10], [105, 10.5], [109, 10.9])
  assert.equal(isStable(steady, 0.1, true), true)
  assert.equal(isStable(steady.slice(1), 0.1, true), false)
})

test('only the last three count', () => {
  assert.equal(isStable(windows([1, 1], [100, 10], [105, 10], [100, 10]), 0.1, true), true)
  assert.equal(isStable(windows([100, 10], [100, 10], [100, 10], [150, 10]), 0.1, true), false)
})

test('throughput and latency must both hold, unless latency is not asked for', () => {
  const jumpy = windows([100, 10], [100, 20], [100, 10])
  assert.equal(isStable(jumpy, 0.1, true), false)
  assert.equal(isStable(jumpy, 0.1, false), true)
})

test('the threshold is the ratio of the largest to the smallest, not the distance from the middle', () => {
  assert.equal(isStable(windows([100, 1], [110, 1], [105, 1]), 0.1, true), true)
  assert.equal(isStable(windows([95, 1], [105, 1], [100, 1]), 0.1, true), false)
})

test('a window without answers is never stable', () => {
  assert.equal(isStable(windows([0, 1], [0, 1], [0, 1]), 10, true), false)
})

test('one of three windows over the latency threshold ends the trials; whole milliseconds are compared', () => {
  assert.equal(isOverThreshold(windows([1, 5000], [1, 5100], [1, 5200]), 5), true)
  assert.equal(isOverThreshold(windows([1, 4999], [1, 4000], [1, 5200]), 5), true)
  assert.equal(isOverThreshold(windows([1, 4999], [1, 4000], [1, 4200]), 5), false)
  assert.equal(isOverThreshold(windows([1, 9000], [1, 9000]), 5), false)
  assert.equal(isOverThreshold(windows([1, 9000], [1, 1], [1, 1], [1, 1]), 5), false)
  assert.equal(isOverThreshold(windows([1, 9000], [1, 9000], [1, 9000]), 0), false)
  assert.equal(isOver(4999, 5), false)
  assert.equal(isOver(5000, 5), true)
})
