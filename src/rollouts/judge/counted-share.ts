// Events of the candidate that have a limit: requests that were too slow, copies that differ.

import { lessShares, noShareSums, shareStarts, type ShareCount, type ShareSums } from './share-test.ts'
import { StartMarks } from './start-marks.ts'

export class CountedShare {
  #events: number
  #count: number
  readonly #marks: StartMarks<ShareCount>
  #countAtTick: number

  constructor(known: Partial<ShareSums> | undefined) {
    const sums = { ...noShareSums, ...known }
    this.#events = sums.events
    this.#count = sums.count
    this.#countAtTick = sums.count
    const total = (): ShareCount => ({ events: this.#events, count: this.#count })
    this.#marks = new StartMarks(shareStarts, sums, total, lessShares)
  }

  /** HOT: once per judged request. */
  add(isEvent: boolean): void {
    this.#count++
    if (isEvent) this.#events++
  }

  tick(): void {
    if (this.#count === this.#countAtTick) return
    this.#countAtTick = this.#count
    this.#marks.tick()
  }

  sums(): ShareSums {
    return { events: this.#events, count: this.#count, ...this.#marks.since() }
  }
}
