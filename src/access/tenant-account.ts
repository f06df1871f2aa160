// The account of one tenant: its limits, and what it has used since the server started.

import type { Clock } from '../base/clock.ts'
import { ServerError } from '../base/server-error.ts'
import type { Account, Use } from './account.ts'
import type { TenantRule } from './access-config.ts'
import type { AdmissionFacts } from './admission-facts.ts'
import type { LimitRule, LimitUnit } from './limit-rule.ts'
import type { LimitStore } from './limit-store.ts'
import type { Refusal } from './refusal.ts'
import { SharedLimit } from './shared-limit.ts'
import { TenantLimit, type Moment } from './tenant-limit.ts'

export type ModelUse = { requests: number; inferences: number; tokens: number; computeNs: number }

/** Models by name in one account; those that come later are counted under ''. */
const mostModels = 1000

/** A refusal is told to all calls of so short a time: a tenant that is far over its limit must not cost much. */
const sameRefusalNs = 5e6

/** Units that are known before the body is read, and units that are paid afterwards. */
const inferenceUnits: ReadonlySet<LimitUnit> = new Set(['inferences', 'tokens', 'compute_ms'])

export class TenantAccount implements Account {
  readonly tenant: string
  readonly byModel = new Map<string, ModelUse>()
  refusedCount = 0
  runningCount = 0
  readonly #clock: Clock
  #weight = 1
  #limits: TenantLimit[] = []
  #mostRunning = Infinity
  #isLimited = false
  #store: LimitStore | null = null
  #hasBytesLimit = false
  #hasQuota = false
  #lastRefusal: { readonly limit: TenantLimit; readonly untilNs: number; readonly refusal: Refusal } | null = null

  constructor(clock: Clock, tenant: string, rule: TenantRule, store: LimitStore | null) {
    this.#clock = clock
    this.tenant = tenant
    this.follow(rule, store)
  }

  get weight(): number {
    return this.#weight
  }

  get isLimited(): boolean {
    return this.#isLimited
  }

  get limits(): readonly TenantLimit[] {
    return this.#limits
  }

  get mostRunning(): number {
    return this.#mostRunning
  }

  /** A changed file does not give back what was used: a limit that stayed the same goes on where it was. */
  follow({ weight, limits }: TenantRule, store: LimitStore | null): void {
    const before = store === this.#store ? this.#limits : []
    this.#store = store
    this.#weight = weight
    this.#limits = limits.filter((rule) => rule.kind !== 'concurrent').map((rule) => before.find((limit) => isSame(limit.rule, rule)) ?? this.#limitOf(rule, store)) // prettier-ignore
    this.#mostRunning = Math.min(Infinity, ...limits.map((rule) => (rule.kind === 'concurrent' ? rule.most : Infinity)))
    this.#isLimited = limits.length > 0
    this.#hasBytesLimit = this.#limits.some(({ unit }) => unit === 'bytes')
    this.#hasQuota = this.#limits.some(({ rule }) => rule.kind === 'quota')
    this.#lastRefusal = null
  }

  #limitOf(rule: TenantLimit['rule'], store: LimitStore | null): TenantLimit {
    return new TenantLimit(rule, store === null ? null : new SharedLimit(store, this.tenant, rule))
  }

  get now(): Moment {
    return { nowNs: this.#clock.nowNs(), wallMs: this.#clock.wallMs() }
  }

  /** HOT */
  admit(facts: AdmissionFacts, nowNs: number): Refusal | null | Promise<Refusal | null> {
    if (!this.#isLimited) return null
    const { isStream } = facts
    const isInference = facts.action === 'inference'
    const again = this.#sameRefusal(nowNs, isStream, isInference)
    if (again !== null) return again
    // A header is searched for the bytes, and the wall clock asked, only where a limit needs them.
    const bodyBytes = this.#hasBytesLimit ? facts.bodyBytes : 0
    const now: Moment = { nowNs, wallMs: this.#hasQuota ? this.#clock.wallMs() : 0 }
    for (const limit of this.#limits) {
      const units = this.#unitsBefore(limit.unit, bodyBytes, isStream, isInference)
      if (units === 0) continue
      if (limit.mustAsk(now, units)) return this.#askStore(now, facts)
      const waitNs = limit.waitNs(now, units)
      if (waitNs > 0) return this.#refusal(limit, now.nowNs, waitNs)
    }
    for (const limit of this.#limits) {
      if (limit.unit === 'requests' && !isStream) limit.take(now, 1)
      else if (limit.unit === 'bytes' && bodyBytes > 0) limit.take(now, bodyBytes)
    }
    return null
  }

  /** The refusal that holds for every call that needs the same: thousands a second may come. How many bytes a call needs differs. */
  #sameRefusal(nowNs: number, isStream: boolean, isInference: boolean): Refusal | null {
    const last = this.#lastRefusal
    if (last === null || nowNs >= last.untilNs || last.limit.unit === 'bytes') return null
    if (this.#unitsBefore(last.limit.unit, 0, isStream, isInference) === 0) return null
    this.refusedCount++
    return last.refusal
  }

  /** All units of a call are taken, or none. Rows, tokens and time are paid later: that there are some is enough. */
  async #askStore(now: Moment, { action, bodyBytes, isStream }: AdmissionFacts): Promise<Refusal | null> {
    const taken: (readonly [limit: TenantLimit, units: number])[] = []
    let refusal: Refusal | null = null
    for (const limit of this.#limits) {
      const units = this.#unitsBefore(limit.unit, bodyBytes, isStream, action === 'inference')
      if (units === 0) continue
      const waitNs = await limit.reserve(now, units)
      if (waitNs > 0) {
        refusal = this.#refusal(limit, now.nowNs, waitNs)
        break
      }
      taken.push([limit, units])
    }
    for (const [limit, units] of taken) {
      if (refusal !== null || inferenceUnits.has(limit.unit)) limit.giveBack(now, units)
    }
    return refusal
  }

  /** What a call needs before its body is read. What is paid later needs something to be left. */
  #unitsBefore(unit: LimitUnit, bodyBytes: number, isStream: boolean, isInference: boolean): number {
    if (unit === 'requests') return isStream ? 0 : 1
    if (unit === 'bytes') return bodyBytes
    return isInference && inferenceUnits.has(unit) ? 1 : 0
  }

  /** HOT */
  begin(rows: number, bytes: number, isRequest: boolean): ServerError | null {
    if (this.#isLimited) {
      const error = this.#charge(rows, bytes, isRequest)
      if (error !== null) return error
    }
    this.runningCount++
    return null
  }

  #charge(rows: number, bytes: number, isRequest: boolean): ServerError | null {
    if (this.runningCount >= this.#mostRunning) {
      this.refusedCount++
      return exhausted(`limit 'concurrent' of tenant '${this.tenant}' reached: ${this.#mostRunning} at a time`, 1)
    }
    const now = this.now
    for (const limit of this.#limits) {
      const waitNs = limit.waitNs(now, unitsOf(limit.unit, rows, bytes, isRequest))
      if (waitNs === 0) continue
      this.refusedCount++
      return exhausted(limitText(this.tenant, limit), waitNs / 1e9)
    }
    for (const limit of this.#limits) {
      const { unit } = limit
      if (unit === 'tokens' || unit === 'compute_ms') continue
      const units = unitsOf(unit, rows, bytes, isRequest)
      if (units > 0) limit.take(now, units)
    }
    return null
  }

  /** HOT */
  end({ model, rows, tokens, computeNs }: Use): void {
    this.runningCount--
    const use = this.#useOf(model)
    use.requests++
    use.inferences += rows
    use.tokens += tokens
    use.computeNs += computeNs
    if (!this.#isLimited) return
    for (const limit of this.#limits) {
      if (limit.unit === 'tokens') limit.take(this.now, tokens)
      else if (limit.unit === 'compute_ms') limit.take(this.now, computeNs / 1e6)
    }
  }

  #useOf(model: string): ModelUse {
    const name = this.byModel.has(model) || this.byModel.size < mostModels ? model : ''
    let use = this.byModel.get(name)
    if (use === undefined) {
      use = { requests: 0, inferences: 0, tokens: 0, computeNs: 0 }
      this.byModel.set(name, use)
    }
    return use
  }

  /** As the IETF's draft of RateLimit header fields spells them. */
  answerHeaders(): readonly string[] | null {
    if (this.#limits.length === 0) return null
    const now = this.now
    const policies = this.#limits.map((limit) => `"${limit.unit}";q=${Math.floor(limit.rule.amount)};w=${limit.windowSecs(now)}`) // prettier-ignore
    const states = this.#limits.map((limit) => `"${limit.unit}";r=${limit.left(now)};t=${limit.resetSecs(now)}`)
    return ['RateLimit-Policy', policies.join(', '), 'RateLimit', states.join(', ')]
  }

  #refusal(limit: TenantLimit, nowNs: number, waitNs: number): Refusal {
    this.refusedCount++
    const last = this.#lastRefusal
    if (last?.limit === limit && nowNs < last.untilNs) return last.refusal
    const refusal: Refusal = {
      kind: 'refused',
      reason: 'exhausted',
      message: limitText(this.tenant, limit),
      headers: this.answerHeaders() ?? [],
      retryAfterMs: Math.max(1, Math.ceil(waitNs / 1e6)),
    }
    this.#lastRefusal = { limit, untilNs: nowNs + Math.min(waitNs, sameRefusalNs), refusal }
    return refusal
  }
}

function unitsOf(unit: LimitUnit, rows: number, bytes: number, isRequest: boolean): number {
  if (unit === 'requests') return isRequest ? 1 : 0
  if (unit === 'inferences') return rows
  return unit === 'bytes' ? bytes : 1
}

const limitText = (tenant: string, { unit, rule }: TenantLimit): string =>
  `rate limit '${unit}' of tenant '${tenant}' reached: ${rule.amount} per ${rule.period}`

const exhausted = (message: string, retryAfterSecs: number): ServerError =>
  ServerError.withoutStack('EXHAUSTED', message, retryAfterSecs)

const isSame = (a: LimitRule, b: LimitRule): boolean => JSON.stringify(a) === JSON.stringify(b)
