// Events of both arms (errors, wrong answers), tick by tick.

import { addCountTick, noCountSums, type CountSums } from './counts-test.ts'
import type { ArmName } from './paired-values.ts'

const shortestTickNs = 1e9
/** A tick waits for requests of both arms, but not longer than this. */
const longestTickNs = 60e9

type OpenCount = { requests: number; events: number }

export class PairedCounts {
  #sums: CountSums
  readonly #open: Record<ArmName, OpenCount> = {
    candidate: { requests: 0, events: 0 },
    stable: { requests: 0, events: 0 },
  }
  #eventBuckets: (number | null)[] = []
  #tickStartNs: number

  constructor(known: CountSums | undefined, nowNs: number) {
    this.#sums = { ...noCountSums, ...known }
    this.#tickStartNs = nowNs
  }

  /** HOT: once per request. `bucket` is that of the sticky key; null: the request had no key. */
  add(arm: ArmName, isEvent: boolean, bucket: number | null): void {
    const open = this.#open[arm]
    open.requests++
    if (!isEvent) return
    open.events++
    if (arm === 'candidate') this.#eventBuckets.push(bucket)
  }

  /** For exposures that are counted elsewhere: executions, and how many of them died. */
  addMany(arm: ArmName, requests: number, events: number): void {
    const open = this.#open[arm]
    open.requests += requests
    open.events += events
    if (arm === 'candidate') for (let i = 0; i < events; i++) this.#eventBuckets.push(null)
  }

  /**
   * When the tick ends depends on the numbers of requests alone, never on events: the test stays exact. `hasControl`: stable
   * gets requests too; without it there is nothing to wait for.
   */
  tick(nowNs: number, hasControl: boolean): void {
    const { candidate, stable } = this.#open
    const lastedNs = nowNs - this.#tickStartNs
    const hasBoth = candidate.requests > 0 && stable.requests > 0
    if (lastedNs < shortestTickNs || (hasControl && !hasBoth && lastedNs < longestTickNs)) return
    this.#tickStartNs = nowNs
    if (candidate.requests === 0 && stable.requests === 0) return
    this.#sums = addCountTick(this.#sums, {
      candidate: { ...candidate },
      stable: { ...stable },
      eventBuckets: this.#eventBuckets,
      isAlone: !hasControl,
    })
    candidate.requests = candidate.events = stable.requests = stable.events = 0
    this.#eventBuckets = []
  }

  sums(): CountSums {
    return this.#sums
  }
}
