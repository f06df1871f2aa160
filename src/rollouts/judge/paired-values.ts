// Values of both arms (durations, scores) → votes of the sign test, tick by tick, and the figures that people see.

import type { MeanSums } from './mean-interval.ts'
import type { SignRule } from './metric-rule.ts'
import { noArmValues, type ArmValues, type MetricSums } from './metric-sums.ts'
import { SampleReservoir } from './sample-reservoir.ts'
import { addSign, noSignSums, upperQuantile, type SignSums } from './sign-test.ts'
import { ValueHistogram } from './value-histogram.ts'

/** At most so many values of an arm are compared in a tick. */
const mostSamples = 64
/** A tick lasts until both arms have so many values… */
const leastSamples = 5
/** …but not longer than this. */
const longestTickNs = 60e9
const shortestTickNs = 1e9

export type ArmName = 'candidate' | 'stable'
type SignSumsOf = Extract<MetricSums, { readonly test: 'sign' }>

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

  get mean(): MeanSums {
    return { count: this.#count, sum: this.#sum, squares: this.#squares }
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
  #tickStartNs: number

  constructor(
    rules: readonly SignRule[],
    known: readonly (SignSumsOf | undefined)[],
    random: () => number,
    nowNs: number,
  ) {
    this.#rules = rules
    const [first] = known
    this.#arms = {
      candidate: new ArmCollector(random, first?.candidate ?? noArmValues),
      stable: new ArmCollector(random, first?.stable ?? noArmValues),
    }
    this.#signs = rules.map((_, i) => known[i]?.signs ?? noSignSums)
    this.#tickStartNs = nowNs
  }

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
    // Means of few values are not compared: one odd value decides them.
    const count = Math.min(fewest, mostSamples)
    if (count > 0) {
      const [ofCandidate, ofStable] = [candidate.reservoir.draw(count), stable.reservoir.draw(count)]
      this.#rules.forEach((rule, i) => {
        if (rule.quantile === null && fewest < leastSamples) return
        const difference =
          rule.quantile === null
            ? candidate.reservoir.mean - stable.reservoir.mean
            : upperQuantile(ofCandidate, rule.quantile) - upperQuantile(ofStable, rule.quantile)
        this.#signs[i] = addSign(this.#signs[i] as SignSums, rule.isHigherWorse ? difference : -difference)
      })
    }
    candidate.reservoir.clear()
    stable.reservoir.clear()
    this.#tickStartNs = nowNs
  }

  sums(): readonly SignSumsOf[] {
    const valuesOf = (arm: ArmCollector): ArmValues => ({ histogram: arm.histogram.counts(), mean: arm.mean })
    const [candidate, stable] = [valuesOf(this.#arms.candidate), valuesOf(this.#arms.stable)]
    return this.#signs.map((signs) => ({ test: 'sign', signs, candidate, stable }))
  }
}
