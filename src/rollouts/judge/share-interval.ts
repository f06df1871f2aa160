// Test L: confidence sequences. An interval for a share stays true at all times at once with chance 1 - α, so it can be
// looked at as often as anybody likes. Beta-binomial mixture with the prior Beta(½, ½).

import { logBeta } from './log-gamma.ts'

export type Interval = { readonly low: number; readonly high: number }

const prior = 0.5
const logPriorBeta = logBeta(prior, prior)
/** Halvings of [0, 1] until two neighbouring numbers are left. */
const bisections = 1100

/** ln of the mixture's likelihood ratio against the share `p`, after `events` of `count`. */
export function shareEvidence(p: number, events: number, count: number): number {
  const misses = count - events
  const atP = (events === 0 ? 0 : events * Math.log(p)) + (misses === 0 ? 0 : misses * Math.log1p(-p))
  return logBeta(prior + events, prior + misses) - logPriorBeta - atP
}

/** Where the share of events is, with chance 1 - α at all times. */
export function shareInterval(events: number, count: number, alpha: number): Interval {
  if (count === 0) return { low: 0, high: 1 }
  const limit = -Math.log(alpha)
  const isOutside = (p: number): boolean => shareEvidence(p, events, count) >= limit
  const mean = events / count
  return {
    low: events === 0 ? 0 : edge(0, mean, isOutside),
    high: events === count ? 1 : edge(1, mean, isOutside),
  }
}

/** The edge between `outside`, which is outside, and `inside`, which is inside, by bisection. */
function edge(outside: number, inside: number, isOutside: (p: number) => boolean): number {
  let [far, near] = [outside, inside]
  for (let i = 0; i < bisections; i++) {
    const middle = (far + near) / 2
    if (middle === far || middle === near) break
    if (isOutside(middle)) far = middle
    else near = middle
  }
  return far
}
