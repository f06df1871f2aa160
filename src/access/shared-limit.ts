// A limit that several servers share. A server takes units from the store in advance, so that most calls find them there. A call
// that finds none waits for the answer of the store. So the servers together never admit more than the store has given out. Only what is
// used without asking, as the rows of a body and the tokens of an answer, can be owed, and is paid with the next question.

import type { LimitRule } from './limit-rule.ts'
import type { LimitStore } from './limit-store.ts'

type CountedRule = Exclude<LimitRule, { readonly kind: 'concurrent' }>

/** A server takes what may be used in this time, all servers together. */
const leaseNs = 100e6
/** The share of a quota that a server takes at a time. */
const quotaShare = 1e-3
/** How long a client waits before it asks again while the store is away and calls are refused. */
const awayWaitNs = 1e9

export class SharedLimit {
  readonly #store: LimitStore
  readonly #key: string
  readonly #rule: CountedRule
  /** Units that are taken in advance; 0 for an exact limit, which asks for each call. */
  readonly #chunk: number
  /** Units that were leased and are not used; below 0: units that are owed. */
  #balance = 0
  /** Units that calls wait for. */
  #wanted = 0
  #blockedUntilNs = 0
  /** What the store had left when it answered. */
  #left: number
  #asking: Promise<boolean> | null = null

  constructor(store: LimitStore, tenant: string, rule: CountedRule) {
    this.#store = store
    this.#rule = rule
    this.#left = rule.kind === 'rate' ? rule.burst : rule.amount
    this.#chunk = chunkOf(rule)
    const period =
      rule.kind === 'rate' ? `${rule.amount}/${rule.period}/${rule.burst}` : `${rule.amount}/${rule.period}`
    this.#key = `galatea:limit:${tenant}:${rule.unit}:${period}`
  }

  get isUp(): boolean {
    return this.#store.isUp
  }

  /** True: only the store can say whether so many units are there, see `reserve`. HOT. */
  mustAsk(nowNs: number, units: number): boolean {
    return this.#balance < units && nowNs >= this.#blockedUntilNs && this.#store.isUp
  }

  /** Null: the store is away, and the server's own count decides. HOT. */
  waitNs(nowNs: number, units: number): number | null {
    if (!this.#store.isUp) return this.#store.isClosedWhenAway ? awayWaitNs : null
    return this.#balance >= units || nowNs >= this.#blockedUntilNs ? 0 : this.#waitFor(nowNs, units)
  }

  /**
   * Takes units that the store must be asked for. 0: they are taken. Above 0: the time until they are there. Null: the store is away,
   * and nothing is taken.
   */
  async reserve(nowNs: number, units: number): Promise<number | null> {
    if (!this.mustAsk(nowNs, units)) {
      const waitNs = this.waitNs(nowNs, units)
      if (waitNs === 0) this.take(nowNs, units)
      return waitNs
    }
    this.#wanted += units
    try {
      // A question that was under way when the call came asked for fewer units than are wanted now.
      for (let questions = this.#asking === null ? 1 : 2; questions > 0; questions--) {
        if (!(await (this.#asking ??= this.#ask(nowNs)))) return null
        if (this.#balance >= units) {
          this.#balance -= units
          return 0
        }
        if (this.#blockedUntilNs > nowNs) break
      }
      return this.#waitFor(nowNs, units)
    } finally {
      this.#wanted -= units
    }
  }

  #waitFor(nowNs: number, units: number): number {
    const missing = this.#rule.kind === 'rate' ? units - this.#balance - 1 : 0
    const unitNs = this.#rule.kind === 'rate' ? this.#rule.periodNs / this.#rule.amount : 0
    return Math.max(1, this.#blockedUntilNs - nowNs) + Math.max(0, missing) * unitNs
  }

  /** HOT */
  take(nowNs: number, units: number): void {
    this.#balance -= units
    if (this.#balance >= this.#chunk / 2 || this.#asking !== null || nowNs < this.#blockedUntilNs) return
    if (this.#store.isUp && (this.#chunk > 0 || this.#balance < 0)) this.#asking = this.#ask(nowNs)
  }

  giveBack(units: number): void {
    this.#balance += units
  }

  /** Units that the servers together have left, as far as this server knows. */
  get left(): number {
    return Math.max(0, Math.floor(this.#left + this.#balance))
  }

  /** `nowNs` is the time of the question: the wait counts from there. False: the store is away, and what is owed stays owed. */
  async #ask(nowNs: number): Promise<boolean> {
    const debt = Math.max(0, -this.#balance)
    try {
      const want = this.#chunk + Math.ceil(this.#wanted)
      const { granted, waitNs, left } = await this.#store.lease(this.#key, this.#rule, debt, want)
      this.#balance += debt + granted
      this.#left = left
      this.#blockedUntilNs = waitNs > 0 ? nowNs + waitNs : 0
      return true
    } catch {
      // The store says itself that it is away.
      return false
    } finally {
      this.#asking = null
    }
  }
}

function chunkOf(rule: CountedRule): number {
  if (rule.isExact) return 0
  const size = rule.kind === 'rate' ? (rule.amount / rule.periodNs) * leaseNs : rule.amount * quotaShare
  return Math.max(1, Math.floor(Math.min(size, rule.kind === 'rate' ? rule.burst / 4 : size)))
}
