// Test C: does the candidate have more events (errors, wrong answers) than stable? An e-process over odds ratios: under
// "the candidate is not worse" the chance that the evidence ever reaches 1/α is at most α, however often anybody looks.

import { logMeanExp } from './log-gamma.ts'

/** The odds ratios that the test bets on, each with the same stake. */
const oddsRatios = [1.25, 1.5, 2, 3, 5, 10, 30, 100] as const

/** At so many distinct sources of events the number is not counted further. */
const mostSources = 3

type ArmCount = { readonly requests: number; readonly events: number }

/** What the test knows. All parts of several servers add up: `addCountSums`. */
export type CountSums = {
  readonly candidate: ArmCount
  readonly stable: ArmCount
  /** The candidate at 100 %, where stable has no requests and there is no control. */
  readonly alone: ArmCount
  /** ln of the likelihood ratio, by odds ratio. */
  readonly logRatios: readonly number[]
  /** Ticks in which the candidate had an event. */
  readonly eventTicks: number
  /** Buckets of sticky keys from which events of the candidate came: at most `mostSources` of them. */
  readonly eventBuckets: readonly number[]
  /** Events of the candidate that came without a sticky key. */
  readonly keylessEvents: number
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

export const noCountSums: CountSums = {
  candidate: noCount,
  stable: noCount,
  alone: noCount,
  logRatios: oddsRatios.map(() => 0),
  eventTicks: 0,
  eventBuckets: [],
  keylessEvents: 0,
}

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
  return {
    candidate: addCounts(sums.candidate, candidate),
    stable: addCounts(sums.stable, stable),
    alone: tick.isAlone && stable.requests === 0 ? addCounts(sums.alone, candidate) : sums.alone,
    // A tick in which one arm had no requests adds 0.
    logRatios: sums.logRatios.map((sum, i) => sum + logRatio(oddsRatios[i] as number, candidate, stable)),
    eventTicks: sums.eventTicks + (candidate.events > 0 ? 1 : 0),
    eventBuckets: joinBuckets(sums.eventBuckets, tick.eventBuckets),
    keylessEvents: sums.keylessEvents + tick.eventBuckets.filter((bucket) => bucket === null).length,
  }
}

function logRatio(odds: number, candidate: ArmCount, stable: ArmCount): number {
  if (candidate.events === 0 && stable.events === 0) return 0
  const all = candidate.requests + stable.requests
  const weighted = odds * candidate.requests + stable.requests
  return candidate.events * Math.log((odds * all) / weighted) + stable.events * Math.log(all / weighted)
}

function joinBuckets(known: readonly number[], more: readonly (number | null)[]): readonly number[] {
  if (known.length >= mostSources || more.length === 0) return known
  const all = new Set(known)
  for (const bucket of more) if (bucket !== null && all.size < mostSources) all.add(bucket)
  return all.size === known.length ? known : [...all]
}

export function addCountSums(a: CountSums, b: CountSums): CountSums {
  return {
    candidate: addCounts(a.candidate, b.candidate),
    stable: addCounts(a.stable, b.stable),
    alone: addCounts(a.alone, b.alone),
    logRatios: a.logRatios.map((sum, i) => sum + (b.logRatios[i] ?? 0)),
    eventTicks: a.eventTicks + b.eventTicks,
    eventBuckets: joinBuckets(a.eventBuckets, b.eventBuckets),
    keylessEvents: a.keylessEvents + b.keylessEvents,
  }
}

/** ln e: evidence that the candidate has more events. */
export const countEvidence = (sums: CountSums): number => logMeanExp(sums.logRatios)

/** From how many distinct users the candidate's events came, up to 3. An event without a key counts as a user of its own. */
export const eventSources = (sums: CountSums): number =>
  Math.min(mostSources, sums.eventBuckets.length + sums.keylessEvents)

export const rateOf = ({ requests, events }: ArmCount): number => (requests === 0 ? 0 : events / requests)
