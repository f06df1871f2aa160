import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GoalValues, isSplitOdd, reportGoal, winnerOf, type KeptGoal } from './experiment-report.ts'
import { RandomDraws } from '../assignment.ts'

/** `rates` are the chances of a click, by arm; `perUser` requests of each of `users` users. */
function play(rates: readonly number[], users: number, perUser: number, seed = 4): GoalValues {
  const draws = new RandomDraws(seed)
  const values = new GoalValues(rates.length)
  for (let bucket = 0; bucket < users; bucket++) {
    const arm = bucket % rates.length
    for (let i = 0; i < perUser; i++) values.add(arm, bucket, draws.share() < (rates[arm] as number) ? 1 : 0)
  }
  return values
}

test('the better arm wins, and the control is compared with nobody', () => {
  const report = reportGoal(['a', 'b', 'c'], play([0.3, 0.3, 0.5], 6000, 3), 0.05, 1)
  assert.equal(winnerOf(report), 'c')
  assert.equal(report[0]?.difference, null)
  assert.deepEqual(report.map(({ users, requests }) => [users, requests]), [[2000, 6000], [2000, 6000], [2000, 6000]]) // prettier-ignore
  assert.ok((report[2]?.difference?.logEvidence ?? 0) > Math.log(40))
})

test('equal arms have no winner, however often anybody looks', () => {
  let winners = 0
  for (let seed = 0; seed < 200; seed++) {
    const hasWinner = [200, 400, 800, 1600].some((users) => winnerOf(reportGoal(['a', 'b'], play([0.3, 0.3], users, 1, seed), 0.05, 1)) !== null) // prettier-ignore
    if (hasWinner) winners++
  }
  assert.ok(winners <= 10 + 4 * 3, String(winners))
})

test('a user with a thousand requests has one vote', () => {
  const values = new GoalValues(2)
  for (let bucket = 0; bucket < 100; bucket++) values.add(bucket % 2, bucket, 0)
  for (let i = 0; i < 100_000; i++) values.add(1, 1, 1)
  const report = reportGoal(['a', 'b'], values, 0.05, 1)
  assert.equal(report[1]?.users, 50)
  assert.ok((report[1]?.mean ?? 1) <= 1 / 50)
  assert.equal(winnerOf(report), null)
})

test('values of several servers add up', () => {
  const [one, other] = [play([0.2, 0.4], 100, 2, 1), play([0.2, 0.4], 150, 2, 2)]
  one.addAll(other)
  assert.equal(one.requests(0) + one.requests(1), 500)
  assert.equal(one.votes(0).count + one.votes(1).count, 150)
})

test('a split that the weight does not explain is found', () => {
  assert.equal(isSplitOdd(5_050, 100_000, 0.05), false)
  assert.equal(isSplitOdd(6_000, 100_000, 0.05), true)
  assert.equal(isSplitOdd(0, 100, 0), false)
})

test('nothing is certain with few users, however equal their values are', () => {
  const values = new GoalValues(2)
  for (let bucket = 0; bucket < 58; bucket++) values.add(bucket % 2, bucket, bucket % 2)
  const early = reportGoal(['a', 'b'], values, 0.05, 1)
  assert.deepEqual(
    [winnerOf(early), early[1]?.difference?.value, early[1]?.difference?.interval.low],
    [null, 1, -Infinity],
  )
  for (let bucket = 58; bucket < 60; bucket++) values.add(bucket % 2, bucket, bucket % 2)
  assert.equal(winnerOf(reportGoal(['a', 'b'], values, 0.05, 1)), 'b')
})

test('an arm that is worse in another goal does not win', () => {
  const [clicks, stays] = [play([0.2, 0.8], 1000, 1), play([0.8, 0.2], 1000, 1)]
  const [first, second] = [clicks, stays].map((values) => reportGoal(['a', 'b'], values, 0.05, 2))
  assert.deepEqual([winnerOf(first ?? []), winnerOf(first ?? [], [second ?? []])], ['b', null])
})

test('values go through JSON without a loss', () => {
  const values = play([0.2, 0.4], 100, 2)
  const again = new GoalValues(2, JSON.parse(JSON.stringify(values.kept())) as KeptGoal)
  assert.deepEqual(reportGoal(['a', 'b'], again, 0.05, 1), reportGoal(['a', 'b'], values, 0.05, 1))
})
