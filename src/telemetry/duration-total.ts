// How often something happened and how long it took in all. Sums of durations outgrow the integers a number holds
// exactly after a hundred days, which a busy server reaches in one: what has been added up moves to a bigint in time.

import type { DurationStatistic } from '../model/model-statistics.ts'

const foldAtNs = 2 ** 50

export class DurationTotal {
  #count = 0
  #recentNs = 0
  #foldedNs = 0n

  get count(): number {
    return this.#count
  }

  get ns(): bigint {
    return this.#foldedNs + BigInt(this.#recentNs)
  }

  /** HOT. The clock's fractions of a nanosecond are rounded away, and a time that was not reached counts as none. */
  add(durationNs: number): void {
    this.#count++
    if (!(durationNs > 0)) return
    this.#recentNs += Math.round(durationNs)
    if (this.#recentNs >= foldAtNs) {
      this.#foldedNs += BigInt(this.#recentNs)
      this.#recentNs = 0
    }
  }

  snapshot(): DurationStatistic {
    return { count: this.#count, ns: this.ns }
  }
}
