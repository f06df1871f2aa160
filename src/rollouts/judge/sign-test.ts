// Test S: is the candidate slower than stable? Each tick is one vote: the candidate's quantile of the tick against stable's.
// The test is exact while the arms are exchangeable. A pause of a worker falls into few ticks, so it costs few votes.

import { logMeanExp } from './log-gamma.ts'

/** The chances of a vote against the candidate that the test bets on, each with the same stake. */
const chances = [0.55, 0.6, 0.7, 0.8, 0.9, 0.97] as const
const logAgainst = chances.map((q) => Math.log(2 * q))
const logInFavour = chances.map((q) => Math.log(2 * (1 - q)))

/** Votes against the candidate, and votes for it. Those of several servers add up. */
export type SignSums = { readonly against: number; readonly inFavour: number }

export const noSignSums: SignSums = { against: 0, inFavour: 0 }

/** `difference` is what the candidate has more of, where more is worse. A tie is no vote. */
export function addSign(sums: SignSums, difference: number): SignSums {
  if (difference > 0) return { against: sums.against + 1, inFavour: sums.inFavour }
  if (difference < 0) return { against: sums.against, inFavour: sums.inFavour + 1 }
  return sums
}

export const addSignSums = (a: SignSums, b: SignSums): SignSums => ({
  against: a.against + b.against,
  inFavour: a.inFavour + b.inFavour,
})

/** ln e: evidence that more than half of the ticks go against the candidate. */
export const signEvidence = ({ against, inFavour }: SignSums): number =>
  logMeanExp(logAgainst.map((log, i) => against * log + inFavour * (logInFavour[i] as number)))

/** The upper order statistic: with few samples the p99 is the maximum. `sorted` ascends and is not empty. */
export const upperQuantile = (sorted: readonly number[], quantile: number): number =>
  sorted[Math.min(sorted.length - 1, Math.ceil((sorted.length - 1) * quantile))] as number
