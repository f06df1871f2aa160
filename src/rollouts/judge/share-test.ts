// A share of events that must stay below a limit: the interval of the whole rollout, and those since later starts. Each has a part of α
// of its own, so the chance that any of them leaves the true share is at most α.

import { LaterStarts } from './later-starts.ts'
import { shareEvidence } from './share-interval.ts'

export const shareStarts = new LaterStarts(15, 0.5)

export type ShareCount = { readonly events: number; readonly count: number }

/** Those of several servers add up. */
export type ShareSums = ShareCount & {
  readonly ticks: number
  /** In their order; `start` counts from 1. */
  readonly later: readonly (ShareCount & { readonly start: number })[]
}

export const noShareSums: ShareSums = { events: 0, count: 0, ticks: 0, later: [] }

const addShares = (a: ShareCount, b: ShareCount): ShareCount => ({
  events: a.events + b.events,
  count: a.count + b.count,
})

export const lessShares = (a: ShareCount, b: ShareCount): ShareCount => ({
  events: a.events - b.events,
  count: a.count - b.count,
})

export const addShareSums = (a: ShareSums, b: ShareSums): ShareSums => ({
  ...addShares(a, b),
  ticks: Math.max(a.ticks, b.ticks),
  later: shareStarts.add(a, b, (one, other) => ({ ...addShares(one, other), start: one.start })),
})

/** The requests whose share is above the limit, and the α that their interval has; null: there are none. */
export function shareAbove(
  { events, count, later }: ShareSums,
  limit: number,
  alpha: number,
): (ShareCount & { readonly alpha: number }) | null {
  const isAbove = (one: ShareCount, part: number): boolean =>
    one.events > one.count * limit && shareEvidence(limit, one.events, one.count) >= -Math.log(part)
  if (isAbove({ events, count }, wholeAlpha(alpha))) return { events, count, alpha: wholeAlpha(alpha) }
  const found = later.find((one) => isAbove(one, alpha * shareStarts.stakeOf(one.start)))
  return found === undefined
    ? null
    : { events: found.events, count: found.count, alpha: alpha * shareStarts.stakeOf(found.start) }
}

/** The part of the interval of the whole rollout. */
export const wholeAlpha = (alpha: number): number => alpha * shareStarts.firstStake
