// Confidence sequences for means, for reports (Waudby-Smith et al., asymptotic): true at all times once there are some
// dozens of values.

import type { Interval } from './share-interval.ts'

/** The number of values at which the interval is tightest. */
const tightestAt = 1000

/** Count, sum and sum of squares. Those of several servers add up. */
export type MeanSums = { readonly count: number; readonly sum: number; readonly squares: number }

export const noMeanSums: MeanSums = { count: 0, sum: 0, squares: 0 }

export const addValue = (sums: MeanSums, value: number): MeanSums => ({
  count: sums.count + 1,
  sum: sums.sum + value,
  squares: sums.squares + value * value,
})

export const addMeanSums = (a: MeanSums, b: MeanSums): MeanSums => ({
  count: a.count + b.count,
  sum: a.sum + b.sum,
  squares: a.squares + b.squares,
})

export const lessMeanSums = (a: MeanSums, b: MeanSums): MeanSums => ({
  count: a.count - b.count,
  sum: a.sum - b.sum,
  squares: a.squares - b.squares,
})

export const meanOf = ({ count, sum }: MeanSums): number => (count === 0 ? 0 : sum / count)

/** Rounding must not make it negative. */
const varianceOf = (sums: MeanSums): number =>
  sums.count < 2 ? 0 : Math.max(0, sums.squares - sums.count * meanOf(sums) ** 2) / (sums.count - 1)

/** ρ² that makes the interval tightest at `tightestAt` values. */
const mixtureWidth = (alpha: number): number => (-2 * Math.log(alpha) + Math.log(1 - 2 * Math.log(alpha))) / tightestAt

/** By how many standard errors the interval reaches to each side, after `count` values. */
function reach(count: number, alpha: number): number {
  const spread = count * mixtureWidth(alpha)
  return Math.sqrt(((2 * (spread + 1)) / spread) * Math.log(Math.sqrt(spread + 1) / alpha))
}

export function meanInterval(sums: MeanSums, alpha: number): Interval {
  if (sums.count < 2) return { low: -Infinity, high: Infinity }
  const half = Math.sqrt(varianceOf(sums) / sums.count) * reach(sums.count, alpha)
  return { low: meanOf(sums) - half, high: meanOf(sums) + half }
}

type MeanDifference = { readonly difference: number; readonly interval: Interval; readonly logEvidence: number }

/** The mean of `a` less the mean of `b`; `logEvidence` is ln e against "the means are equal". */
export function meanDifference(a: MeanSums, b: MeanSums, alpha: number): MeanDifference {
  const difference = meanOf(a) - meanOf(b)
  if (a.count < 2 || b.count < 2) {
    return { difference, interval: { low: -Infinity, high: Infinity }, logEvidence: 0 }
  }
  const count = a.count + b.count
  const error = Math.sqrt(varianceOf(a) / a.count + varianceOf(b) / b.count)
  const half = error * reach(count, alpha)
  const spread = count * mixtureWidth(alpha)
  const standardised = error === 0 ? (difference === 0 ? 0 : Infinity) : difference / error
  return {
    difference,
    interval: { low: difference - half, high: difference + half },
    logEvidence: ((standardised ** 2 / 2) * spread) / (spread + 1) - Math.log(spread + 1) / 2,
  }
}
