import type { Cancel, Clock } from '../base/clock.ts'

/** An item that may wait until its deadline. */
export interface Expiring {
  readonly deadlineNs: number
  /** Deadlines sets these: the place in the heap (-1: not in it), and the order of items with equal deadlines. */
  deadlinePlace: number
  deadlineOrder: number
}

/**
 * Finds the item with the next deadline: a heap, and one timer for all items. The timer may be a millisecond late,
 * because an exact timer costs CPU time.
 */
export class Deadlines<T extends Expiring> {
  readonly #clock: Clock
  readonly #onDue: (nowNs: number) => void
  /** A binary heap: the item at place n is due before the items at 2n + 1 and 2n + 2. */
  readonly #heap: T[] = []
  #addedCount = 0
  #cancelTimer: Cancel | null = null
  #timerNs = Infinity

  /** Deadlines calls `onDue` once the first deadline has passed; `onDue` takes out the items that are due. */
  constructor(clock: Clock, onDue: (nowNs: number) => void) {
    this.#clock = clock
    this.#onDue = onDue
  }

  /** The next deadline; Infinity when there is no item. */
  get nextNs(): number {
    return this.#heap[0]?.deadlineNs ?? Infinity
  }

  /** Ignores an item that may wait for ever. */
  add(item: T, nowNs: number): void {
    if (item.deadlineNs === Infinity) return
    item.deadlineOrder = this.#addedCount++
    this.#heap.push(item)
    this.#rise(item, this.#heap.length - 1)
    if (item.deadlineNs < this.#timerNs) this.#arm(item.deadlineNs, nowNs)
  }

  /** Does nothing for an item that is not in the heap. */
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

  /** Takes out the first item whose deadline has passed; null when there is none. */
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
