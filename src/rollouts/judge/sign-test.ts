// Test S: is the candidate slower than stable? Each tick is one vote: the candidate's quantile of the tick against stable's.
// The test is exact while the arms are exchangeable. A pause of a worker falls into few ticks, so it costs few votes.

import { keptStarts, LaterStarts } from './later-starts.ts'
import { logMeanExp } from './log-gamma.ts'

/** The chances of a vote against the candidate that the test bets on, each with the same stake. */
const chances = [0.55, 0.6, 0.7, 0.8, 0.9, 0.97] as const
/** Those of tests that began later. Most of the stake is on a fault that shows in nearly every tick, the rest on one that shows in most of them. */
const laterChances = [0.75, 0.94, 0.96, 0.98] as const

type Bet = { readonly logAgainst: number; readonly logInFavour: number }

const betOn = (q: number): Bet => ({ logAgainst: Math.log(2 * q), logInFavour: Math.log(2 * (1 - q)) })
const bets = chances.map(betOn)
const laterBets = laterChances.map(betOn)

/** A clear difference is found in some ten ticks. */
const starts = new LaterStarts(5, 0.4)

/** Votes against the candidate, and votes for it. */
export type Votes = { readonly against: number; readonly inFavour: number }

/** The votes of the whole rollout, and those since later starts. Those of several servers add up. */
export type SignSums = Votes & {
  readonly ticks: number
  /** In their order; `start` counts from 1. */
  readonly later: readonly (Votes & { readonly start: number })[]
}

const noVotes: Votes = { against: 0, inFavour: 0 }

export const noSignSums: SignSums = { ...noVotes, ticks: 0, later: [] }

/** `difference` is what the candidate has more of in this tick, where more is worse. A tie is no vote. */
export function addSign(sums: SignSums, difference: number): SignSums {
  const vote = { against: difference > 0 ? 1 : 0, inFavour: difference < 0 ? 1 : 0 }
  const start = starts.startAt(sums.ticks)
  const later = start === 0 ? sums.later : keptStarts([...sums.later, { ...noVotes, start }], start)
  return {
    ...addVotes(sums, vote),
    ticks: sums.ticks + 1,
    later: later.map((one) => ({ ...addVotes(one, vote), start: one.start })),
  }
}

/** The start that the next tick begins; 0: it begins none. */
export const signStartAfter = ({ ticks }: SignSums): number => starts.startAt(ticks)

const addVotes = (a: Votes, b: Votes): Votes => ({
  against: a.against + b.against,
  inFavour: a.inFavour + b.inFavour,
})

export const addSignSums = (a: SignSums, b: SignSums): SignSums => ({
  ...addVotes(a, b),
  ticks: Math.max(a.ticks, b.ticks),
  later: starts.add(a, b, (one, other) => ({ ...addVotes(one, other), start: one.start })),
})

/** ln e of these votes: evidence that more than half of the ticks go against the candidate. */
export const signEvidence = (votes: Votes): number => evidenceOf(votes, bets)

const evidenceOf = ({ against, inFavour }: Votes, of: readonly Bet[]): number =>
  logMeanExp(of.map((bet) => against * bet.logAgainst + inFavour * bet.logInFavour))

/** ln e of all starts together, and the later start that has most of it; null: the whole rollout has it. */
export function signFinding(sums: SignSums): {
  readonly logEvidence: number
  readonly best: SignSums['later'][number] | null
} {
  return starts.mix(signEvidence(sums), sums, (votes) => evidenceOf(votes, laterBets))
}

/** The upper order statistic: with few samples the p99 is the maximum. `sorted` ascends and is not empty. */
export const upperQuantile = (sorted: readonly number[], quantile: number): number =>
  sorted[Math.min(sorted.length - 1, Math.ceil((sorted.length - 1) * quantile))] as number
