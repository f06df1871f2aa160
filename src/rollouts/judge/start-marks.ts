// The later starts of a test whose sums only grow: a start is a mark of what there was, and what has come since is the difference. So a
// request adds to one sum, however many starts there are.

import { keptStarts, type LaterStarts, type Started, type StartedSums } from './later-starts.ts'

/** Copies what `total` gives: it may change in place. */
export class StartMarks<Sums extends object> {
  readonly #starts: LaterStarts
  readonly #total: () => Sums
  readonly #less: (all: Sums, some: Sums) => Sums
  #ticks: number
  #marks: readonly { readonly start: number; readonly at: Sums }[]
  /** What there was at the end of the last tick, where the next tick begins a test. */
  #next: Sums | null

  /** `less` gives the first sums without the second ones, in new objects. `known` is of before a restart. */
  constructor(
    starts: LaterStarts,
    known: StartedSums<Sums & Started>,
    total: () => Sums,
    less: (all: Sums, some: Sums) => Sums,
  ) {
    this.#starts = starts
    this.#total = total
    this.#less = less
    this.#ticks = known.ticks
    this.#marks = known.later.map((since) => ({ start: since.start, at: less(total(), since) }))
    this.#next = this.#mark()
  }

  /** After a tick in which there was something to count. */
  tick(): void {
    const start = this.#starts.startAt(this.#ticks)
    if (this.#next !== null) this.#marks = keptStarts([...this.#marks, { start, at: this.#next }], start)
    this.#ticks++
    this.#next = this.#mark()
  }

  /** The ticks, and what has come since each start that goes on. */
  since(): StartedSums<Sums & Started> {
    const later = this.#marks.map(({ start, at }) => ({ ...this.#less(this.#total(), at), start }))
    return { ticks: this.#ticks, later }
  }

  #mark(): Sums | null {
    return this.#starts.startAt(this.#ticks) === 0 ? null : structuredClone(this.#total())
  }
}
