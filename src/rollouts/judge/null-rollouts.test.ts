// Rollouts of a candidate that is as good as stable, looked at in every tick: how often does each test cry wolf? The numbers
// are random with a fixed seed; a test may be wrong in at most α of the runs, up to four standard deviations of chance.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { addCountSums, addCountTick, countEvidence, countFinding, noCountSums, type CountSums } from './counts-test.ts'
import { CountedClasses } from './counted-classes.ts'
import { CountedShare } from './counted-share.ts'
import { driftFinding } from './drift-test.ts'
import { shareEvidence, shareInterval } from './share-interval.ts'
import { shareAbove } from './share-test.ts'
import {
  addSign,
  addSignSums,
  noSignSums,
  signEvidence,
  signFinding,
  upperQuantile,
  type SignSums,
} from './sign-test.ts'
import { Random } from '../../../test/scenario/random.ts'

const runs = 2000
const alpha = 0.05 / 3
const needed = -Math.log(alpha)
const random = new Random(Number(process.env['GALATEA_SEED'] ?? 26), 18)
const even = (): number => (random.int(2 ** 30) + 0.5) / 2 ** 30

function poisson(mean: number): number {
  const limit = Math.exp(-mean)
  let [count, product] = [0, even()]
  while (product > limit) {
    count++
    product *= even()
  }
  return count
}

/** Durations around 10 ms, lognormal; drawn from a table, because millions are needed. */
const durations = Float64Array.from(
  { length: 2 ** 14 },
  () => 10 * Math.exp(0.3 * Math.sqrt(-2 * Math.log(even())) * Math.cos(2 * Math.PI * even())),
)
const duration = (): number => durations[random.int(durations.length)] as number

/** `isAlarm` plays one rollout and says whether its test ever found the candidate worse. */
function assertFewAlarms(isAlarm: () => boolean, count = runs, budget = alpha): void {
  let alarms = 0
  for (let i = 0; i < count; i++) if (isAlarm()) alarms++
  const allowed = count * budget + 4 * Math.sqrt(count * budget * (1 - budget))
  assert.ok(alarms <= allowed, `${alarms} false alarms in ${count} rollouts, at most ${Math.floor(allowed)} are chance`)
}

function nextTick(sums: CountSums, rate: number, rateOfCandidate = rate): CountSums {
  const [ofCandidate, ofStable] = [poisson(5), 95]
  const events = (requests: number, of: number): number => Math.min(requests, poisson(requests * of))
  const candidate = { requests: ofCandidate, events: events(ofCandidate, rateOfCandidate) }
  const stable = { requests: ofStable, events: events(ofStable, rate) }
  return addCountTick(sums, { candidate, stable, eventBuckets: [], isAlone: false })
}

function countsAlarm(rate: number): boolean {
  let sums = noCountSums
  for (let tick = 0; tick < 120; tick++) {
    const { events } = sums.candidate
    sums = nextTick(sums, rate)
    // A tick without an event of the candidate only lowers the evidence.
    if (sums.candidate.events > events && countFinding(sums).logEvidence >= needed) return true
  }
  return false
}

/** Two servers, one of which began later, looked at together: windows come and go. */
function sharedAlarm(rate: number): boolean {
  let [early, late] = [noCountSums, noCountSums]
  for (let tick = 0; tick < 1200; tick++) {
    early = nextTick(early, rate)
    if (tick >= 200) late = nextTick(late, rate)
    if (tick % 5 === 0 && countFinding(addCountSums(early, late)).logEvidence >= needed) return true
  }
  return false
}

/** A pause of a worker hits half of the requests of one arm in one tick. */
const pause = (): number => (random.oneIn(50) ? 80 : 0)

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length
const figures = {
  p50: (sorted: readonly number[]) => upperQuantile(sorted, 0.5),
  p99: (sorted: readonly number[]) => upperQuantile(sorted, 0.99),
  mean,
}

type Figure = (sorted: readonly number[]) => number

function nextSign(sums: SignSums, figure: Figure, hasPauses: boolean, slowness = 1): SignSums {
  const arm = (factor: number): number => {
    const paused = hasPauses ? pause() : 0
    const values = Array.from({ length: 5 }, () => factor * duration() + (paused > 0 && random.oneIn(2) ? paused : 0))
    return figure(values.sort((a, b) => a - b))
  }
  return addSign(sums, arm(slowness) - arm(1))
}

function signAlarm(figure: Figure, hasPauses: boolean, ticks: number): boolean {
  let signs = noSignSums
  for (let tick = 0; tick < ticks; tick++) {
    const { against } = signs
    signs = nextSign(signs, figure, hasPauses)
    // A vote for the candidate only lowers the evidence.
    if (signs.against > against && signFinding(signs).logEvidence >= needed) return true
  }
  return false
}

/** Two servers, one of which began later, looked at together. */
function sharedSignAlarm(): boolean {
  let [early, late] = [noSignSums, noSignSums]
  for (let tick = 0; tick < 300; tick++) {
    early = nextSign(early, figures.p99, true)
    if (tick >= 47) late = nextSign(late, figures.p99, true)
    if (tick % 3 === 0 && signFinding(addSignSums(early, late)).logEvidence >= needed) return true
  }
  return false
}

function driftAlarm(): boolean {
  const classes = new CountedClasses(10, undefined)
  for (let look = 0; look < 80; look++) {
    addAnswers(classes, 2)
    if (driftFinding(classes.sums()).logEvidence >= needed) return true
  }
  return false
}

/** A tick of answers. Classes are unevenly frequent, as those of real models; `power` 2: both arms have the same. */
function addAnswers(classes: CountedClasses, power: number): void {
  for (let i = 0; i < 20; i++) {
    const of = i < 5 ? 'candidate' : 'stable'
    classes.add(of, Math.floor(10 * even() ** (of === 'candidate' ? power : 2)))
  }
  classes.tick()
}

/** The true share equals the limit: the interval must not leave it. */
function shareAlarm(limit: number): boolean {
  const share = new CountedShare(undefined)
  for (let look = 0; look < 120; look++) {
    addToShare(share, limit)
    if (shareAbove(share.sums(), limit, alpha) !== null) return true
  }
  return false
}

function addToShare(share: CountedShare, chance: number): void {
  for (let i = 0; i < 5; i++) share.add(even() < chance)
  share.tick()
}

describe('2,000 rollouts of a good candidate, looked at in every tick', () => {
  test('errors: equal rates of 0.1 %, 1 % and 20 %', () => {
    for (const rate of [0.001, 0.01, 0.2]) assertFewAlarms(() => countsAlarm(rate))
  })

  test('errors that two servers count', () => {
    assertFewAlarms(() => sharedAlarm(0.02), 100)
  })

  test('latency: p50 and p99, and means of scores, with calm workers and with workers that pause', () => {
    for (const figure of Object.values(figures)) {
      for (const hasPauses of [false, true]) assertFewAlarms(() => signAlarm(figure, hasPauses, 80))
    }
  })

  test('latency in long rollouts, and on two servers: tests begin anew and end', () => {
    assertFewAlarms(() => signAlarm(figures.p99, true, 1500), 150)
    assertFewAlarms(sharedSignAlarm, 150)
  })

  test('drift: equal distributions', () => {
    assertFewAlarms(driftAlarm)
  })

  test('slo, agreement and errors with a limit: the share is the limit', () => {
    for (const limit of [0.01, 0.5]) assertFewAlarms(() => shareAlarm(limit))
  })
})

describe('a fault that comes after ten minutes of health is found in two thirds of the time that one window takes, or less', () => {
  /** Medians of the ticks from the fault to the finding, with later starts and without. */
  function assertSooner<Sums>(
    none: Sums,
    next: (sums: Sums, isBad: boolean) => Sums,
    finding: (sums: Sums) => number,
    alone: (sums: Sums) => number,
  ): void {
    // prettier-ignore
    const times = Array.from({ length: 31 }, () => {
      let sums = none
      for (let tick = 0; tick < 600; tick++) sums = next(sums, false)
      let [withStarts, withOne] = [0, 0]
      for (let tick = 1; withOne === 0; tick++) {
        sums = next(sums, true)
        if (withStarts === 0 && finding(sums) >= needed) withStarts = tick
        if (alone(sums) >= needed) withOne = tick
      }
      return [withStarts === 0 ? withOne : withStarts, withOne] as const
    })
    const median = (of: 0 | 1): number => times.map((time) => time[of]).toSorted((a, b) => a - b)[15] as number
    assert.ok(median(0) * 1.5 < median(1), `${median(0)} ticks and ${median(1)}`)
  }

  test('errors', () => {
    const next = (sums: CountSums, isBad: boolean): CountSums => nextTick(sums, 0.01, isBad ? 0.05 : 0.01)
    assertSooner(noCountSums, next, (sums) => countFinding(sums).logEvidence, countEvidence)
  })

  test('latency', () => {
    const next = (sums: SignSums, isBad: boolean): SignSums => nextSign(sums, figures.p50, true, isBad ? 1.5 : 1)
    assertSooner(noSignSums, next, (sums) => signFinding(sums).logEvidence, signEvidence)
  })

  test('other classes', () => {
    const classes = new CountedClasses(10, undefined)
    for (let tick = 0; tick < 600; tick++) addAnswers(classes, 2)
    let found = 0
    for (let tick = 1; driftFinding({ ...classes.sums(), later: [] }).logEvidence < needed; tick++) {
      addAnswers(classes, 1)
      if (found === 0 && driftFinding(classes.sums()).logEvidence >= needed) found = tick * 1.5
      if (found > 0 && tick > found) return
    }
    assert.fail(`${found / 1.5} ticks`)
  })

  test('a share above its limit', () => {
    const share = new CountedShare(undefined)
    for (let tick = 0; tick < 600; tick++) addToShare(share, 0.001)
    let ticks = 0
    while (shareAbove(share.sums(), 0.01, alpha) === null) {
      addToShare(share, 0.1)
      ticks++
    }
    for (let i = 0; i < ticks; i++) addToShare(share, 0.1)
    const { events, count } = share.sums()
    assert.ok(shareInterval(events, count, alpha).low < 0.01, `one window would take less than ${ticks * 2} ticks`)
    // After a restart the windows are the same.
    assert.deepEqual(new CountedShare(share.sums()).sums(), share.sums())
  })
})

test('the simulation sees a test that peeks: a plain interval of 95 % is left far too often', () => {
  const peeks = (): boolean => {
    let [events, count] = [0, 0]
    for (let look = 0; look < 300; look++) {
      for (let i = 0; i < 5; i++) if (even() < 0.5) events++
      count += 5
      if (events / count - 1.645 * Math.sqrt(0.25 / count) > 0.5) return true
    }
    return false
  }
  assert.throws(() => assertFewAlarms(peeks, 500, 0.05), /false alarms/)
})

test('what is shown and what decides are one thing: the interval ends where the evidence reaches 1/α', () => {
  const { low, high } = shareInterval(7, 200, alpha)
  assert.ok(Math.abs(shareEvidence(low, 7, 200) - needed) < 1e-9)
  assert.ok(Math.abs(shareEvidence(high, 7, 200) - needed) < 1e-9)
})
