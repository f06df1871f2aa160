// Chooses whether a model runs inline or offloaded. A hop to another thread costs more than a short run, and a long run
// must not block the main thread. So the time of each run is measured, and the place follows it with hysteresis.

import type { RunInput } from './onnx-session.ts'
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

/** An inline run that computes for longer has held everybody up: runs of its size leave the main thread. */
const stallUs = 5000
/** Linux counts the CPU time of a running thread at every tick: a difference may be too large by one tick. */
const cpuTickUs = 4000
/** The CPU time is read at most once a tick, because reading it costs a microsecond. */
const cpuReadNs = cpuTickUs * 1000
/** So many runs of that size in a row must be short before it comes back, and eight times as many after each further stall. */
const firstProbation = 10_000
const probationGrowth = 8
/** Sizes that are told apart; all others run offloaded. */
const mostSizes = 256

class SizeTimes {
  place: Place = 'offloaded'
  estimateUs = 0
  sampleCount = 0
  stallCount = 0
  /** Short runs that are still to come before the size may be inline again. */
  probationLeft = 0
}

/**
 * Keeps one estimate per size of inputs (`sizeKey`), because a large batch may take long where a small one does not.
 * Of a size not seen yet nothing is known, so it begins offloaded.
 */
export class PlaceByTime {
  readonly #limitUs: number
  readonly #fixed: Place | null
  readonly #sizes = new Map<number, SizeTimes>()
  readonly #cpuUs: () => number
  #cpuReadAtNs = -Infinity
  #cpuBeforeUs = 0

  /** `fixed`: whatever is measured. `cpuUs`: the CPU time of the thread that runs inline. */
  constructor(limitUs: number, fixed: Place | null, cpuUs: () => number = threadCpuUs) {
    this.#limitUs = limitUs
    this.#fixed = fixed
    this.#cpuUs = cpuUs
  }

  placeFor(key: number, nowNs: number): Place {
    if (nowNs - this.#cpuReadAtNs > cpuReadNs) {
      this.#cpuReadAtNs = nowNs
      this.#cpuBeforeUs = this.#cpuUs()
    }
    return this.#fixed ?? this.#sizes.get(key)?.place ?? 'offloaded'
  }

  observe(key: number, elapsedNs: number): void {
    if (this.#fixed !== null) return
    let size = this.#sizes.get(key)
    if (size === undefined) {
      if (this.#sizes.size >= mostSizes) return
      size = new SizeTimes()
      this.#sizes.set(key, size)
    }
    const elapsedUs = elapsedNs / 1000
    size.estimateUs = nextEstimateUs(size.estimateUs, elapsedUs, size.sampleCount, this.#limitUs)
    size.sampleCount++
    if (size.place === 'inline' && elapsedUs > stallUs && this.#hasComputed) {
      size.place = 'offloaded'
      size.probationLeft = firstProbation * probationGrowth ** size.stallCount++
    } else if (size.probationLeft > 0) {
      size.probationLeft = elapsedUs > this.#limitUs ? size.probationLeft : size.probationLeft - 1
    } else size.place = nextPlace(size.place, size.estimateUs, size.sampleCount, this.#limitUs)
  }

  /** False: the thread waited for a busy machine, which says nothing about the model. */
  get #hasComputed(): boolean {
    return this.#cpuUs() - this.#cpuBeforeUs > stallUs + 2 * cpuTickUs
  }
}

function threadCpuUs(): number {
  const { user, system } = process.threadCpuUsage()
  return user + system
}

/**
 * Stands for all inputs whose dimensions and bytes are about the same: equal powers of two. The same number of bytes in
 * another shape is another size, because [1, n] and [n, 1] may be a sum and a product of n². HOT: once per run.
 */
export function sizeKey(inputs: readonly (RunInput | null)[]): number {
  let key = inputs.length
  for (let i = 0; i < inputs.length; i++) {
    const input = inputs[i]
    if (input === null || input === undefined) continue
    const { shape, bytes } = input
    for (let d = 0; d < shape.length; d++) key = (Math.imul(key, 37) + powerOf(shape[d] as number)) | 0
    key = (Math.imul(key, 37) + powerOf(bytes.byteLength)) | 0
  }
  return key
}

const powerOf = (size: number): number => (size < 0x80000000 ? 32 - Math.clz32(size) : 33)
