// The order in which requests of one priority run. One tenant: first in, first out. In an overload: newest first. Several
// tenants in a queue that is long: each tenant gets its share, by start-time fair queueing.

import { specimens } from '../base/specimens.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import { LinkedList, type Linked } from './linked-list.ts'

/** An item of a FairLine. */
export interface Queued<T extends Queued<T>> extends Linked<T> {
  readonly request: InferenceRequest
  /** At least 1. */
  readonly rows: number
  /** The place in the order of arrival. FairLine sets it. */
  order: number
}

/** What the lines of one queue share: the order of arrival, and which requests came in the overload of now. */
export class Arrivals {
  nextOrder = 0
  /** Requests from this one on are fresh: they came since the overload was found. Infinity: there is no overload. */
  freshFrom = Infinity
  freshCount = 0
  /** Tenants get their shares. False: the order of arrival counts. */
  isFair = false
  /** A tenant that used less than its share may run so many rows before others that used theirs. */
  creditRows = 0
  /** Requests of several tenants wait in one line. */
  hasRivals = false

  get isNewestFirst(): boolean {
    return this.freshFrom !== Infinity
  }

  setNewestFirst(isOn: boolean): void {
    this.freshFrom = isOn ? this.nextOrder : Infinity
    this.freshCount = 0
  }
}

/** The waiting requests of one tenant, in the order of arrival. */
class TenantLine<T extends Queued<T>> extends LinkedList<T> {
  readonly tenant: string
  weight = 1
  rows = 0
  /** The first of the requests that came in this overload. May be one of an overload before: then there is none. */
  freshFirst: T | null = null
  /** The start tag of the next request: what the tenant got so far, in rows ÷ weight. */
  startTag = 0
  /** For `FairLine.after`: how far a plan has come. */
  planned: T | null = null
  plannedTag = 0
  /** Requests of this overload run newest first. */
  isNewestFirst = true

  constructor(tenant: string) {
    super()
    this.tenant = tenant
  }
}

/** Tenants that have nothing in the queue are forgotten above this number. What they got is forgotten with them. */
const mostIdleTenants = 256

export class FairLine<T extends Queued<T>> {
  readonly #arrivals: Arrivals
  /** Tenants with waiting requests. Most servers have one tenant. */
  readonly #active: TenantLine<T>[] = []
  /** Null until a second tenant comes. */
  #known: Map<string, TenantLine<T>> | null = null
  #latest: TenantLine<T> | null = null
  /** The start tag of the request that began last. */
  #virtualTime = 0
  #size = 0

  constructor(arrivals: Arrivals) {
    this.#arrivals = arrivals
  }

  get size(): number {
    return this.#size
  }

  /** Whether requests of several tenants wait. */
  get hasRivals(): boolean {
    return this.#active.length > 1
  }

  /** Whether only requests of this tenant wait. */
  isAllOf(tenant: string): boolean {
    return this.#active.length === 1 && this.#active[0]?.tenant === tenant
  }

  push(item: T): void {
    const line = this.#lineOf(item.request.caller.tenant)
    if (line.size === 0) {
      line.weight = weightOf(item.request)
      line.startTag = Math.max(line.startTag, this.#virtualTime - this.#arrivals.creditRows / line.weight)
      this.#active.push(line)
      if (this.#active.length === 2) this.#arrivals.hasRivals = true
    }
    const arrivals = this.#arrivals
    item.order = arrivals.nextOrder++
    line.push(item)
    if (arrivals.freshFrom !== Infinity) {
      arrivals.freshCount++
      if (!this.#isFresh(line.freshFirst)) line.freshFirst = item
    }
    line.rows += item.rows
    this.#size++
  }

  /** False when the item is not in this line. */
  remove(item: T): boolean {
    const line = item.list
    if (!(line instanceof TenantLine)) return false
    if (line.freshFirst === item) line.freshFirst = item.next
    line.remove(item)
    line.rows -= item.rows
    if (line.size === 0) this.#forget(line)
    if (item.order >= this.#arrivals.freshFrom) this.#arrivals.freshCount--
    this.#size--
    return true
  }

  #forget(line: TenantLine<T>): void {
    this.#active.splice(this.#active.indexOf(line), 1)
    // Lines of other priorities may have rivals: then the next request of them says so again.
    if (this.#active.length === 1) this.#arrivals.hasRivals = false
  }

  /** Removes an item because it runs: its tenant pays for it. */
  take(item: T): void {
    const line = item.list as TenantLine<T>
    if (this.#known !== null) {
      this.#virtualTime = Math.max(this.#virtualTime, line.startTag)
      line.startTag += item.rows / line.weight
    }
    this.remove(item)
  }

  /** The item that runs next. */
  first(): T | null {
    const active = this.#active
    if (active.length === 0) return null
    if (active.length === 1) {
      const line = active[0] as TenantLine<T>
      line.isNewestFirst = true
      return this.#headOf(line)
    }
    for (const line of active) {
      line.isNewestFirst = this.#isNewestFirst(line)
      line.planned = this.#headOf(line)
      line.plannedTag = line.startTag
    }
    return this.#nextPlanned()
  }

  /** The item that runs after `item`, where `item` came from the last call of `first` or `after`. */
  after(item: T): T | null {
    return this.#active.length <= 1 ? this.#behind(item) : this.#nextPlanned()
  }

  /**
   * Who leaves when the line is full and `request` comes: of the tenant with the most rows for its weight, the request that
   * would run last. Null: the newcomer itself.
   */
  victimFor(request: InferenceRequest): T | null {
    const { tenant } = request.caller
    let worst: TenantLine<T> | null = null
    let worstLoad = Math.max(1, request.batchSize) / weightOf(request)
    for (const line of this.#active) if (line.tenant === tenant) worstLoad += line.rows / line.weight
    for (const line of this.#active) {
      const load = line.rows / line.weight
      if (line.tenant === tenant || load <= worstLoad) continue
      worst = line
      worstLoad = load
    }
    return worst === null ? null : this.#lastToRun(worst)
  }

  /** Of the requests that came in this overload, the one that would run last. */
  stalest(): T | null {
    let worst: TenantLine<T> | null = null
    for (const line of this.#active) {
      if (!this.#isFresh(line.last)) continue
      if (worst === null || line.rows / line.weight > worst.rows / worst.weight) worst = line
    }
    return worst === null ? null : worst.freshFirst
  }

  /** The request that waits longest of those that came before this overload. */
  oldestBacklog(): T | null {
    let oldest: T | null = null
    for (const { first } of this.#active) {
      if (first !== null && !this.#isFresh(first) && (oldest === null || first.order < oldest.order)) oldest = first
    }
    return oldest
  }

  #nextPlanned(): T | null {
    let best: TenantLine<T> | null = null
    for (const line of this.#active) {
      if (line.planned !== null && (best === null || this.#isBefore(line, best))) best = line
    }
    if (best === null) return null
    const item = best.planned as T
    best.planned = this.#behind(item)
    best.plannedTag += item.rows / best.weight
    return item
  }

  #isBefore(a: TenantLine<T>, b: TenantLine<T>): boolean {
    if (this.#arrivals.isFair && a.plannedTag !== b.plannedTag) return a.plannedTag < b.plannedTag
    const [one, other] = [(a.planned as T).order, (b.planned as T).order]
    const { freshFrom } = this.#arrivals
    return one >= freshFrom || other >= freshFrom ? one > other : one < other
  }

  #headOf(line: TenantLine<T>): T | null {
    return line.isNewestFirst && this.#isFresh(line.last) ? line.last : line.first
  }

  /** A tenant that has less in the queue than another is not the cause of the overload: its requests keep their order. */
  #isNewestFirst(line: TenantLine<T>): boolean {
    if (!this.#arrivals.isFair) return true
    for (const other of this.#active) if (other.rows / other.weight > line.rows / line.weight) return false
    return true
  }

  /** The next item of the same tenant. */
  #behind(item: T): T | null {
    if (!(item.list as TenantLine<T>).isNewestFirst) return item.next
    const { freshFrom } = this.#arrivals
    if (item.order < freshFrom) return item.next !== null && item.next.order < freshFrom ? item.next : null
    if (item.previous !== null && item.previous.order >= freshFrom) return item.previous
    const first = item.list?.first ?? null
    return this.#isFresh(first) ? null : first
  }

  #lastToRun(line: TenantLine<T>): T | null {
    return this.#isFresh(line.last) ? line.freshFirst : line.last
  }

  #isFresh(item: T | null): boolean {
    return item !== null && item.order >= this.#arrivals.freshFrom
  }

  #lineOf(tenant: string): TenantLine<T> {
    const latest = this.#latest
    if (latest !== null && latest.tenant === tenant) return latest
    return (this.#latest = this.#otherLine(tenant, latest))
  }

  #otherLine(tenant: string, latest: TenantLine<T> | null): TenantLine<T> {
    if (latest === null) return new TenantLine(tenant)
    this.#known ??= new Map([[latest.tenant, latest]])
    const known = this.#known.get(tenant)
    if (known !== undefined) return known
    if (this.#known.size - this.#active.length >= mostIdleTenants) {
      for (const line of this.#known.values()) if (line.size === 0 && line !== latest) this.#known.delete(line.tenant)
    }
    const line = new TenantLine<T>(tenant)
    this.#known.set(tenant, line)
    return line
  }
}

const weightOf = ({ caller }: InferenceRequest): number => caller.account?.weight ?? 1

specimens.add(() => new TenantLine(''))
