// Test D: do both arms answer with the same classes equally often? Universal inference: each arm's Dirichlet(½)-multinomial
// marginal, divided by the likelihood of the best common distribution.

import { LaterStarts } from './later-starts.ts'
import { logGamma } from './log-gamma.ts'
import { shareInterval } from './share-interval.ts'

const prior = 0.5

/** Classes need many answers: a test that begins anew too often finds nothing. */
export const driftStarts = new LaterStarts(30, 0.5)

/** How often each arm answered with each class. */
export type ClassCounts = { readonly candidate: readonly number[]; readonly stable: readonly number[] }

/** Those of the whole rollout, and those since later starts. Those of several servers add up. */
export type DriftSums = ClassCounts & {
  readonly ticks: number
  /** In their order; `start` counts from 1. */
  readonly later: readonly (ClassCounts & { readonly start: number })[]
}

export const noDriftSums = (classes: number): DriftSums => ({
  candidate: Array<number>(classes).fill(0),
  stable: Array<number>(classes).fill(0),
  ticks: 0,
  later: [],
})

const addCounts = (a: readonly number[], b: readonly number[]): number[] => a.map((count, i) => count + (b[i] ?? 0))

const addClasses = (a: ClassCounts, b: ClassCounts): ClassCounts => ({
  candidate: addCounts(a.candidate, b.candidate),
  stable: addCounts(a.stable, b.stable),
})

export const lessClasses = (a: ClassCounts, b: ClassCounts): ClassCounts => ({
  candidate: a.candidate.map((count, i) => count - (b.candidate[i] ?? 0)),
  stable: a.stable.map((count, i) => count - (b.stable[i] ?? 0)),
})

export const addDriftSums = (a: DriftSums, b: DriftSums): DriftSums => ({
  ...addClasses(a, b),
  ticks: Math.max(a.ticks, b.ticks),
  later: driftStarts.add(a, b, (one, other) => ({ ...addClasses(one, other), start: one.start })),
})

const total = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0)

/** ln of the chance of these counts, in one order, under the mixture. */
function logMarginal(counts: readonly number[]): number {
  const classes = counts.length
  const each = counts.reduce((sum, count) => sum + logGamma(prior + count) - logGamma(prior), 0)
  return each + logGamma(prior * classes) - logGamma(prior * classes + total(counts))
}

/** ln e: evidence that the two distributions differ. */
export function driftEvidence({ candidate, stable }: ClassCounts): number {
  const both = addCounts(candidate, stable)
  const all = total(both)
  const pooled = both.reduce((sum, count) => (count === 0 ? sum : sum + count * Math.log(count / all)), 0)
  return logMarginal(candidate) + logMarginal(stable) - pooled
}

/** ln e of all starts together, and the answers that have most of it. */
export function driftFinding(sums: DriftSums): { readonly logEvidence: number; readonly window: ClassCounts } {
  const { logEvidence, best } = driftStarts.mix(driftEvidence(sums), sums, driftEvidence)
  return { logEvidence, window: best ?? sums }
}

/** Half of the sum of the differences between the shares: 0 for equal distributions, 1 for disjoint ones. */
export function totalVariation({ candidate, stable }: ClassCounts): number {
  const [ofCandidate, ofStable] = [total(candidate), total(stable)]
  if (ofCandidate === 0 || ofStable === 0) return 0
  const difference = (count: number, i: number): number => Math.abs(count / ofCandidate - (stable[i] ?? 0) / ofStable)
  return candidate.reduce((sum, count, i) => sum + difference(count, i), 0) / 2
}

/** The largest total variation that the intervals of all shares allow. */
export function highestTotalVariation({ candidate, stable }: ClassCounts, alpha: number): number {
  const [ofCandidate, ofStable] = [total(candidate), total(stable)]
  const each = alpha / (2 * candidate.length)
  const furthest = candidate.map((count, i) => {
    const c = shareInterval(count, ofCandidate, each)
    const s = shareInterval(stable[i] ?? 0, ofStable, each)
    return Math.max(c.high - s.low, s.high - c.low)
  })
  return Math.min(1, total(furthest) / 2)
}
