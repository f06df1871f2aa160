// Computes when the requests of an open-loop load are due. It reads no clock: times are milliseconds from the beginning
// of the load.

import { seededRandom } from './random.ts'

export interface Schedule {
  /** When the next request is due. */
  readonly nextMs: number
  /** The request was sent: moves to the next one. */
  advance(): void
}

/** Equal gaps. With `shares` threads, thread `share` sends every n-th request. */
export class ConstantSchedule implements Schedule {
  readonly #gapMs: number
  readonly #share: number
  readonly #shares: number
  #count = 0

  constructor(ratePerSecond: number, share = 0, shares = 1) {
    this.#gapMs = 1000 / ratePerSecond
    this.#share = share
    this.#shares = shares
  }

  /** Computed from the count, so that rounding errors do not add up over hours. */
  get nextMs(): number {
    return (this.#count * this.#shares + this.#share) * this.#gapMs
  }

  advance(): void {
    this.#count++
  }
}

/** One of the threads that share a constant rate. */
type ThreadShare = { readonly ratePerSecond: number; readonly share: number; readonly shares: number }

/**
 * When the schedule of a thread begins that is ready at `nowMs`. Threads are ready at different times, and their requests still have equal gaps: each begins
 * a whole number of rounds behind `epochMs`, which is the same moment for all of them, and sends its first request after `nowMs`.
 */
export function beginOfTurns({ ratePerSecond, share, shares }: ThreadShare, nowMs: number, epochMs: number): number {
  if (shares === 1) return nowMs
  const gapMs = 1000 / ratePerSecond
  const roundMs = shares * gapMs
  return epochMs + Math.ceil((nowMs - epochMs - share * gapMs) / roundMs) * roundMs
}

/** Exponentially distributed gaps, as between independent arrivals. The loads of several threads add up. */
export class PoissonSchedule implements Schedule {
  readonly #meanMs: number
  readonly #random: () => number
  nextMs: number

  constructor(ratePerSecond: number, seed: number) {
    this.#meanMs = 1000 / ratePerSecond
    this.#random = seededRandom(seed)
    this.nextMs = this.#gapMs()
  }

  advance(): void {
    this.nextMs += this.#gapMs()
  }

  #gapMs(): number {
    return -Math.log(1 - this.#random()) * this.#meanMs
  }
}

/** The gaps of a list, again and again. */
export class IntervalSchedule implements Schedule {
  readonly #gapsMs: readonly number[]
  #at = 0
  nextMs = 0

  constructor(intervalsUs: readonly number[]) {
    this.#gapsMs = intervalsUs.map((us) => us / 1000)
  }

  advance(): void {
    this.nextMs += this.#gapsMs[this.#at] ?? 0
    this.#at = (this.#at + 1) % this.#gapsMs.length
  }
}
