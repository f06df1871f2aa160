import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { UseHistory } from './use-history.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

function historyUnderTest(): {
  clock: ManualClock
  totals: Map<string, number[]>
  history: UseHistory
  /** What was used of `a` from so many milliseconds before now to so many before now. */
  used: (agoMs: number, untilAgoMs?: number, name?: string) => number
} {
  const clock = new ManualClock()
  const totals = new Map<string, number[]>()
  const history = new UseHistory({ clock }, () => new Map(totals))
  const used = (agoMs: number, untilAgoMs = -1, name = 'a'): number =>
    history.between(clock.wallMs() - agoMs, clock.wallMs() - untilAgoMs).use.get(name)?.[0] ?? 0
  return { clock, totals, history, used }
}

const grow = (totals: Map<string, number[]>, name: string, by: number): void =>
  void totals.set(name, [(totals.get(name)?.[0] ?? 0) + by])

test('use is told for a time: by the minute for two hours, by the hour before, and nothing is counted twice or lost', () => {
  const { clock, totals, used } = historyUnderTest()
  for (let minute = 0; minute < 600; minute++) {
    grow(totals, 'a', 1)
    clock.advanceMs(minuteMs)
  }
  assert.equal(used(11 * hourMs), 600)
  assert.ok(Math.abs(used(30 * minuteMs) - 30) <= 1)
  assert.equal(used(60 * minuteMs, 30 * minuteMs), 30)
  assert.ok(Math.abs(used(8 * hourMs, 6 * hourMs) - 120) <= 60)
  assert.equal(used(20 * hourMs, 5 * hourMs) + used(5 * hourMs), 600)
})

test('what was used in this minute counts already, and a number that begins anew counts from 0', () => {
  const { clock, totals, used } = historyUnderTest()
  grow(totals, 'a', 5)
  assert.equal(used(minuteMs), 5)
  clock.advanceMs(minuteMs)
  totals.set('a', [2])
  assert.equal(used(hourMs), 7)
})

test('the oldest times are forgotten when there are too many rows, and the answer says since when it knows', () => {
  const { clock, totals, history, used } = historyUnderTest()
  const startMs = clock.wallMs()
  for (let minute = 0; minute < 60; minute++) {
    for (let name = 0; name < 1000; name++) grow(totals, `n${name}`, 1)
    clock.advanceMs(minuteMs)
  }
  const { fromMs, use } = history.between(0, Infinity)
  assert.ok(fromMs > startMs + 9 * minuteMs, new Date(fromMs).toISOString())
  assert.ok(use.get('n7')?.[0] !== undefined && use.get('n7')?.[0] !== 60)
  totals.clear()
  clock.advanceMs(40 * 24 * hourMs)
  assert.equal(used(Infinity, -1, 'n7'), 0)
})

test('a closed history waits for nothing', () => {
  const { clock, history } = historyUnderTest()
  assert.equal(clock.pendingCount, 1)
  history.close()
  assert.equal(clock.pendingCount, 0)
})

test('a history goes on in the next server: nothing is lost, and the time between them is told', () => {
  const { clock, totals, history } = historyUnderTest()
  const startMs = clock.wallMs()
  grow(totals, 'a', 3)
  clock.advanceMs(3 * hourMs)
  grow(totals, 'a', 4)
  const { past } = history
  clock.advanceMs(hourMs)
  totals.clear()
  const next = new UseHistory({ clock }, () => new Map(totals))
  next.resume(past)
  grow(totals, 'a', 5)
  const { fromMs, use, awayMs } = next.between(0, Infinity)
  assert.deepEqual([fromMs, use.get('a'), awayMs], [startMs, [12], hourMs])
  assert.throws(() => next.resume({ ...past, lastMs: clock.wallMs() + 1 }), /which is to come/)
})
