// Values of both arms (durations, scores) → votes of the sign test, tick by tick, and the figures that people see.

import type { MeanSums } from './mean-interval.ts'
import type { SignRule } from './metric-rule.ts'
import { lessArmValues, noArmValues, type ArmValues, type BothValues, type SignTestSums } from './metric-sums.ts'
import { SampleReservoir } from './sample-reservoir.ts'
import { addSign, noSignSums, signStartAfter, upperQuantile, type SignSums } from './sign-test.ts'
import { ValueHistogram } from './value-histogram.ts'

/** At most so many values of an arm are compared in a tick. */
const mostSamples = 64
/** A tick lasts until both arms have so many values… */
const leastSamples = 5
/** …but not longer than this. */
const longestTickNs = 60e9
const shortestTickNs = 1e9

export type ArmName = 'candidate' | 'stable'

class ArmCollector {
  readonly reservoir: SampleReservoir
  readonly histogram: ValueHistogram
  #count: number
  #sum: number
  #squares: number

  constructor(random: () => number, known: ArmValues) {
    this.reservoir = new SampleReservoir(random, mostSamples)
    this.histogram = new ValueHistogram(known.histogram)
    this.#count = known.mean.count
    this.#sum = known.mean.sum
    this.#squares = known.mean.squares
  }

  get values(): ArmValues {
    const mean: MeanSums = { count: this.#count, sum: this.#sum, squares: this.#squares }
    return { histogram: this.histogram.counts(), mean }
  }

  add(value: number): void {
    this.reservoir.add(value)
    this.histogram.add(value)
    this.#count++
    this.#sum += value
    this.#squares += value * value
  }
}

/** One source of values for one or more rules: `latency_p50` and `latency_p99` read the same durations. */
export class PairedValues {
  readonly #rules: readonly SignRule[]
  readonly #arms: Readonly<Record<ArmName, ArmCollector>>
  readonly #signs: SignSums[]
  /** What there was when the tests began anew: what has come since is the difference. */
  #marks: SignTestSums['later']
  #later: SignTestSums['later']
  #tickStartNs: number

  constructor(
    rules: readonly SignRule[],
    known: readonly (SignTestSums | undefined)[],
    random: () => number,
    nowNs: number,
  ) {
    this.#rules = rules
    const { candidate, stable, later } = known[0] ?? { candidate: noArmValues, stable: noArmValues, later: [] }
    this.#arms = { candidate: new ArmCollector(random, candidate), stable: new ArmCollector(random, stable) }
    this.#signs = rules.map((_, i) => known[i]?.signs ?? noSignSums)
    this.#later = later
    this.#marks = this.#since(later)
    this.#mark()
    this.#tickStartNs = nowNs
  }

  /** HOT: once per judged request. */
  add(arm: ArmName, value: number): void {
    if (Number.isFinite(value)) this.#arms[arm].add(value)
  }

  /** Closes the tick when it has enough values, or has lasted too long. */
  tick(nowNs: number): void {
    const { candidate, stable } = this.#arms
    const lastedNs = nowNs - this.#tickStartNs
    const fewest = Math.min(candidate.reservoir.seen, stable.reservoir.seen)
    const isOver = lastedNs >= longestTickNs || (lastedNs >= shortestTickNs && fewest >= leastSamples)
    if (!isOver) return
    if (fewest > 0) {
      this.#vote(fewest)
      this.#begin()
    }
    candidate.reservoir.clear()
    stable.reservoir.clear()
    this.#tickStartNs = nowNs
  }

  sums(): readonly SignTestSums[] {
    const both = this.#values()
    return this.#signs.map((signs) => ({ test: 'sign', signs, ...both, later: this.#later }))
  }

  #vote(fewest: number): void {
    const { candidate, stable } = this.#arms
    const count = Math.min(fewest, mostSamples)
    const [ofCandidate, ofStable] = [candidate.reservoir.draw(count), stable.reservoir.draw(count)]
    this.#rules.forEach((rule, i) => {
      // Means of few values are not compared: one odd value decides them.
      const difference =
        rule.quantile === null
          ? fewest < leastSamples
            ? 0
            : candidate.reservoir.mean - stable.reservoir.mean
          : upperQuantile(ofCandidate, rule.quantile) - upperQuantile(ofStable, rule.quantile)
      this.#signs[i] = addSign(this.#signs[i] as SignSums, rule.isHigherWorse ? difference : -difference)
    })
  }

  /** The values since each start of the votes. A start comes after a tick, and its first votes after the next one. */
  #begin(): void {
    const votes = this.#signs[0] as SignSums
    const starts = new Set(votes.later.map(({ start }) => start))
    this.#marks = this.#marks.filter(({ start }) => starts.has(start))
    this.#later = this.#since(this.#marks)
    this.#mark()
  }

  #mark(): void {
    const [votes] = this.#signs
    const next = votes === undefined ? 0 : signStartAfter(votes)
    if (next > 0) this.#marks = [...this.#marks, { start: next, ...this.#values() }]
  }

  #values(): BothValues {
    return { candidate: this.#arms.candidate.values, stable: this.#arms.stable.values }
  }

  /** What the arms have without these values. */
  #since(parts: SignTestSums['later']): SignTestSums['later'] {
    const { candidate, stable } = this.#values()
    return parts.map((part) => ({
      start: part.start,
      candidate: lessArmValues(candidate, part.candidate),
      stable: lessArmValues(stable, part.stable),
    }))
  }
}
