import type { Clock } from '../base/clock.ts'
import type { AccessConfig, TenantRule } from './access-config.ts'
import type { LimitStore } from './limit-store.ts'
import { TenantAccount, type ModelUse } from './tenant-account.ts'

/** Tokens may name any number of tenants: of those that have no rule of their own, the one that was asked for first and runs nothing is forgotten. */
const mostAccounts = 10_000

/** The accounts of all tenants. They outlive a change of the rules. */
export class TenantAccounts {
  readonly #clock: Clock
  readonly #byTenant = new Map<string, TenantAccount>()
  /** What tenants used that are forgotten. */
  readonly forgotten: ModelUse = { requests: 0, inferences: 0, tokens: 0, computeNs: 0 }
  #config: AccessConfig
  #store: LimitStore | null

  constructor(clock: Clock, config: AccessConfig, store: LimitStore | null = null) {
    this.#clock = clock
    this.#config = config
    this.#store = store
  }

  follow(config: AccessConfig, store: LimitStore | null = null): void {
    this.#config = config
    this.#store = store
    for (const [tenant, account] of this.#byTenant) account.follow(this.#ruleOf(tenant), store)
  }

  of(tenant: string): TenantAccount {
    let account = this.#byTenant.get(tenant)
    if (account === undefined) {
      if (this.#byTenant.size >= mostAccounts) this.#forget()
      account = new TenantAccount(this.#clock, tenant, this.#ruleOf(tenant), this.#store)
      this.#byTenant.set(tenant, account)
    }
    return account
  }

  find(tenant: string): TenantAccount | null {
    return this.#byTenant.get(tenant) ?? null
  }

  [Symbol.iterator](): IterableIterator<TenantAccount> {
    return this.#byTenant.values()
  }

  #ruleOf(tenant: string): TenantRule {
    return (tenant === '*' ? undefined : this.#config.tenants.get(tenant)) ?? this.#config.otherTenants
  }

  #forget(): void {
    for (const [tenant, account] of this.#byTenant) {
      // Whoever can get many tokens must not have the quota of a tenant begin anew.
      if (account.runningCount > 0 || this.#config.tenants.has(tenant)) continue
      for (const use of account.byModel.values()) {
        this.forgotten.requests += use.requests
        this.forgotten.inferences += use.inferences
        this.forgotten.tokens += use.tokens
        this.forgotten.computeNs += use.computeNs
      }
      this.#byTenant.delete(tenant)
      return
    }
  }
}
