// Chooses whether a model runs inline or offloaded. A hop to another thread costs more than a short run, and a long run
// must not block the main thread. So the time of each run is measured, and the place follows it with hysteresis.

import type { Place } from './session-settings.ts'

/** A run with a shorter estimate takes place on the main thread. */
export const defaultInlineLimitUs = 100
/** An inline model is offloaded only when it is this much slower than the limit, so that it does not flip often. */
const leaveFactor = 1.5
/** The first decision comes after so many runs, because the first runs also allocate memory. */
const samplesToDecide = 3
/** One sample counts as at most this many limits: one pause of the machine changes nothing, four slow runs do. */
const sampleClip = 4
/** A fast run proves that the model can be fast; a slow run may come from a busy machine. */
const fallWeight = 1 / 2
const riseWeight = 1 / 8

/** Moves the estimate towards a new sample. Of the first samples it takes the smallest. Pure. */
export function nextEstimateUs(estimateUs: number, sampleUs: number, sampleCount: number, limitUs: number): number {
  if (sampleCount === 0) return sampleUs
  if (sampleCount < samplesToDecide) return Math.min(estimateUs, sampleUs)
  const difference = Math.min(sampleUs, sampleClip * limitUs) - estimateUs
  return estimateUs + difference * (difference < 0 ? fallWeight : riseWeight)
}

/** Where the next run should take place. Pure. */
export function nextPlace(current: Place, estimateUs: number, sampleCount: number, limitUs: number): Place {
  if (sampleCount < samplesToDecide) return current
  if (current === 'inline') return estimateUs > limitUs * leaveFactor ? 'offloaded' : 'inline'
  return estimateUs < limitUs ? 'inline' : 'offloaded'
}

const sizeClasses = 48

/**
 * Keeps one estimate per power of two of input bytes, because a large batch may take long when a small one does not. A
 * size without a run begins offloaded.
 */
export class PlaceByTime {
  readonly #limitUs: number
  readonly #fixed: Place | null
  readonly #places: Place[] = Array.from({ length: sizeClasses }, () => 'offloaded')
  readonly #estimatesUs = new Float64Array(sizeClasses)
  readonly #sampleCounts = new Float64Array(sizeClasses)

  /** `fixed`: the place of all runs; null: the measured time decides. */
  constructor(limitUs: number, fixed: Place | null) {
    this.#limitUs = limitUs
    this.#fixed = fixed
  }

  placeFor(inputBytes: number): Place {
    return this.#fixed ?? (this.#places[sizeClass(inputBytes)] as Place)
  }

  observe(inputBytes: number, elapsedNs: number): void {
    if (this.#fixed !== null) return
    const index = sizeClass(inputBytes)
    const count = this.#sampleCounts[index] as number
    const estimateUs = nextEstimateUs(this.#estimatesUs[index] as number, elapsedNs / 1000, count, this.#limitUs)
    this.#estimatesUs[index] = estimateUs
    this.#sampleCounts[index] = count + 1
    this.#places[index] = nextPlace(this.#places[index] as Place, estimateUs, count + 1, this.#limitUs)
  }
}

const sizeClass = (bytes: number): number =>
  bytes < 0x80000000 ? 32 - Math.clz32(bytes) : Math.min(sizeClasses - 1, Math.ceil(Math.log2(bytes)) + 1)
