// A model with instances that follow its load, second by second in virtual time.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { planInstances, scaleStart, type ScaleReason } from '../../src/scaling/plan-instances.ts'
import { WeekPattern } from '../../src/scaling/week-pattern.ts'

type Story = {
  readonly seconds: number
  /** Instances that the requests of this second would keep busy. */
  readonly load: (atSec: number) => number
  readonly limits?: { readonly min: number; readonly max: number; readonly target: number }
  /** More instances than cores do no more work. */
  readonly cores?: number
  readonly startSecs?: number
  readonly floor?: (atSec: number, demand: number) => number
}

type Change = { readonly atSec: number; readonly from: number; readonly to: number; readonly reason: ScaleReason }

/** Work that cannot be done in its second waits. One request is a tenth of a second of an instance. */
function live({
  seconds,
  load,
  limits = { min: 1, max: 16, target: 0.7 },
  cores = Infinity,
  startSecs = 0,
  floor,
}: Story) {
  let state = scaleStart
  let count = limits.min
  let waiting = 0
  let rows = 0
  let longest = 0
  let coming: { readonly count: number; readonly atSec: number } | null = null
  const changes: Change[] = []
  for (let atSec = 1; atSec <= seconds; atSec++) {
    if (coming !== null && atSec >= coming.atSec) {
      count = coming.count
      coming = null
    }
    const work = waiting + load(atSec)
    const done = Math.min(work, count, cores)
    // Instances that wait for a core are busy too.
    const busy = Math.min(work, count)
    waiting = work - done
    longest = Math.max(longest, waiting)
    rows += done * 10
    const sample = { atSec, demand: busy + waiting, busy, rows, count }
    const next = planInstances(state, limits, sample, floor?.(atSec, busy + waiting) ?? 0)
    state = next.state
    if (next.move === null || coming !== null) continue
    changes.push({ atSec, from: count, to: next.move.count, reason: next.move.reason })
    coming = { count: next.move.count, atSec: atSec + 1 + startSecs }
  }
  return { changes, count, longest }
}

test('a step is followed within seconds, and given back by halves after five quiet minutes each', () => {
  const { changes } = live({ seconds: 2400, load: (at) => (at > 100 && at <= 400 ? 5 : 0.3) })
  const first = changes[0] as Change
  assert.ok(
    first.reason === 'panic' && first.atSec <= 106,
    'the rise is seen within the six seconds of the panic window',
  )
  const most = Math.max(...changes.map(({ to }) => to))
  assert.ok(most >= 8, `5 instances of work at a target of 0.7 need 8, got ${most}`)
  const down = changes.filter(({ from, to }) => to < from)
  assert.deepEqual(
    down.map(({ reason }) => reason),
    down.map(() => 'quiet'),
  )
  // What the backlog of the first seconds asked for may go before; what the load needs stays five minutes longer than the load.
  assert.ok(down.every(({ atSec, to }) => to >= 8 || atSec >= 700))
  for (const [i, { from, to, atSec }] of down.entries()) {
    assert.ok(to >= Math.ceil(from / 2))
    assert.ok(i === 0 || atSec - (down[i - 1] as Change).atSec >= 300)
  }
  assert.equal(down.at(-1)?.to, 1)
})

test('a saw-tooth does not make instances come and go', () => {
  const { changes } = live({ seconds: 3600, load: (at) => (at % 120) / 30 })
  assert.deepEqual(
    changes.filter(({ from, to }) => to < from),
    [],
  )
  assert.ok(changes.length < 8, `${changes.length} changes in an hour`)
})

test('nothing happens while the load fits, and never beyond the limits', () => {
  assert.deepEqual(live({ seconds: 1000, load: () => 0.69 }).changes, [])
  assert.equal(live({ seconds: 300, load: () => 100, limits: { min: 2, max: 3, target: 0.7 } }).count, 3)
  assert.equal(live({ seconds: 3000, load: () => 0, limits: { min: 2, max: 3, target: 0.7 } }).count, 2)
})

test('instances that bring next to nothing are taken back, and not tried again for ten minutes', () => {
  const { changes } = live({ seconds: 500, load: () => 3, cores: 2, limits: { min: 2, max: 8, target: 0.7 } })
  const knee = changes.find(({ reason }) => reason === 'knee')
  assert.ok(knee !== undefined && knee.to === 2, 'two cores do no more with more instances')
  assert.deepEqual(
    changes.filter(({ atSec }) => atSec > knee.atSec),
    [],
  )
  const again = live({ seconds: 1000, load: () => 3, cores: 2, limits: { min: 2, max: 8, target: 0.7 } }).changes
  const retry = again.find(({ atSec, to, from }) => atSec > knee.atSec && to > from)
  assert.ok(retry !== undefined && retry.atSec - knee.atSec >= 600)
})

test('instances that help stay', () => {
  const { changes } = live({ seconds: 200, load: () => 6, cores: 8 })
  assert.equal(
    changes.find(({ reason }) => reason === 'knee'),
    undefined,
  )
})

test('a forecast has the capacity ready before the peak of a day that comes every week', () => {
  const day = (at: number): number => (at % 86_400 >= 36_000 && at % 86_400 < 50_000 ? 9 : 0.5)
  const pattern = new WeekPattern()
  const limits = { min: 1, max: 16, target: 0.7 }
  // One week is lived through, and the eighth day is the first one again. A slow start makes late instances hurt.
  for (let at = 0; at < 7 * 86_400; at += 60) pattern.note(at * 1000, day(at))
  const kept = new WeekPattern(JSON.parse(JSON.stringify(pattern)))
  const from = 7 * 86_400 + 35_000
  const floor = (at: number): number => Math.ceil(kept.expected((from + at) * 1000, 20 + 120) / 0.7)
  const story = { seconds: 2000, load: (at: number) => day(from + at), limits, startSecs: 20 }
  const blind = live(story)
  const foreseen = live({ ...story, floor })
  assert.ok(blind.longest > 100, `without a forecast ${blind.longest} seconds of work wait`)
  assert.equal(foreseen.longest, 0)
  assert.ok(foreseen.changes.some(({ atSec, reason }) => atSec < 1000 && reason === 'floor'))
})

test('a slot follows the newest weeks, and a broken file is an empty pattern', () => {
  const pattern = new WeekPattern('hello')
  assert.equal(pattern.expected(0, 120), 0)
  const week = 7 * 86_400_000
  pattern.note(0, 10)
  assert.ok(pattern.note(300_000, 0))
  pattern.note(week, 20)
  pattern.note(week + 300_000, 0)
  assert.equal(pattern.expected(2 * week, 60).toFixed(2), (13 * 1.1).toFixed(2))
})
