// Where use by tenant and by model is read, and when it was: the numbers behind `/v2/access/usage` and `/v2/cost`.

import { join } from 'node:path'
import type { KeptFile } from '../../access/kept-file.ts'
import type { TenantAccount } from '../../access/tenant-account.ts'
import type { ModelUse } from '../../access/tenant-account.ts'
import { useFile } from '../../access/use-file.ts'
import { UseHistory } from '../../access/use-history.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { Engine } from '../../engine/engine.ts'
import type { CostSource } from './cost-table.ts'

type Accounts = Iterable<TenantAccount>

type HistoryDependencies = {
  readonly clock: Clock
  readonly log: Log
  /** Where the history outlives the server; '' for nowhere. */
  readonly stateDirectory: string
}

/** The history of use. Its code and its timer are there with `--access-config` or `--cost-per-hour` only. */
export class UseHistories {
  /** By tenant and model, parted by a line break: no name has one. */
  readonly tenants: UseHistory
  /** Busy time, inferences and tokens by model. */
  readonly models: UseHistory

  readonly #files: readonly KeptFile[]

  private constructor(dependencies: HistoryDependencies, engine: Engine, accounts: Accounts) {
    this.tenants = new UseHistory(dependencies, () => tenantCounts(accounts))
    this.models = new UseHistory(dependencies, () => new Map(modelSources(engine, accounts).map((one) => [one.name, [one.busyByModel.get(one.name) ?? 0, one.inferences, one.tokens]]))) // prettier-ignore
    const { stateDirectory } = dependencies
    const folder = join(stateDirectory, 'access')
    const names = stateDirectory === '' ? [] : (['tenants', 'models'] as const)
    this.#files = names.map((name) => useFile(dependencies, folder, name, this[name]))
  }

  static async open(dependencies: HistoryDependencies, engine: Engine, accounts: Accounts): Promise<UseHistories> {
    const opened = new UseHistories(dependencies, engine, accounts)
    for (const file of opened.#files) await file.open()
    return opened
  }

  async close(): Promise<void> {
    for (const file of this.#files) await file.close()
    this.tenants.close()
    this.models.close()
  }
}

function tenantCounts(accounts: Accounts): Map<string, number[]> {
  const counts = new Map<string, number[]>()
  for (const { tenant, byModel } of accounts) {
    for (const [model, use] of byModel) {
      counts.set(`${tenant}\n${model}`, [use.requests, use.inferences, use.tokens, use.computeNs])
    }
  }
  return counts
}

/** The same tenants and models as in the history. */
export function usesOf(counts: ReadonlyMap<string, readonly number[]>): Map<string, Map<string, ModelUse>> {
  const byTenant = new Map<string, Map<string, ModelUse>>()
  for (const [name, [requests = 0, inferences = 0, tokens = 0, computeNs = 0]] of counts) {
    const [tenant = '', model = ''] = name.split('\n')
    const byModel = byTenant.get(tenant) ?? new Map<string, ModelUse>()
    byTenant.set(tenant, byModel.set(model, { requests, inferences, tokens, computeNs }))
  }
  return byTenant
}

/** The time of executions, each once, however many requests it had. */
export function modelSources(engine: Engine, accounts: Accounts): CostSource[] {
  const byModel = new Map<string, { name: string; inferences: number; tokens: number; busyByModel: Map<string, number> }>() // prettier-ignore
  for (const { name, batchStats, inferenceCount } of engine.statistics('', '')) {
    const row = byModel.get(name) ?? { name, inferences: 0, tokens: 0, busyByModel: new Map([[name, 0]]) }
    let busyNs = 0n
    for (const { computeInput, computeInfer, computeOutput } of batchStats) busyNs += computeInput.ns + computeInfer.ns + computeOutput.ns // prettier-ignore
    row.busyByModel.set(name, (row.busyByModel.get(name) ?? 0) + Number(busyNs) / 1e9)
    row.inferences += inferenceCount
    byModel.set(name, row)
  }
  for (const { byModel: uses } of accounts) {
    for (const [model, { tokens }] of uses) {
      const row = byModel.get(model)
      if (row !== undefined) row.tokens += tokens
    }
  }
  return [...byModel.values()]
}

export function tenantSource(name: string, byModel: ReadonlyMap<string, ModelUse>): CostSource {
  const source = { name, inferences: 0, tokens: 0, busyByModel: new Map<string, number>() }
  for (const [model, use] of byModel) {
    source.busyByModel.set(model, use.computeNs / 1e9)
    source.inferences += use.inferences
    source.tokens += use.tokens
  }
  return source
}
