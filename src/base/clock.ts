// Time comes in through the constructor. nowNs is monotonic and never the wall clock.

import { ExactWaits } from './exact-waits.ts'
import { openSystemAlarm } from './system-alarm.ts'

export type Cancel = () => void

export interface Clock {
  /** Monotonic nanoseconds as a number: exact to the microsecond for a hundred days of uptime. */
  nowNs(): number
  /** Wall-clock milliseconds since 1970, for what is shown to people and put on the wire, never for measuring. */
  wallMs(): number
  /** Calls `fire` once, not before `delayNs` have passed. The returned function takes it back. */
  after(delayNs: number, fire: () => void): Cancel
  /**
   * Like `after`, within microseconds where `after` may be a millisecond late. For waits that are few at a time. It costs less
   * where `fire` may be called up to `earlyNs` before its time.
   */
  afterExactly(delayNs: number, fire: () => void, earlyNs?: number): Cancel
}

export class SystemClock implements Clock {
  nowNs(): number {
    return performance.now() * 1e6
  }

  wallMs(): number {
    return Date.now()
  }

  after(delayNs: number, fire: () => void): Cancel {
    // Node's timers count whole milliseconds and hold at most 2^31 of them; a longer wait is made of several. They
    // count from the beginning of the loop's turn, not from now, and so can fire too early: then the rest is waited for.
    const limitMs = 0x7fffffff
    const dueNs = this.nowNs() + delayNs
    let timer: NodeJS.Timeout
    const arm = (): void => {
      const leftMs = Math.ceil((dueNs - this.nowNs()) / 1e6)
      timer = setTimeout(wake, Math.min(Math.max(leftMs, 0), limitMs))
    }
    const wake = (): void => (this.nowNs() < dueNs ? arm() : fire())
    arm()
    return () => clearTimeout(timer)
  }

  afterExactly(delayNs: number, fire: () => void, earlyNs = 0): Cancel {
    exactWaits ??= new ExactWaits(() => this.nowNs(), openSystemAlarm)
    return exactWaits.add(this.nowNs() + delayNs, fire, earlyNs)
  }
}

/** One alarm is enough for all clocks of a thread. */
let exactWaits: ExactWaits | null = null
