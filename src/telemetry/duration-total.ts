// How often something happened and how long it took in all. A number holds a sum of nanoseconds exactly up to a hundred
// days, and a busy server adds up as much in one day. So the sum moves to a bigint before it is too large.

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

  /** HOT. Rounds to whole nanoseconds. A time that was not reached counts as 0. */
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
