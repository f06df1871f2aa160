// Test D: do both arms answer with the same classes equally often? Universal inference: each arm's Dirichlet(½)-multinomial
// marginal, divided by the likelihood of the best common distribution.

import { logGamma } from './log-gamma.ts'
import { shareInterval } from './share-interval.ts'

const prior = 0.5

/** How often each arm answered with each class. Those of several servers add up. */
export type DriftSums = { readonly candidate: readonly number[]; readonly stable: readonly number[] }

export const noDriftSums = (classes: number): DriftSums => ({
  candidate: Array<number>(classes).fill(0),
  stable: Array<number>(classes).fill(0),
})

const addCounts = (a: readonly number[], b: readonly number[]): number[] => a.map((count, i) => count + (b[i] ?? 0))

export const addDriftSums = (a: DriftSums, b: DriftSums): DriftSums => ({
  candidate: addCounts(a.candidate, b.candidate),
  stable: addCounts(a.stable, b.stable),
})

const total = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0)

/** ln of the chance of these counts, in one order, under the mixture. */
function logMarginal(counts: readonly number[]): number {
  const classes = counts.length
  const each = counts.reduce((sum, count) => sum + logGamma(prior + count) - logGamma(prior), 0)
  return each + logGamma(prior * classes) - logGamma(prior * classes + total(counts))
}

/** ln e: evidence that the two distributions differ. */
export function driftEvidence({ candidate, stable }: DriftSums): number {
  const both = addCounts(candidate, stable)
  const all = total(both)
  const pooled = both.reduce((sum, count) => (count === 0 ? sum : sum + count * Math.log(count / all)), 0)
  return logMarginal(candidate) + logMarginal(stable) - pooled
}

/** Half of the sum of the differences between the shares: 0 for equal distributions, 1 for disjoint ones. */
export function totalVariation({ candidate, stable }: DriftSums): number {
  const [ofCandidate, ofStable] = [total(candidate), total(stable)]
  if (ofCandidate === 0 || ofStable === 0) return 0
  const difference = (count: number, i: number): number => Math.abs(count / ofCandidate - (stable[i] ?? 0) / ofStable)
  return candidate.reduce((sum, count, i) => sum + difference(count, i), 0) / 2
}

/** The largest total variation that the intervals of all shares allow. */
export function highestTotalVariation({ candidate, stable }: DriftSums, alpha: number): number {
  const [ofCandidate, ofStable] = [total(candidate), total(stable)]
  const each = alpha / (2 * candidate.length)
  const furthest = candidate.map((count, i) => {
    const c = shareInterval(count, ofCandidate, each)
    const s = shareInterval(stable[i] ?? 0, ofStable, each)
    return Math.max(c.high - s.low, s.high - c.low)
  })
  return Math.min(1, total(furthest) / 2)
}
