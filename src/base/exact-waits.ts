// Waits that end within microseconds. An alarm of the system sleeps until shortly before the end, then the event loop turns
// until the time has come, and serves sockets at every turn. A wait that may end a little early does not turn the loop.

import type { Alarm } from './system-alarm.ts'

type Wait = { readonly dueNs: number; readonly earliestNs: number; readonly fire: () => void }

/**
 * How long before the end the alarm is set: as long as the process takes to wake up, as it was seen lately. A sleeping core
 * of a virtual machine takes 30 to 70 µs. A process that comes late because the machine is busy is no reason to turn for longer.
 */
const firstHeadStartNs = 30e3
const mostHeadStartNs = 80e3
/** Coming early costs turns of the loop, coming late costs nothing: the head start follows the quicker wake-ups. */
const earlierWeight = 1 / 4
const laterWeight = 1 / 32
/** Where there is no alarm, a timer waits until one or two milliseconds before the end, because it counts whole milliseconds. */
const longestTimerMs = 0x7fffffff

export class ExactWaits {
  readonly #nowNs: () => number
  readonly #openAlarm: (ring: () => void) => Alarm | null
  /** Undefined until the first wait. */
  #alarm: Alarm | null | undefined
  /** When the alarm rings; Infinity when it is not set. */
  #ringsNs = Infinity
  #headStartNs = firstHeadStartNs
  readonly #waits: Wait[] = []
  #timer: NodeJS.Timeout | null = null
  #isTurning = false

  constructor(nowNs: () => number, openAlarm: (ring: () => void) => Alarm | null) {
    this.#nowNs = nowNs
    this.#openAlarm = openAlarm
  }

  /**
   * Calls `fire` once, not more than `earlyNs` before `dueNs`, and not before this call has returned. The returned function
   * takes it back.
   */
  add(dueNs: number, fire: () => void, earlyNs = 0): () => void {
    const wait: Wait = { dueNs, earliestNs: dueNs - earlyNs, fire }
    if (this.#waits.push(wait) === 1) this.#keepAlive(true)
    this.#prepare()
    return () => this.#remove(wait)
  }

  #keepAlive(isWanted: boolean): void {
    if (this.#alarm === undefined) this.#alarm = this.#openAlarm(() => this.#onRing())
    this.#alarm?.keepAlive(isWanted)
  }

  /** The alarm stays as it is: an alarm for nothing costs less than to take every alarm back. */
  #rest(): void {
    this.#keepAlive(false)
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  // HOT: once per batch that waits. bench/batching.bench.ts
  #prepare(): void {
    if (this.#isTurning) return
    const nextNs = this.#earliest()?.dueNs ?? Infinity
    const nowNs = this.#nowNs()
    if (this.#alarm === null) this.#setTimer(nextNs - nowNs)
    else if (nextNs - nowNs <= mostHeadStartNs) this.#turnSoon()
    else if (nextNs - this.#headStartNs < this.#ringsNs) {
      this.#ringsNs = nextNs - this.#headStartNs
      this.#alarm?.set(this.#ringsNs - nowNs)
    }
  }

  #setTimer(leftNs: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    const sleepMs = Math.floor(leftNs / 1e6) - 1
    if (sleepMs < 1) this.#turnSoon()
    else this.#timer = setTimeout(() => this.#turn(), Math.min(sleepMs, longestTimerMs))
  }

  #turnSoon(): void {
    this.#isTurning = true
    setImmediate(() => {
      this.#isTurning = false
      this.#turn()
    })
  }

  #onRing(): void {
    const lateNs = Math.min(this.#nowNs() - this.#ringsNs, mostHeadStartNs)
    this.#ringsNs = Infinity
    const weight = lateNs < this.#headStartNs ? earlierWeight : laterWeight
    this.#headStartNs += Math.max(lateNs - this.#headStartNs, -this.#headStartNs) * weight
    this.#turn()
  }

  /** Fires as many as were there before, so that waits which add others cannot stop the loop. */
  #turn(): void {
    const nowNs = this.#nowNs()
    try {
      for (let count = this.#waits.length; count > 0; count--) {
        const wait = this.#earliest()
        if (wait === null || wait.earliestNs > nowNs) break
        this.#remove(wait)
        wait.fire()
      }
    } finally {
      if (this.#waits.length > 0) this.#prepare()
    }
  }

  #earliest(): Wait | null {
    let earliest: Wait | null = null
    for (const wait of this.#waits) if (earliest === null || wait.dueNs < earliest.dueNs) earliest = wait
    return earliest
  }

  #remove(wait: Wait): void {
    const position = this.#waits.indexOf(wait)
    if (position < 0) return
    this.#waits.splice(position, 1)
    if (this.#waits.length === 0) this.#rest()
  }
}
