import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import type { AccessConfig } from './access-config.ts'
import { TenantAccounts } from './tenant-accounts.ts'
import { TenantLimit } from './tenant-limit.ts'

const quota = { kind: 'quota', unit: 'inferences', amount: 10, period: 'day', isExact: false } as const

test('a quota begins anew with the day, and not with a clock that is set to and fro', () => {
  const limit = new TenantLimit(quota)
  const at = (text: string): { nowNs: number; wallMs: number } => ({ nowNs: 0, wallMs: Date.parse(text) })
  limit.take(at('2026-01-31T23:59:59Z'), 9)
  assert.equal(limit.left(at('2026-02-01T00:00:01Z')), 10)
  limit.take(at('2026-02-01T00:00:01Z'), 4)
  assert.equal(limit.left(at('2026-01-31T23:59:59Z')), 1)
  assert.equal(limit.left(at('2026-02-01T00:00:02Z')), 6)
  assert.equal(limit.left(at('2026-02-02T00:00:00Z')), 10)
})

test('tenants without a rule of their own are forgotten beyond ten thousand, those with one never', () => {
  const config = { tenants: new Map([['web', { weight: 1, limits: [quota] }]]), otherTenants: { weight: 1, limits: [] } } // prettier-ignore
  const accounts = new TenantAccounts(new ManualClock(), config as unknown as AccessConfig)
  const [web, first] = [accounts.of('web'), accounts.of('ann@idp')]
  for (let i = 0; i < 10_000; i++) accounts.of(`user-${i}@idp`)
  assert.equal(accounts.of('web'), web)
  assert.notEqual(accounts.of('ann@idp'), first)
})
