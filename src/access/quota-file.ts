// What tenants have used of their quotas by day and month, kept in the state folder, so that a restart does not give it back.

import { join } from 'node:path'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { KeptFile } from './kept-file.ts'
import type { TenantAccounts } from './tenant-accounts.ts'

/** By tenant, then by the name of the limit. */
type SavedQuotas = Record<string, Record<string, { readonly window: string; readonly used: number }>>

export const quotaFile = (
  dependencies: { readonly clock: Clock; readonly log: Log },
  folder: string,
  accounts: TenantAccounts,
): KeptFile =>
  new KeptFile(dependencies, {
    what: 'the quotas',
    path: join(folder, 'quotas.json'),
    text: () => quotaText(accounts),
    take: (text) => restoreQuotas(accounts, JSON.parse(text) as SavedQuotas),
  })

function quotaText(accounts: TenantAccounts): string {
  const quotas: SavedQuotas = {}
  for (const { tenant, limits } of accounts) {
    for (const limit of limits) {
      const { saved } = limit
      if (saved !== null && saved.used > 0) (quotas[tenant] ??= {})[limit.name] = saved
    }
  }
  const text = JSON.stringify(quotas)
  return text === '{}' ? '' : text
}

function restoreQuotas(accounts: TenantAccounts, quotas: SavedQuotas): void {
  for (const [tenant, saved] of Object.entries(quotas)) {
    for (const limit of accounts.of(tenant).limits) {
      const known = saved[limit.name]
      if (known !== undefined && Number.isFinite(known.used)) limit.restore(known)
    }
  }
}
