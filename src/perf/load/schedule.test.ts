import assert from 'node:assert/strict'
import { test } from 'node:test'
import { beginOfTurns, ConstantSchedule, IntervalSchedule, PoissonSchedule, type Schedule } from './schedule.ts'

const take = (schedule: Schedule, count: number): number[] =>
  Array.from({ length: count }, () => {
    const due = schedule.nextMs
    schedule.advance()
    return due
  })

test('a constant rate has equal gaps that do not drift', () => {
  const schedule = new ConstantSchedule(3)
  assert.deepEqual(take(schedule, 4).map(Math.round), [0, 333, 667, 1000])
  assert.equal(take(schedule, 3_000_000 - 4).at(-1), 2_999_999 * (1000 / 3))
})

test('threads that share a constant rate interleave to the same times', () => {
  const whole = take(new ConstantSchedule(100), 9)
  const shared = [0, 1, 2].flatMap((share) => take(new ConstantSchedule(100, share, 3), 3)).toSorted((a, b) => a - b)
  assert.deepEqual(shared, whole)
})

test('threads that are ready at different times have equal gaps between their requests, and wait for one round at most', () => {
  const firstOf = (share: number, readyMs: number): number =>
    beginOfTurns({ ratePerSecond: 100, share, shares: 3 }, readyMs, 1000) + share * 10
  // A round takes 30 ms.
  assert.deepEqual([firstOf(0, 1003), firstOf(1, 1003), firstOf(2, 1003)], [1030, 1010, 1020])
  assert.deepEqual([firstOf(0, 1031), firstOf(1, 1011), firstOf(2, 1020)], [1060, 1040, 1020])
  assert.equal(beginOfTurns({ ratePerSecond: 100, share: 0, shares: 1 }, 1003.2, 1000), 1003.2)
})

test('Poisson arrivals repeat with their seed and differ with another', () => {
  assert.deepEqual(take(new PoissonSchedule(50, 7), 20), take(new PoissonSchedule(50, 7), 20))
  assert.notDeepEqual(take(new PoissonSchedule(50, 7), 20), take(new PoissonSchedule(50, 8), 20))
})

test('Poisson gaps have the mean of the rate and the spread of an exponential distribution', () => {
  const dues = take(new PoissonSchedule(1000, 1), 100_000)
  const gaps = dues.map((due, at) => due - (dues[at - 1] ?? 0))
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length
  const variance = gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length
  assert.ok(Math.abs(mean - 1) < 0.02, `mean ${mean}`)
  assert.ok(Math.abs(Math.sqrt(variance) - 1) < 0.03, `deviation ${Math.sqrt(variance)}`)
  assert.ok(gaps.every((gap) => gap >= 0))
})

test('intervals of a list are used in turn, again and again', () => {
  assert.deepEqual(take(new IntervalSchedule([1000, 2000]), 5), [0, 1, 3, 4, 6])
})
