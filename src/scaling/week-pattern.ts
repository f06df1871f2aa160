// The load of a week in slots of five minutes. The same slot of the next week is expected to be like it.

const slotSecs = 300
const slotCount = 2016
const newWeekShare = 0.3
const spareFactor = 1.1

export class WeekPattern {
  readonly #slots: Float64Array
  #slot = -1
  #most = 0

  /** `kept` is what `toJSON` gave; null begins anew. */
  constructor(kept: unknown = null) {
    const slots = Array.isArray(kept) && kept.length === slotCount ? kept.map(Number) : []
    this.#slots = Float64Array.from({ length: slotCount }, (_, i) => Math.max(0, slots[i] ?? 0) || 0)
  }

  /** `demand` is the mean of the last minute. True when a slot has ended, so that the pattern is worth keeping. */
  note(wallMs: number, demand: number): boolean {
    const slot = slotOf(wallMs)
    const hasEnded = this.#slot >= 0 && slot !== this.#slot
    if (hasEnded) {
      const old = this.#slots[this.#slot] ?? 0
      this.#slots[this.#slot] = old === 0 ? this.#most : old + newWeekShare * (this.#most - old)
    }
    this.#most = slot === this.#slot ? Math.max(this.#most, demand) : demand
    this.#slot = slot
    return hasEnded
  }

  /** The most that is expected within the next seconds, with a tenth to spare; 0 where nothing is known. */
  expected(wallMs: number, aheadSecs: number): number {
    const first = slotOf(wallMs)
    const slots = Math.min(slotCount, Math.floor((wallMs / 1000 + aheadSecs) / slotSecs) - Math.floor(wallMs / 1000 / slotSecs) + 1) // prettier-ignore
    let most = 0
    for (let i = 0; i < slots; i++) most = Math.max(most, this.#slots[(first + i) % slotCount] ?? 0)
    return most * spareFactor
  }

  toJSON(): number[] {
    return [...this.#slots].map((value) => Number(value.toFixed(3)))
  }
}

const slotOf = (wallMs: number): number => Math.floor(wallMs / 1000 / slotSecs) % slotCount
