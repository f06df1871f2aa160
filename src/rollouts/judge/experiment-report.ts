// The report of an experiment: several arms with fixed weights, and goals. It may be read at any time, as often as anybody
// likes. The values of one bucket are summed first: a user with a thousand requests has one vote.

import { addValue, meanDifference, meanInterval, meanOf, noMeanSums, type MeanSums } from './mean-interval.ts'
import { shareEvidence, type Interval } from './share-interval.ts'

type BucketValues = { count: number; sum: number }

/** By arm: bucket, number of values, sum of values. */
export type KeptGoal = readonly (readonly (readonly [bucket: number, count: number, sum: number])[])[]

/** The interval of a mean is right from some dozens of values on. With fewer users nothing is said to be certain. */
const fewestUsers = 30

/** The values of one goal, by arm and by bucket. Bounded: there are at most 8 arms and 10,000 buckets. */
export class GoalValues {
  readonly #arms: readonly Map<number, BucketValues>[]
  /** Grows with every value. */
  changes = 0

  /** `known` are those of before a restart. */
  constructor(arms: number, known: KeptGoal = []) {
    this.#arms = Array.from(
      { length: arms },
      (_, i) => new Map((known[i] ?? []).map(([bucket, count, sum]) => [bucket, { count, sum }])),
    )
  }

  kept(): KeptGoal {
    return this.#arms.map((buckets) =>
      buckets
        .entries()
        .map(([bucket, { count, sum }]) => [bucket, count, sum] as const)
        .toArray(),
    )
  }

  add(arm: number, bucket: number, value: number): void {
    const values = this.#arms[arm]
    if (values === undefined || !Number.isFinite(value)) return
    this.changes++
    const known = values.get(bucket)
    if (known === undefined) values.set(bucket, { count: 1, sum: value })
    else {
      known.count++
      known.sum += value
    }
  }

  /** For those of another server. */
  addAll(other: GoalValues): void {
    other.#arms.forEach((buckets, arm) => {
      for (const [bucket, { count, sum }] of buckets) {
        const known = this.#arms[arm]?.get(bucket)
        if (known === undefined) this.#arms[arm]?.set(bucket, { count, sum })
        else {
          known.count += count
          known.sum += sum
        }
      }
    })
  }

  /** One value per bucket: the mean of its values. */
  votes(arm: number): MeanSums {
    let sums = noMeanSums
    for (const { count, sum } of this.#arms[arm]?.values() ?? []) sums = addValue(sums, sum / count)
    return sums
  }

  requests(arm: number): number {
    let total = 0
    for (const { count } of this.#arms[arm]?.values() ?? []) total += count
    return total
  }
}

export type ArmReport = {
  readonly arm: string
  readonly requests: number
  /** Buckets with values: users, roughly. */
  readonly users: number
  readonly mean: number
  readonly interval: Interval
  /** Against the first arm, which is the control; null for the control itself. */
  readonly difference: { readonly value: number; readonly interval: Interval; readonly logEvidence: number } | null
}

/** `alpha` is that of the whole experiment; all comparisons of all `goals` share it. */
export function reportGoal(arms: readonly string[], values: GoalValues, alpha: number, goals: number): ArmReport[] {
  const each = alpha / Math.max(1, goals * (arms.length - 1))
  const control = values.votes(0)
  return arms.map((arm, i) => {
    const votes = values.votes(i)
    const isEarly = Math.min(votes.count, control.count) < fewestUsers
    const against = i === 0 ? null : meanDifference(votes, isEarly ? noMeanSums : control, each)
    return {
      arm,
      requests: values.requests(i),
      users: votes.count,
      mean: meanOf(votes),
      interval: meanInterval(votes, each),
      difference: against && {
        value: meanOf(votes) - meanOf(control),
        interval: against.interval,
        logEvidence: against.logEvidence,
      },
    }
  })
}

/**
 * The arm that beats the control for certain and has the highest mean; null: none yet. An arm that is worse for certain in one
 * of the `others`, which are the reports of further goals, does not win.
 */
export function winnerOf(reports: readonly ArmReport[], others: readonly (readonly ArmReport[])[] = []): string | null {
  const worse = new Set(others.flat().flatMap(({ arm, difference }) => ((difference?.interval.high ?? 0) < 0 ? [arm] : []))) // prettier-ignore
  const better = reports.filter(
    ({ arm, difference }) => difference !== null && difference.interval.low > 0 && !worse.has(arm),
  )
  return better.toSorted((a, b) => b.mean - a.mean)[0]?.arm ?? null
}

const splitAlpha = 0.001

/** Whether an arm has more or fewer requests without a key than its weight explains: then something routes wrongly. */
export const isSplitOdd = (requests: number, all: number, weightShare: number): boolean =>
  weightShare > 0 && weightShare < 1 && shareEvidence(weightShare, requests, all) >= -Math.log(splitAlpha)
