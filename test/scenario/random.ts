/** Numbers that look random and are the same for the same seed (sfc32). */
export class Random {
  #a: number
  #b: number
  #c: number
  #count = 1

  constructor(seed: number, stream: number) {
    this.#a = seed | 0
    this.#b = stream | 0
    this.#c = 0x9e3779b9 | 0
    for (let i = 0; i < 12; i++) this.#next()
  }

  /** A whole number from 0 to `below` - 1. */
  int(below: number): number {
    return Math.floor((this.#next() / 2 ** 32) * below)
  }

  oneIn(count: number): boolean {
    return this.int(count) === 0
  }

  pick<T>(list: readonly T[]): T {
    return list[this.int(list.length)] as T
  }

  /** As often as its weight says. */
  weighted<T extends string>(weights: Readonly<Record<T, number>>): T {
    const entries = Object.entries<number>(weights) as [T, number][]
    let left = this.int(entries.reduce((sum, [, weight]) => sum + weight, 0))
    for (const [name, weight] of entries) {
      if (left < weight) return name
      left -= weight
    }
    throw new Error('weights are whole numbers')
  }

  #next(): number {
    const sum = (this.#a + this.#b + this.#count++) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum
    return sum >>> 0
  }
}
