import type { Clock } from '../../base/clock.ts'

const msNs = 1e6

/**
 * The wall-clock time at the zero of the monotonic clock. The wall clock gives whole milliseconds, rounded down, so the
 * largest difference of both clocks is the most exact one. When the wall clock was set back, a new one is measured.
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
    // Whole milliseconds and the rest are kept apart: a double cannot hold both together exactly.
    const differenceNs = wallMs * msNs - nowNs
    if (differenceNs > this.#originNs || differenceNs < this.#originNs - msNs) {
      this.#originNs = differenceNs
      this.#exactNs = BigInt(Math.floor(wallMs)) * BigInt(msNs) - BigInt(Math.round(nowNs))
    }
    return this.#exactNs
  }
}
