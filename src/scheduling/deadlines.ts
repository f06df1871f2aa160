import type { Cancel, Clock } from '../base/clock.ts'

/** Something that may wait until a time and no longer. */
export interface Expiring {
  readonly deadlineNs: number
  /** Kept by Deadlines: where it stands, -1 when it is not there, and which of two with one deadline came first. */
  deadlinePlace: number
  deadlineOrder: number
}

/**
 * Who runs out of time next: a heap and one timer for all of them, however many wait. The timer may be a millisecond late,
 * for an exact wait is dear.
 */
export class Deadlines<T extends Expiring> {
  readonly #clock: Clock
  readonly #onDue: (nowNs: number) => void
  /** Each before the two at twice its place plus one and two. */
  readonly #heap: T[] = []
  #addedCount = 0
  #cancelTimer: Cancel | null = null
  #timerNs = Infinity

  /** `onDue` is called once the first deadline has passed, and takes out what is due. */
  constructor(clock: Clock, onDue: (nowNs: number) => void) {
    this.#clock = clock
    this.#onDue = onDue
  }

  /** Infinity when nobody waits. */
  get nextNs(): number {
    return this.#heap[0]?.deadlineNs ?? Infinity
  }

  /** One that may wait for ever need not be here. */
  add(item: T, nowNs: number): void {
    if (item.deadlineNs === Infinity) return
    item.deadlineOrder = this.#addedCount++
    this.#heap.push(item)
    this.#rise(item, this.#heap.length - 1)
    if (item.deadlineNs < this.#timerNs) this.#arm(item.deadlineNs, nowNs)
  }

  /** One that is not here stays away. */
  remove(item: T): void {
    const place = item.deadlinePlace
    if (place < 0) return
    item.deadlinePlace = -1
    const last = this.#heap.pop() as T
    if (last !== item) {
      this.#rise(last, place)
      this.#sink(last, last.deadlinePlace)
    }
    if (this.#heap.length === 0) this.#disarm()
  }

  /** The first of those whose time has passed. */
  takeDue(nowNs: number): T | null {
    const first = this.#heap[0]
    if (first === undefined || first.deadlineNs > nowNs) return null
    this.remove(first)
    return first
  }

  #arm(deadlineNs: number, nowNs: number): void {
    this.#cancelTimer?.()
    this.#timerNs = deadlineNs
    this.#cancelTimer = this.#clock.after(deadlineNs - nowNs, () => {
      this.#cancelTimer = null
      this.#timerNs = Infinity
      const firedNs = this.#clock.nowNs()
      if (this.nextNs <= firedNs) this.#onDue(firedNs)
      if (this.nextNs < this.#timerNs) this.#arm(this.nextNs, firedNs)
    })
  }

  #disarm(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = null
    this.#timerNs = Infinity
  }

  #rise(item: T, from: number): void {
    const heap = this.#heap
    let place = from
    while (place > 0) {
      const parentPlace = (place - 1) >> 1
      const parent = heap[parentPlace] as T
      if (!isBefore(item, parent)) break
      put(heap, parent, place)
      place = parentPlace
    }
    put(heap, item, place)
  }

  #sink(item: T, from: number): void {
    const heap = this.#heap
    let place = from
    for (;;) {
      let childPlace = 2 * place + 1
      if (childPlace >= heap.length) break
      const right = heap[childPlace + 1]
      if (right !== undefined && isBefore(right, heap[childPlace] as T)) childPlace++
      const child = heap[childPlace] as T
      if (!isBefore(child, item)) break
      put(heap, child, place)
      place = childPlace
    }
    put(heap, item, place)
  }
}

function put<T extends Expiring>(heap: T[], item: T, place: number): void {
  heap[place] = item
  item.deadlinePlace = place
}

const isBefore = (a: Expiring, b: Expiring): boolean =>
  a.deadlineNs < b.deadlineNs || (a.deadlineNs === b.deadlineNs && a.deadlineOrder < b.deadlineOrder)
