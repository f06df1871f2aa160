// Inline or offloaded? Any hop to another thread costs more than a short model, and a long one must not hold up the
// main thread. So the time of each run is measured, and the place follows it with hysteresis.

import type { Place } from './session-settings.ts'

/** A run estimated to be shorter than this takes place on the main thread. */
export const defaultInlineLimitUs = 100
/** A model that is inline leaves only when it is this much slower than the limit: no flutter around it. */
const leaveFactor = 1.5
/** Runs before the first decision: the first ones also allocate and touch memory for the first time. */
const samplesToDecide = 3
/** One sample counts at most this many limits: a pause of the machine is not the model's time, four slow runs are. */
const sampleClip = 4
/** A fast run proves that the model can be fast; a slow one may be the machine's doing. */
const fallWeight = 1 / 2
const riseWeight = 1 / 8

/** Moves the estimate towards a new sample. Of the first samples the smallest counts. Pure. */
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
 * Keeps one estimate per power of two of input bytes, because a large batch may take long where a small one does not.
 * Of a size not seen yet nothing is known, so it begins offloaded.
 */
export class PlaceByTime {
  readonly #limitUs: number
  readonly #fixed: Place | null
  readonly #places: Place[] = Array.from({ length: sizeClasses }, () => 'offloaded')
  readonly #estimatesUs = new Float64Array(sizeClasses)
  readonly #sampleCounts = new Float64Array(sizeClasses)

  /** `fixed`: whatever is measured. */
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
