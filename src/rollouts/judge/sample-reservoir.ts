/** Some of the values of a tick, each value with the same chance. HOT: once per request while a rollout lives. */
export class SampleReservoir {
  readonly #random: () => number
  readonly #kept: number[] = []
  readonly #capacity: number
  #seen = 0
  #sum = 0

  /** `random` is even over [0, 1). */
  constructor(random: () => number, capacity: number) {
    this.#random = random
    this.#capacity = capacity
  }

  /** How many values came, kept or not. */
  get seen(): number {
    return this.#seen
  }

  get mean(): number {
    return this.#seen === 0 ? 0 : this.#sum / this.#seen
  }

  add(value: number): void {
    this.#seen++
    this.#sum += value
    if (this.#kept.length < this.#capacity) this.#kept.push(value)
    else {
      const at = Math.floor(this.#random() * this.#seen)
      if (at < this.#capacity) this.#kept[at] = value
    }
  }

  /** `count` of the kept values at random, sorted. */
  draw(count: number): number[] {
    const kept = this.#kept
    for (let i = 0; i < Math.min(count, kept.length); i++) {
      const at = i + Math.floor(this.#random() * (kept.length - i))
      ;[kept[i], kept[at]] = [kept[at] as number, kept[i] as number]
    }
    return kept.slice(0, count).sort((a, b) => a - b)
  }

  clear(): void {
    this.#kept.length = 0
    this.#seen = 0
    this.#sum = 0
  }
}
