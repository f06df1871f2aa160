// One limit of a tenant at work: a rate that refills, or a quota of the calendar.

import { Gcra } from './gcra.ts'
import type { LimitRule, LimitUnit } from './limit-rule.ts'
import type { SharedLimit } from './shared-limit.ts'

type CountedRule = Exclude<LimitRule, { readonly kind: 'concurrent' }>

/** When a call comes. */
export type Moment = { readonly nowNs: number; readonly wallMs: number }

const dayMs = 86_400_000

export class TenantLimit {
  readonly rule: CountedRule
  readonly #gcra: Gcra | null
  readonly #shared: SharedLimit | null
  #used = 0
  /** Of a quota: the day or month that `#used` belongs to, in UTC. */
  #window = ''
  /** The one that was left last, and what was used of it. */
  #left = { window: '', used: 0 }
  /** When the window begins and ends: the name of a day is made once a day, not once per call. */
  #fromMs = 0
  #untilMs = 0

  /** `shared` null: this server counts for itself. */
  constructor(rule: CountedRule, shared: SharedLimit | null = null) {
    this.rule = rule
    this.#shared = shared
    this.#gcra = rule.kind === 'rate' ? new Gcra(rule.amount, rule.periodNs, rule.burst) : null
  }

  /** Unique among the limits of a tenant. */
  get name(): string {
    return `${this.rule.unit}/${this.rule.period}`
  }

  get unit(): LimitUnit {
    return this.rule.unit
  }

  /** True: only the store that servers share can say whether so many units are there, see `reserve`. HOT. */
  mustAsk({ nowNs }: Moment, units: number): boolean {
    return this.#shared !== null && this.#shared.mustAsk(nowNs, this.#atOnce(units))
  }

  /** Takes the units after asking the store. 0: they are taken. Else the time until they are there. */
  async reserve(now: Moment, units: number): Promise<number> {
    const atOnce = this.#atOnce(units)
    const waitNs = (await this.#shared?.reserve(now.nowNs, atOnce)) ?? null
    if (waitNs === 0) this.#shared?.take(now.nowNs, units - atOnce)
    else if (waitNs !== null) return waitNs
    else if (this.waitNs(now, units) > 0) return this.waitNs(now, units)
    this.#count(now, units)
    return 0
  }

  giveBack(now: Moment, units: number): void {
    this.#shared?.giveBack(units)
    this.#count(now, -units)
  }

  /** More than can be there at once is there when all of that is: the rest is owed. */
  #atOnce(units: number): number {
    return Math.min(units, this.rule.kind === 'rate' ? this.rule.burst : this.rule.amount)
  }

  /** 0: so many units are there. Else the time until they are. HOT. */
  waitNs({ nowNs, wallMs }: Moment, units: number): number {
    const waitNs = units === 0 ? 0 : (this.#shared?.waitNs(nowNs, this.#atOnce(units)) ?? null)
    if (waitNs !== null) return waitNs
    if (this.#gcra !== null) return this.#gcra.waitNs(nowNs, units)
    this.#turn(wallMs)
    const { amount } = this.rule
    return this.#used + Math.min(units, amount) <= amount ? 0 : (this.#windowEndMs(wallMs) - wallMs) * 1e6
  }

  /** Takes the units, there or not: what was used already is owed. HOT. */
  take(now: Moment, units: number): void {
    this.#shared?.take(now.nowNs, units)
    this.#count(now, units)
  }

  /** The server's own count goes on beside the store's: it decides while the store is away. */
  #count({ nowNs, wallMs }: Moment, units: number): void {
    if (this.#gcra !== null) this.#gcra.take(nowNs, units)
    else {
      this.#turn(wallMs)
      this.#used += units
    }
  }

  left({ nowNs, wallMs }: Moment): number {
    if (this.#shared?.isUp === true) return this.#shared.left
    if (this.#gcra !== null) return Math.floor(this.#gcra.left(nowNs))
    this.#turn(wallMs)
    return Math.max(0, this.rule.amount - this.#used)
  }

  /** Seconds until the limit is whole again. */
  resetSecs({ nowNs, wallMs }: Moment): number {
    const ns = this.#gcra === null ? (this.#windowEndMs(wallMs) - wallMs) * 1e6 : this.#gcra.resetNs(nowNs)
    return Math.ceil(ns / 1e9)
  }

  /** Seconds of the period. */
  windowSecs({ wallMs }: Moment): number {
    const { rule } = this
    if (rule.kind === 'rate') return rule.periodNs / 1e9
    return Math.round((this.#windowEndMs(wallMs) - windowStartMs(wallMs, rule.period)) / 1000)
  }

  /** What a restart must not forget; null for a rate. */
  get saved(): { readonly window: string; readonly used: number } | null {
    return this.#gcra === null ? { window: this.#window, used: this.#used } : null
  }

  restore({ window, used }: { readonly window: string; readonly used: number }): void {
    this.#window = window
    this.#used = used
    this.#untilMs = 0
  }

  #windowEndMs(wallMs: number): number {
    return windowEndMs(wallMs, this.rule.kind === 'quota' ? this.rule.period : 'day')
  }

  #turn(wallMs: number): void {
    if (wallMs >= this.#fromMs && wallMs < this.#untilMs) return
    const period = this.rule.kind === 'quota' ? this.rule.period : 'day'
    this.#fromMs = windowStartMs(wallMs, period)
    this.#untilMs = windowEndMs(wallMs, period)
    const length = period === 'month' ? 7 : 10
    const window = new Date(wallMs).toISOString().slice(0, length)
    if (window === this.#window) return
    // A clock that is set back, or was ahead for a while, does not give back what was used.
    const used = window === this.#left.window ? this.#left.used : 0
    this.#left = { window: this.#window, used: this.#used }
    this.#window = window
    this.#used = used
  }
}

function windowStartMs(wallMs: number, period: 'day' | 'month'): number {
  const now = new Date(wallMs)
  return period === 'day' ? Math.floor(wallMs / dayMs) * dayMs : Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1)
}

function windowEndMs(wallMs: number, period: 'day' | 'month'): number {
  const now = new Date(wallMs)
  if (period === 'day') return windowStartMs(wallMs, 'day') + dayMs
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)
}
