import type { Cancel, Clock } from '../../src/base/clock.ts'

type Alarm = { readonly dueNs: number; readonly order: number; readonly fire: () => void }

/** Time for tests: stands still until it is advanced, then fires what came due, in order. */
export class ManualClock implements Clock {
  #nowNs = 0
  #order = 0
  readonly #alarms = new Set<Alarm>()

  nowNs(): number {
    return this.#nowNs
  }

  wallMs(): number {
    return 1_700_000_000_000 + this.#nowNs / 1e6
  }

  after(delayNs: number, fire: () => void): Cancel {
    const alarm: Alarm = { dueNs: this.#nowNs + delayNs, order: this.#order++, fire }
    this.#alarms.add(alarm)
    return () => void this.#alarms.delete(alarm)
  }

  /** How much of the time that a wait may end early is used, 0 to 1. */
  earliness = 0

  afterExactly(delayNs: number, fire: () => void, earlyNs = 0): Cancel {
    return this.after(delayNs - earlyNs * this.earliness, fire)
  }

  get pendingCount(): number {
    return this.#alarms.size
  }

  advanceUs(us: number): void {
    this.advanceNs(us * 1000)
  }

  advanceMs(ms: number): void {
    this.advanceNs(ms * 1e6)
  }

  advanceNs(ns: number): void {
    const untilNs = this.#nowNs + ns
    for (;;) {
      let next: Alarm | null = null
      for (const alarm of this.#alarms) {
        if (alarm.dueNs > untilNs) continue
        if (next === null || alarm.dueNs < next.dueNs || (alarm.dueNs === next.dueNs && alarm.order < next.order)) {
          next = alarm
        }
      }
      if (next === null) break
      this.#alarms.delete(next)
      this.#nowNs = Math.max(this.#nowNs, next.dueNs)
      next.fire()
    }
    this.#nowNs = untilNs
  }
}
