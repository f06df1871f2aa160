// Metric families by tenant: the page prints this table and the reference is made from it.

import { labelText, sampleLine, type MetricsText } from './metrics-text.ts'

type TenantModelUse = {
  readonly requests: number
  readonly inferences: number
  readonly tokens: number
  readonly computeNs: number
}

export type TenantUse = {
  readonly tenant: string
  readonly refusedCount: number
  readonly byModel: ReadonlyMap<string, TenantModelUse>
}

/** Tenants with lines of their own; the rest is `other`. */
export const mostTenants = 200

export const tenantFamilies: readonly {
  readonly name: string
  readonly help: string
  readonly label: string
  /** Null: counted by tenant alone. */
  readonly read: ((use: TenantModelUse) => number) | null
}[] = [
  { name: 'galatea_tenant_requests_total', help: 'Inferences that ended', label: 'model', read: (use) => use.requests },
  { name: 'galatea_tenant_inferences_total', help: 'Rows of these', label: 'model', read: (use) => use.inferences },
  {
    name: 'galatea_tenant_tokens_total',
    help: 'Tokens of their prompts and answers',
    label: 'model',
    read: (use) => use.tokens,
  },
  {
    name: 'galatea_tenant_compute_seconds_total',
    help: 'Time of the executions that served them',
    label: 'model',
    read: (use) => use.computeNs / 1e9,
  },
  { name: 'galatea_tenant_refused_total', help: 'Calls that a limit refused', label: '', read: null },
]

/** To compare with the weights of the tenants. */
export const tenantShare = {
  name: 'galatea_tenant_share',
  help: "The tenant's part of the time of all executions that served tenants, 0 to 1",
}

export function* tenantPieces(text: MetricsText, tenants: Iterable<TenantUse>): IterableIterator<string> {
  const named = [...withOthers(tenants)]
  for (const { name, help, read } of tenantFamilies) {
    const lines = named.map(
      ({ tenant, refusedCount, byModel }) =>
      read === null
        ? sampleLine(text, name, labelText([['tenant', tenant]]), refusedCount)
        : [...byModel].map(([model, use]) => sampleLine(text, name, labelText([['tenant', tenant], ['model', model]]), read(use))).join(''), // prettier-ignore
    )
    const all = lines.join('')
    if (all !== '') yield text.familyHead(name, help, 'counter') + all
  }
  const { name, help } = tenantShare
  const computeNs = named.map(({ byModel }) => [...byModel.values()].reduce((sum, use) => sum + use.computeNs, 0))
  const allNs = computeNs.reduce((sum, ns) => sum + ns, 0)
  if (allNs === 0) return
  const shares = named.map(({ tenant }, i) =>
    sampleLine(text, name, labelText([['tenant', tenant]]), (computeNs[i] ?? 0) / allNs),
  )
  yield text.familyHead(name, help, 'gauge') + shares.join('')
}

function* withOthers(tenants: Iterable<TenantUse>): Iterable<TenantUse> {
  const other = new Map<string, { requests: number; inferences: number; tokens: number; computeNs: number }>()
  let refusedCount = 0
  let count = 0
  for (const tenant of tenants) {
    if (++count <= mostTenants) {
      yield tenant
      continue
    }
    refusedCount += tenant.refusedCount
    for (const [model, use] of tenant.byModel) {
      const sum = other.get(model) ?? { requests: 0, inferences: 0, tokens: 0, computeNs: 0 }
      sum.requests += use.requests
      sum.inferences += use.inferences
      sum.tokens += use.tokens
      sum.computeNs += use.computeNs
      other.set(model, sum)
    }
  }
  if (count > mostTenants) yield { tenant: 'other', refusedCount, byModel: other }
}
