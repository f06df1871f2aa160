// What was used when: numbers that grow, noted each minute, so that use and cost can be told for a time. Kept in memory: by the minute for two
// hours, by the hour for 31 days. `use-file.ts` keeps it over a restart.

import type { Cancel, Clock } from '../base/clock.ts'

/** What was used since the start, by name. */
type UseCounts = ReadonlyMap<string, readonly number[]>

/** What was used in a time. */
type UseSpan = {
  readonly fromMs: number
  readonly toMs: number
  /** How long no server ran between them. */
  readonly awayMs: number
  readonly use: ReadonlyMap<string, number[]>
}

type Bucket = { readonly fromMs: number; readonly use: Map<string, number[]> }

/** From when to when no server ran. */
type Pause = readonly [fromMs: number, toMs: number]

/** All that a history knows, for the next server. */
export type UsePast = {
  readonly keptSinceMs: number
  /** When something was noted last. */
  readonly lastMs: number
  readonly pauses: readonly Pause[]
  readonly hours: readonly Bucket[]
  readonly minutes: readonly Bucket[]
}

const minuteMs = 60_000
const hourMs = 3_600_000
const minutesForMs = 2 * hourMs
const longestHistoryMs = 31 * 24 * hourMs
/** Names × times. Beyond it the oldest times are forgotten: about 10 MB. */
const mostRows = 50_000
/** The oldest ones are forgotten: then the time between the servers counts as idle. */
const mostPauses = 1000

export class UseHistory {
  readonly #clock: Clock
  readonly #read: () => UseCounts
  readonly #minutes: Bucket[] = []
  readonly #hours: Bucket[] = []
  #last: UseCounts = new Map()
  #lastMs: number
  #keptSinceMs: number
  #rows = 0
  #pauses: Pause[] = []
  #cancel: Cancel

  /** `read` gives a map of its own each time. */
  constructor({ clock }: { readonly clock: Clock }, read: () => UseCounts) {
    this.#clock = clock
    this.#read = read
    this.#lastMs = this.#keptSinceMs = clock.wallMs()
    this.#cancel = this.#wait()
  }

  /** Times are rounded down to the minute, those of more than two hours ago to the hour. What is not known is left out. */
  between(fromMs: number, toMs: number): UseSpan {
    this.#note()
    const use = new Map<string, number[]>()
    for (const bucket of [...this.#hours, ...this.#minutes]) {
      const stepMs = bucket.fromMs < this.#lastMs - minutesForMs ? hourMs : minuteMs
      const isBefore = toMs >= this.#lastMs || bucket.fromMs < Math.floor(toMs / stepMs) * stepMs
      if (isBefore && bucket.fromMs >= Math.floor(fromMs / stepMs) * stepMs)
        for (const [name, counts] of bucket.use) add(use, name, counts)
    }
    const span = { fromMs: Math.max(fromMs, this.#keptSinceMs), toMs: Math.min(toMs, this.#lastMs) }
    const awayMs = this.#pauses.reduce((sum, [from, to]) => sum + Math.max(0, Math.min(to, span.toMs) - Math.max(from, span.fromMs)), 0) // prettier-ignore
    return { ...span, awayMs, use }
  }

  /** With what was used up to now. */
  get past(): UsePast {
    this.#note()
    const [hours, minutes] = [[...this.#hours], [...this.#minutes]]
    return { keptSinceMs: this.#keptSinceMs, lastMs: this.#lastMs, pauses: this.#pauses, hours, minutes }
  }

  /** Goes on where a history of an earlier server stopped. To be called before anything is used. */
  resume({ keptSinceMs, lastMs, pauses, hours, minutes }: UsePast): void {
    const nowMs = this.#clock.wallMs()
    // A wall clock that was set back: nothing can be told about times that are to come.
    if (lastMs > nowMs) throw new Error(`it was written at ${new Date(lastMs).toISOString()}, which is to come`)
    this.#keptSinceMs = keptSinceMs
    this.#pauses = [...pauses, [lastMs, nowMs] as const].slice(-mostPauses)
    for (const [from, to] of [
      [hours, this.#hours],
      [minutes, this.#minutes],
    ] as const)
      // prettier-ignore
      for (const { fromMs, use } of from) for (const [name, counts] of use) this.#add(to, fromMs, name, counts)
    this.#forget()
  }

  close(): void {
    this.#cancel()
  }

  #wait(): Cancel {
    return this.#clock.after(minuteMs * 1e6, () => {
      this.#note()
      this.#cancel = this.#wait()
    })
  }

  /** Adds what was used since the last time to the minute in which that time lies. */
  #note(): void {
    const now = this.#read()
    const fromMs = Math.floor(this.#lastMs / minuteMs) * minuteMs
    for (const [name, counts] of now) {
      const before = this.#last.get(name)
      // A number that fell began anew, as that of a model that was loaded again.
      const used = counts.map((count, i) => (count >= (before?.[i] ?? 0) ? count - (before?.[i] ?? 0) : count))
      if (used.some((count) => count > 0)) this.#add(this.#minutes, fromMs, name, used)
    }
    this.#last = now
    this.#lastMs = this.#clock.wallMs()
    this.#forget()
  }

  #add(buckets: Bucket[], fromMs: number, name: string, counts: readonly number[]): void {
    let bucket = buckets.at(-1)
    // A wall clock may be set back: then the newest bucket takes it.
    if (bucket === undefined || bucket.fromMs < fromMs) {
      bucket = { fromMs, use: new Map() }
      buckets.push(bucket)
    }
    if (add(bucket.use, name, counts)) this.#rows++
  }

  #forget(): void {
    for (
      let [oldest] = this.#minutes;
      oldest !== undefined && oldest.fromMs < this.#lastMs - minutesForMs;
      [oldest] = this.#minutes
    ) {
      // prettier-ignore
      this.#minutes.shift()
      this.#rows -= oldest.use.size
      const fromMs = Math.floor(oldest.fromMs / hourMs) * hourMs
      for (const [name, counts] of oldest.use) this.#add(this.#hours, fromMs, name, counts)
    }
    for (;;) {
      const buckets = this.#hours.length > 0 ? this.#hours : this.#minutes
      const [oldest] = buckets
      if (oldest === undefined) return
      if (this.#rows <= mostRows && oldest.fromMs >= this.#lastMs - longestHistoryMs) return
      buckets.shift()
      this.#rows -= oldest.use.size
      this.#keptSinceMs = Math.max(this.#keptSinceMs, oldest.fromMs + (buckets === this.#hours ? hourMs : minuteMs))
    }
  }
}

/** True: the name is new. */
function add(use: Map<string, number[]>, name: string, counts: readonly number[]): boolean {
  const sums = use.get(name)
  if (sums === undefined) use.set(name, [...counts])
  else for (const [i, count] of counts.entries()) sums[i] = (sums[i] ?? 0) + count
  return sums === undefined
}
