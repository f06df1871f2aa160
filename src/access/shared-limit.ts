// A limit that several servers share. A server takes units from the store in advance, so that no call waits for the store. What is
// used before the store has answered is owed, and paid with the next question: in the long run the limit holds exactly.

import type { LimitRule } from './limit-rule.ts'
import type { LimitStore } from './limit-store.ts'

type CountedRule = Exclude<LimitRule, { readonly kind: 'concurrent' }>

/** A server takes what may be used in this time, all servers together. */
const leaseNs = 100e6
/** The share of a quota that a server takes at a time. */
const quotaShare = 1e-3

export class SharedLimit {
  readonly #store: LimitStore
  readonly #key: string
  readonly #rule: CountedRule
  readonly #chunk: number
  /** Units that were leased and are not used; below 0: units that are owed. */
  #balance = 0
  #blockedUntilNs = 0
  #isAsking = false

  constructor(store: LimitStore, tenant: string, rule: CountedRule) {
    this.#store = store
    this.#rule = rule
    const size = rule.kind === 'rate' ? (rule.amount / rule.periodNs) * leaseNs : rule.amount * quotaShare
    this.#chunk = Math.max(1, Math.floor(Math.min(size, rule.kind === 'rate' ? rule.burst / 4 : size)))
    const period =
      rule.kind === 'rate' ? `${rule.amount}/${rule.period}/${rule.burst}` : `${rule.amount}/${rule.period}`
    this.#key = `galatea:limit:${tenant}:${rule.unit}:${period}`
  }

  /** Null: the store is away, and the server's own count decides. HOT. */
  waitNs(nowNs: number, units: number): number | null {
    if (!this.#store.isUp) return this.#store.isClosedWhenAway ? leaseNs * 10 : null
    if (this.#balance >= units || nowNs >= this.#blockedUntilNs) return 0
    return this.#blockedUntilNs - nowNs
  }

  /** HOT */
  take(nowNs: number, units: number): void {
    this.#balance -= units
    if (this.#balance < this.#chunk / 2 && !this.#isAsking && this.#store.isUp && nowNs >= this.#blockedUntilNs) {
      void this.#ask(nowNs)
    }
  }

  /** `nowNs` is the time of the question: the wait counts from there. */
  async #ask(nowNs: number): Promise<void> {
    this.#isAsking = true
    const debt = Math.max(0, -this.#balance)
    try {
      const { granted, waitNs } = await this.#store.lease(this.#key, this.#rule, debt, this.#chunk)
      this.#balance += debt + granted
      this.#blockedUntilNs = waitNs > 0 ? nowNs + waitNs : 0
    } catch {
      // The store says itself that it is away. What is owed stays owed.
    } finally {
      this.#isAsking = false
    }
  }
}
