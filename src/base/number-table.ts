// Values by a number. A Map would do, but V8's Map keeps old memory alive: when a Map grows or is cleaned up, its old table
// points at the new one. Once a full collection has moved an old table into the old space, that table keeps all later
// tables and their entries alive until the next full collection. At 100,000 calls per second each young collection then
// copied 2 MB for nothing, 5 ms every 30 (bench/grpc-infer.bench.ts).

const leastSlots = 8
/** Knuth's multiplicative hash: numbers that follow one another, or differ by a power of two, spread out. */
const spread = 0x9e3779b1

/** Keys are integers from 0 to 2^53. Open addressing: an entry that is taken out leaves no mark in its slot. */
export class NumberTable<T extends object> {
  #keys: number[] = Array.from({ length: leastSlots }, () => 0)
  #values: (T | undefined)[] = Array.from({ length: leastSlots })
  #mask = leastSlots - 1
  #size = 0

  get size(): number {
    return this.#size
  }

  get(key: number): T | undefined {
    return this.#values[this.#slotOf(key)]
  }

  set(key: number, value: T): void {
    let slot = this.#slotOf(key)
    if (this.#values[slot] === undefined) {
      if (++this.#size * 2 > this.#mask) {
        this.#grow()
        slot = this.#slotOf(key)
      }
      this.#keys[slot] = key
    }
    this.#values[slot] = value
  }

  delete(key: number): boolean {
    let hole = this.#slotOf(key)
    if (this.#values[hole] === undefined) return false
    this.#size--
    // Entries behind the gap that belong before it move up, so that a search still ends at the first empty slot.
    for (let slot = (hole + 1) & this.#mask; this.#values[slot] !== undefined; slot = (slot + 1) & this.#mask) {
      const home = this.#homeOf(this.#keys[slot] as number)
      if (((slot - home) & this.#mask) < ((slot - hole) & this.#mask)) continue
      this.#keys[hole] = this.#keys[slot] as number
      this.#values[hole] = this.#values[slot]
      hole = slot
    }
    this.#values[hole] = undefined
    return true
  }

  clear(): void {
    this.#values.fill(undefined)
    this.#size = 0
  }

  /** A copy, in no order: the table may change while it is read. */
  entries(): [key: number, value: T][] {
    const entries: [number, T][] = []
    this.#values.forEach((value, slot) => {
      if (value !== undefined) entries.push([this.#keys[slot] as number, value])
    })
    return entries
  }

  /** Where the key is, or the empty slot where it would be. */
  #slotOf(key: number): number {
    let slot = this.#homeOf(key)
    while (this.#values[slot] !== undefined && this.#keys[slot] !== key) slot = (slot + 1) & this.#mask
    return slot
  }

  #homeOf(key: number): number {
    return (Math.imul(key, spread) >>> 15) & this.#mask
  }

  #grow(): void {
    const entries = this.entries()
    const slots = this.#values.length * 2
    this.#keys = Array.from({ length: slots }, () => 0)
    this.#values = Array.from({ length: slots })
    this.#mask = slots - 1
    for (const [key, value] of entries) {
      const slot = this.#slotOf(key)
      this.#keys[slot] = key
      this.#values[slot] = value
    }
  }
}
