// `/v2/access/me`, `/v2/access/usage` and `/v2/cost`.

import type { AccessService } from '../../access/access-service.ts'
import { actions } from '../../access/action.ts'
import type { Caller } from '../../access/caller.ts'
import { requireRightForAll } from '../../access/require-right.ts'
import type { ModelUse, TenantAccount } from '../../access/tenant-account.ts'
import type { Clock } from '../../base/clock.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import { jsonResponse, respondWithError } from '../../ports/http/error-response.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import { queryOf } from '../../protocol/query-of.ts'
import { costTable, type CostOptions, type CostPrices, type CostSource, type InstancePrice } from './cost-table.ts'
import { modelSources, tenantSource, usesOf, type UseHistories } from './use-source.ts'

export type AccessParts = {
  readonly engine: Engine
  readonly clock: Clock
  /** Null without `--access-config`. */
  readonly access?: AccessService | null
  /** `--cost-per-hour`, 0 without it, and `--currency`. */
  readonly cost?: CostOptions
  /** Null without either. */
  readonly uses?: UseHistories | null
}

/** Of the query; null: since the start of the server. */
type Span = { readonly fromMs: number; readonly toMs: number }

export class AccessEndpoints {
  readonly #parts: AccessParts
  readonly #startedNs: number

  constructor(parts: AccessParts, startedNs: number) {
    this.#parts = parts
    this.#startedNs = startedNs
  }

  readonly me: RouteHandler = (http, _name, _version, caller) =>
    answer(http, () => ({
      access: (this.#parts.access ?? null) !== null,
      kind: caller.kind,
      principal: caller.principal,
      tenant: caller.tenant,
      groups: caller.groups,
      allowed: {
        all_models: actions.filter((action) => caller.rights?.mayAll(action) ?? true),
        some_models: actions.filter((action) => caller.rights !== null && !caller.rights.mayAll(action) && caller.rights.mayAny(action)), // prettier-ignore
      },
      limits: limitsOf(this.#parts.access?.accounts.find(caller.tenant) ?? null),
    }))

  /** The tenant of the caller; others, and all, for who has the right `access`. */
  readonly usage: RouteHandler = (http, _name, _version, caller) =>
    answer(http, () => {
      const { access } = this.#parts
      if (access === null || access === undefined) throw unsupported('use is counted by tenant with --access-config only') // prettier-ignore
      const query = queryOf(http.target)
      const asked = query.get('tenant')
      const isOwn = asked === caller.tenant || (asked === null && !mayAll(caller))
      if (!isOwn) requireRightForAll(caller, 'access')
      const tenant = isOwn ? caller.tenant : asked
      const span = spanOf(query)
      if (span !== null) return this.#usageIn(span, tenant)
      const accounts =
        tenant === null ? [...access.accounts] : [access.accounts.find(tenant)].filter((one) => one !== null)
      return { tenants: accounts.map(usageNow) }
    })

  #usageIn(span: Span, tenant: string | null): object {
    const { fromMs, toMs, use } = this.#histories.tenants.between(span.fromMs, span.toMs)
    const uses = [...usesOf(use)].filter(([name]) => tenant === null || name === tenant)
    return { ...times(fromMs, toMs), tenants: uses.map(([name, byModel]) => ({ tenant: name, ...sumsOf(byModel) })) }
  }

  readonly cost: RouteHandler = (http) => {
    const refuse = (reason: unknown): void => respondWithError(http, reason)
    this.#prices().then((prices) => answer(http, () => this.#costAt(prices, queryOf(http.target))), refuse)
  }

  #costAt(prices: CostPrices, query: URLSearchParams): object {
    if (prices.perHour === 0 && prices.ofModels.size === 0) {
      throw unsupported(
        'the server knows no price: start it with --cost-per-hour=1.2 --currency=EUR, or write cost: {instance_hour: 0.4} into the galatea.yaml of a model',
      )
    }
    const by = query.get('by') ?? 'model'
    if (by !== 'model' && by !== 'tenant') throw wrong(`'by' must be model or tenant, got '${by.slice(0, 60)}'`)
    if (by === 'tenant' && (this.#parts.access ?? null) === null) throw unsupported('cost by tenant needs --access-config') // prettier-ignore
    const span = spanOf(query)
    if (span === null) return costTable(by, this.#sources(by), (this.#parts.clock.nowNs() - this.#startedNs) / 1e9, prices) // prettier-ignore
    const { fromMs, toMs, awayMs, sources } = this.#sourcesIn(by, span)
    return { ...times(fromMs, toMs), ...costTable(by, sources, Math.max(0, toMs - fromMs - awayMs) / 1e3, prices) }
  }

  /** Registry files are read again when they change, so a new price counts at once. */
  async #prices(): Promise<CostPrices> {
    const { engine, cost } = this.#parts
    const ofModels = new Map<string, InstancePrice>()
    for (const [model, { instanceHour }] of await engine.registry.prices()) {
      const versions = engine.servedModel(model)?.ready ?? []
      ofModels.set(model, { instanceHour, instances: versions.reduce((count, { instances }) => count + instances.length, 0) }) // prettier-ignore
    }
    return { perHour: cost?.perHour ?? 0, currency: cost?.currency ?? '', ofModels }
  }

  #sources(by: 'model' | 'tenant'): CostSource[] {
    const accounts = [...(this.#parts.access?.accounts ?? [])]
    if (by === 'model') return modelSources(this.#parts.engine, accounts)
    return accounts.map(({ tenant, byModel }) => tenantSource(tenant, byModel))
  }

  #sourcesIn(
    by: 'model' | 'tenant',
    { fromMs, toMs }: Span,
  ): Span & { readonly awayMs: number; readonly sources: CostSource[] } {
    const { tenants, models } = this.#histories
    const found = (by === 'model' ? models : tenants).between(fromMs, toMs)
    const sources =
      by === 'model'
        ? [...found.use].map(([name, [busySecs = 0, inferences = 0, tokens = 0]]) => ({ name, busyByModel: new Map([[name, busySecs]]), inferences, tokens })) // prettier-ignore
        : [...usesOf(found.use)].map(([tenant, byModel]) => tenantSource(tenant, byModel))
    return { fromMs: found.fromMs, toMs: found.toMs, awayMs: found.awayMs, sources }
  }

  get #histories(): UseHistories {
    const { uses } = this.#parts
    if (uses === null || uses === undefined) throw unsupported("'from' and 'to' need --access-config or --cost-per-hour") // prettier-ignore
    return uses
  }
}

const unsupported = (text: string): ServerError => ServerError.withoutStack('UNSUPPORTED', text)
const wrong = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)

const mayAll = ({ rights }: Caller): boolean => rights === null || rights.mayAll('access')

const times = (fromMs: number, toMs: number): object => ({
  from: new Date(fromMs).toISOString(),
  to: new Date(Math.max(fromMs, toMs)).toISOString(),
})

function sumsOf(byModel: ReadonlyMap<string, ModelUse>): object {
  const models = [...byModel].map(([model, use]) => ({
    model,
    requests: use.requests,
    inferences: use.inferences,
    tokens: use.tokens,
    compute_seconds: use.computeNs / 1e9,
  }))
  const sum = (read: (row: (typeof models)[number]) => number): number =>
    models.reduce((all, row) => all + read(row), 0)
  return {
    requests: sum((row) => row.requests),
    inferences: sum((row) => row.inferences),
    tokens: sum((row) => row.tokens),
    compute_seconds: sum((row) => row.compute_seconds),
    models,
  }
}

const usageNow = (account: TenantAccount): object => ({
  tenant: account.tenant,
  weight: account.weight,
  running: account.runningCount,
  refused: account.refusedCount,
  ...sumsOf(account.byModel),
  limits: limitsOf(account),
})

function limitsOf(account: TenantAccount | null): object[] {
  if (account === null) return []
  const { now, mostRunning } = account
  const counted = account.limits.map((limit) => ({
    unit: limit.unit,
    amount: limit.rule.amount,
    period: limit.rule.period,
    left: limit.left(now),
    whole_in_seconds: limit.resetSecs(now),
  }))
  return mostRunning === Infinity ? counted : [...counted, { unit: 'concurrent', amount: mostRunning, left: Math.max(0, mostRunning - account.runningCount) }] // prettier-ignore
}

/** Null: the query asks for no time. */
function spanOf(query: URLSearchParams): Span | null {
  if (!query.has('from') && !query.has('to')) return null
  const [fromMs, toMs] = [timeOf(query, 'from', 0), timeOf(query, 'to', Infinity)]
  if (fromMs < toMs) return { fromMs, toMs }
  throw wrong(`'from' must be before 'to', got '${query.get('from')}' and '${query.get('to')}'`)
}

function timeOf(query: URLSearchParams, name: 'from' | 'to', otherwise: number): number {
  const text = query.get(name)
  if (text === null) return otherwise
  const form = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/
  const ms = form.test(text) ? Date.parse(text) : NaN
  if (Number.isFinite(ms)) return ms
  throw wrong(`'${name}' must be a time, as 2026-01-31 or 2026-01-31T12:00:00Z, got '${text.slice(0, 60)}'`)
}

function answer(http: Parameters<RouteHandler>[0], make: () => object): void {
  try {
    http.respond(jsonResponse(Buffer.from(JSON.stringify(make()))))
  } catch (reason) {
    respondWithError(http, reason)
  }
}
