import { performance } from 'node:perf_hooks'
import type { Clock } from './clock.ts'

const shortestNs = 250e6

/** How busy the main thread is, 0 to 1: the share of time in which the event loop did not wait. */
export class LoopPressure {
  readonly #clock: Clock
  #last = performance.eventLoopUtilization()
  #lastNs: number
  #share = 0

  constructor(clock: Clock) {
    this.#clock = clock
    this.#lastNs = clock.nowNs()
  }

  /** Over the last quarter of a second, or since it was asked before. */
  read(): number {
    const nowNs = this.#clock.nowNs()
    if (nowNs - this.#lastNs < shortestNs) return this.#share
    const now = performance.eventLoopUtilization()
    this.#share = performance.eventLoopUtilization(now, this.#last).utilization
    this.#last = now
    this.#lastNs = nowNs
    return this.#share
  }
}
