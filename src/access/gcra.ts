// The generic cell rate algorithm: one number tells how far a limit is used up. `amount` units come back in each period, and at
// most `burst` units can be taken at once.

export class Gcra {
  readonly amount: number
  readonly periodNs: number
  readonly burst: number
  readonly #unitNs: number
  /** The theoretical arrival time: before it, some of the burst is used. */
  #tatNs = 0

  constructor(amount: number, periodNs: number, burst: number) {
    this.amount = amount
    this.periodNs = periodNs
    this.burst = burst
    this.#unitNs = periodNs / amount
  }

  /** 0: so many units are there now. Else the time until they are. More than the burst is there when all of the burst is. */
  waitNs(nowNs: number, units: number): number {
    const asked = Math.min(units, this.burst)
    return Math.max(0, Math.max(nowNs, this.#tatNs) + asked * this.#unitNs - nowNs - this.burst * this.#unitNs)
  }

  /** Takes the units, there or not: what was used already is owed. */
  take(nowNs: number, units: number): void {
    this.#tatNs = Math.max(nowNs, this.#tatNs) + units * this.#unitNs
  }

  /** Units that can be taken now. */
  left(nowNs: number): number {
    const usedNs = Math.max(0, this.#tatNs - nowNs)
    return Math.max(0, this.burst - usedNs / this.#unitNs)
  }

  /** The time until one unit more is there; until the whole burst is there when nothing is owed. */
  resetNs(nowNs: number): number {
    return Math.max(0, this.#tatNs - nowNs)
  }
}
