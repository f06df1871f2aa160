import type { Clock } from '../../base/clock.ts'

const msNs = 1e6

/**
 * Where the zero of the monotonic clock is on the wall. The wall clock is read in whole milliseconds, always rounded down:
 * so the largest difference seen is the truest, until the wall clock itself was set back.
 */
export class WallOrigin {
  readonly #clock: Clock
  #originNs = 0
  #exactNs = 0n

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Nanoseconds since 1970. */
  read(): bigint {
    const wallMs = this.#clock.wallMs()
    const nowNs = this.#clock.nowNs()
    // Whole milliseconds and the rest apart: together they are more than a double holds.
    const differenceNs = wallMs * msNs - nowNs
    if (differenceNs > this.#originNs || differenceNs < this.#originNs - msNs) {
      this.#originNs = differenceNs
      this.#exactNs = BigInt(Math.floor(wallMs)) * BigInt(msNs) - BigInt(Math.round(nowNs))
    }
    return this.#exactNs
  }
}
