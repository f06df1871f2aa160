// Who am I, what was used, and what it costs. Triton does not have these paths.

import type { AccessService } from '../../access/access-service.ts'
import type { Caller } from '../../access/caller.ts'
import { actions } from '../../access/action.ts'
import { requireRightForAll } from '../../access/require-right.ts'
import type { TenantAccount } from '../../access/tenant-account.ts'
import type { Clock } from '../../base/clock.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import { errorResponse, jsonResponse } from '../../ports/http/error-response.ts'
import { acting, forAll, forSelf, get, getOrPost, post, type Route, type RouteHandler } from '../../ports/http/route.ts'
import { jsonType } from '../../transport/http1/http-message.ts'
import type * as KeyEndpoints from './key-endpoints.ts'
import { costTable, type CostOptions, type CostSource } from './cost-table.ts'

type AccessParts = {
  readonly engine: Engine
  readonly clock: Clock
  /** Null without `--access-config`. */
  readonly access?: AccessService | null
  /** Null without `--cost-per-hour`. */
  readonly cost?: CostOptions | null
}

export function accessRoutes(parts: AccessParts): Route[] {
  const startedNs = parts.clock.nowNs()
  return [
    forSelf(get('/v2/access/me', 'metadata', me(parts))),
    forSelf(get('/v2/access/usage', 'metadata', usage(parts))),
    acting('access', forAll(get('/v2/cost', 'statistics', cost(parts, startedNs)))),
    ...keyRoutes(parts).map((route) => acting('access', forAll(route))),
  ]
}

/** Their code is read when the first call comes. */
function keyRoutes({ access = null }: AccessParts): Route[] {
  const via =
    (pick: (endpoints: typeof KeyEndpoints) => (access: AccessService) => RouteHandler): RouteHandler =>
    (http, key, version, caller) => {
      if (access === null) return http.respond(errorResponse(needsAccess('keys belong to callers'), jsonType))
      void import('./key-endpoints.ts').then((endpoints) => pick(endpoints)(access)(http, key, version, caller))
    }
  const all = '/v2/access/keys'
  return [
    getOrPost(
      all,
      'metadata',
      via(({ listOrCreate }) => listOrCreate),
    ),
    post(
      `${all}/{key}/revoke`,
      'metadata',
      via(({ revoke }) => revoke),
    ),
    post(
      `${all}/{key}/rotate`,
      'metadata',
      via(({ rotate }) => rotate),
    ),
  ]
}

const needsAccess = (what: string): ServerError =>
  ServerError.withoutStack('UNSUPPORTED', `${what} with --access-config only`)

const me =
  ({ access }: AccessParts): RouteHandler =>
  (http, _name, _version, caller) =>
    answer(http, () => ({
      access: (access ?? null) !== null,
      kind: caller.kind,
      principal: caller.principal,
      tenant: caller.tenant,
      groups: caller.groups,
      allowed: {
        all_models: actions.filter((action) => caller.rights?.mayAll(action) ?? true),
        some_models: actions.filter((action) => caller.rights !== null && !caller.rights.mayAll(action) && caller.rights.mayAny(action)), // prettier-ignore
      },
      limits: limitsOf(access?.accounts.find(caller.tenant) ?? null),
    }))

/** The tenant of the caller; others, and all, for who has the right `access`. */
const usage =
  ({ access }: AccessParts): RouteHandler =>
  (http, _name, _version, caller) =>
    answer(http, () => {
      if (access === null || access === undefined) {
        throw needsAccess('use is counted by tenant')
      }
      const asked = queryOf(http.target).get('tenant')
      const isOwn = asked === caller.tenant || (asked === null && !mayAll(caller))
      if (!isOwn) requireRightForAll(caller, 'access')
      const tenant = isOwn ? caller.tenant : asked
      const accounts =
        tenant === null ? [...access.accounts] : [access.accounts.find(tenant)].filter((one) => one !== null)
      return { tenants: accounts.map(usageOf) }
    })

const mayAll = ({ rights }: Caller): boolean => rights === null || rights.mayAll('access')

function usageOf(account: TenantAccount): object {
  const models = [...account.byModel].map(([model, use]) => ({
    model,
    requests: use.requests,
    inferences: use.inferences,
    tokens: use.tokens,
    compute_seconds: use.computeNs / 1e9,
  }))
  const sum = (read: (row: (typeof models)[number]) => number): number =>
    models.reduce((all, row) => all + read(row), 0)
  return {
    tenant: account.tenant,
    weight: account.weight,
    running: account.runningCount,
    refused: account.refusedCount,
    requests: sum((row) => row.requests),
    inferences: sum((row) => row.inferences),
    tokens: sum((row) => row.tokens),
    compute_seconds: sum((row) => row.compute_seconds),
    limits: limitsOf(account),
    models,
  }
}

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

const cost =
  ({ engine, clock, access, cost: options }: AccessParts, startedNs: number): RouteHandler =>
  (http) =>
    answer(http, () => {
      if (options === null || options === undefined) {
        throw ServerError.withoutStack(
          'UNSUPPORTED',
          'the server knows no price: start it with --cost-per-hour=1.2 --currency=EUR',
        )
      }
      const by = queryOf(http.target).get('by') ?? 'model'
      if (by !== 'model' && by !== 'tenant') {
        throw ServerError.withoutStack('INVALID_ARG', `'by' must be model or tenant, got '${by.slice(0, 60)}'`)
      }
      if (by === 'tenant' && (access === null || access === undefined)) {
        throw ServerError.withoutStack('UNSUPPORTED', 'cost by tenant needs --access-config')
      }
      const accounts = access === null || access === undefined ? [] : [...access.accounts]
      const sources = by === 'model' ? modelSources(engine, accounts) : accounts.map(tenantSource)
      return costTable(by, sources, (clock.nowNs() - startedNs) / 1e9, options)
    })

function modelSources(engine: Engine, accounts: readonly TenantAccount[]): CostSource[] {
  const byModel = new Map<string, CostSource>()
  for (const one of engine.statistics('', '')) {
    const { computeInput, computeInfer, computeOutput } = one.inferenceStats
    const busySecs = Number(computeInput.ns + computeInfer.ns + computeOutput.ns) / 1e9
    const before = byModel.get(one.name) ?? { name: one.name, busySecs: 0, inferences: 0, tokens: 0 }
    byModel.set(one.name, {
      ...before,
      busySecs: before.busySecs + busySecs,
      inferences: before.inferences + one.inferenceCount,
    })
  }
  for (const { byModel: uses } of accounts) {
    for (const [model, { tokens }] of uses) {
      const row = byModel.get(model)
      if (row !== undefined) byModel.set(model, { ...row, tokens: row.tokens + tokens })
    }
  }
  return [...byModel.values()]
}

function tenantSource({ tenant, byModel }: TenantAccount): CostSource {
  const source = { name: tenant, busySecs: 0, inferences: 0, tokens: 0 }
  for (const use of byModel.values()) {
    source.busySecs += use.computeNs / 1e9
    source.inferences += use.inferences
    source.tokens += use.tokens
  }
  return source
}

const queryOf = (target: string): URLSearchParams => new URLSearchParams(target.split('?').slice(1).join('?'))

function answer(http: Parameters<RouteHandler>[0], make: () => object): void {
  try {
    http.respond(jsonResponse(Buffer.from(JSON.stringify(make()))))
  } catch (reason) {
    http.respond(errorResponse(ServerError.from(reason), jsonType))
  }
}
