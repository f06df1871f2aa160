// Test C: does the candidate have more events (errors, wrong answers) than stable? An e-process over odds ratios: under
// "the candidate is not worse" the chance that the evidence ever reaches 1/α is at most α, however often anybody looks.

import { keptStarts, LaterStarts } from './later-starts.ts'
import { logMeanExp } from './log-gamma.ts'

/** The odds ratios that the test bets on, each with the same stake. */
const oddsRatios = [1.25, 1.5, 2, 3, 5, 10, 30, 100] as const

/** Those of tests that began later. Fewer of them leave more to each; one between two of these is found nearly as soon. */
const laterOddsRatios = [2, 5, 20] as const

/** At so many distinct sources of events the number is not counted further. */
const mostSources = 3

/** Errors are rare: a test needs dozens of ticks to find more of them, and health of a few ticks before the fault costs it little. */
const starts = new LaterStarts(15, 0.5)

type ArmCount = { readonly requests: number; readonly events: number }

/** The requests since a start of the test, and what they say. */
export type CountWindow = {
  readonly candidate: ArmCount
  readonly stable: ArmCount
  /** ln of the likelihood ratio, by odds ratio. Those of later starts have fewer of them. */
  readonly logRatios: readonly number[]
  /** Ticks in which the candidate had an event. */
  readonly eventTicks: number
  /** Buckets of sticky keys from which events of the candidate came: at most `mostSources` of them. */
  readonly eventBuckets: readonly number[]
  /** Events of the candidate that came without a sticky key. */
  readonly keylessEvents: number
}

/** What the test knows: the window of the whole rollout, and those of later starts. All parts of several servers add up: `addCountSums`. */
export type CountSums = CountWindow & {
  /** The candidate at 100 %, where stable has no requests and there is no control. */
  readonly alone: ArmCount
  readonly ticks: number
  /** In their order; `start` counts from 1. */
  readonly later: readonly (CountWindow & { readonly start: number })[]
}

/** The requests of one tick. `eventBuckets` has the bucket of each event of the candidate; null: it had no key. */
type CountTick = {
  readonly candidate: ArmCount
  readonly stable: ArmCount
  readonly eventBuckets: readonly (number | null)[]
  /** The candidate has all requests. A tick in which stable had none by chance is not such a tick. */
  readonly isAlone: boolean
}

const noCount: ArmCount = { requests: 0, events: 0 }

const noWindow: CountWindow = {
  candidate: noCount,
  stable: noCount,
  logRatios: oddsRatios.map(() => 0),
  eventTicks: 0,
  eventBuckets: [],
  keylessEvents: 0,
}

const noLaterWindow: CountWindow = { ...noWindow, logRatios: laterOddsRatios.map(() => 0) }

export const noCountSums: CountSums = { ...noWindow, alone: noCount, ticks: 0, later: [] }

const addCounts = (a: ArmCount, b: ArmCount): ArmCount => ({
  requests: a.requests + b.requests,
  events: a.events + b.events,
})

/**
 * The exposure that really was enters, not the weight, so a sticky user with many requests is no false alarm. Given the
 * total of events of a tick, the candidate's part is hypergeometric; the binomial dominates that in convex order.
 */
export function addCountTick(sums: CountSums, tick: CountTick): CountSums {
  const { candidate, stable } = tick
  const buckets = tick.eventBuckets.filter((bucket) => bucket !== null)
  const moreOf = (odds: readonly number[]): CountWindow => ({
    candidate,
    stable,
    // A tick in which one arm had no requests adds 0.
    logRatios: odds.map((each) => logRatio(each, candidate, stable)),
    eventTicks: candidate.events > 0 ? 1 : 0,
    eventBuckets: buckets,
    keylessEvents: tick.eventBuckets.length - buckets.length,
  })
  const moreLater = moreOf(laterOddsRatios)
  const start = starts.startAt(sums.ticks)
  const later = start === 0 ? sums.later : keptStarts([...sums.later, { ...noLaterWindow, start }], start)
  return {
    ...addWindows(sums, moreOf(oddsRatios)),
    alone: tick.isAlone && stable.requests === 0 ? addCounts(sums.alone, candidate) : sums.alone,
    ticks: sums.ticks + 1,
    later: later.map((window) => ({ ...addWindows(window, moreLater), start: window.start })),
  }
}

const addWindows = (a: CountWindow, b: CountWindow): CountWindow => ({
  candidate: addCounts(a.candidate, b.candidate),
  stable: addCounts(a.stable, b.stable),
  logRatios: a.logRatios.map((sum, i) => sum + (b.logRatios[i] ?? 0)),
  eventTicks: a.eventTicks + b.eventTicks,
  eventBuckets: joinBuckets(a.eventBuckets, b.eventBuckets),
  keylessEvents: a.keylessEvents + b.keylessEvents,
})

function logRatio(odds: number, candidate: ArmCount, stable: ArmCount): number {
  if (candidate.events === 0 && stable.events === 0) return 0
  const all = candidate.requests + stable.requests
  const weighted = odds * candidate.requests + stable.requests
  return candidate.events * Math.log((odds * all) / weighted) + stable.events * Math.log(all / weighted)
}

function joinBuckets(known: readonly number[], more: readonly number[]): readonly number[] {
  if (known.length >= mostSources || more.length === 0) return known
  const all = new Set(known)
  for (const bucket of more) if (all.size < mostSources) all.add(bucket)
  return all.size === known.length ? known : [...all]
}

export const addCountSums = (a: CountSums, b: CountSums): CountSums => ({
  ...addWindows(a, b),
  alone: addCounts(a.alone, b.alone),
  ticks: Math.max(a.ticks, b.ticks),
  later: starts.add(a, b, (one, other) => ({ ...addWindows(one, other), start: one.start })),
})

/** ln e of one window: evidence that the candidate has more events in it. */
export const countEvidence = ({ logRatios }: Pick<CountWindow, 'logRatios'>): number => logMeanExp(logRatios)

/** ln e of all windows together, and the window that has most of it. */
export function countFinding(sums: CountSums): { readonly logEvidence: number; readonly window: CountWindow } {
  const { logEvidence, best } = starts.mix(countEvidence(sums), sums, countEvidence)
  return { logEvidence, window: best ?? sums }
}

/** From how many distinct users the candidate's events came, up to 3. An event without a key counts as a user of its own. */
export const eventSources = ({ eventBuckets, keylessEvents }: CountWindow): number =>
  Math.min(mostSources, eventBuckets.length + keylessEvents)

export const rateOf = ({ requests, events }: ArmCount): number => (requests === 0 ? 0 : events / requests)
