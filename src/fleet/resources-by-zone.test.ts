import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mapFleet } from './fleet-map.ts'
import { resourcesByZone } from './resources-by-zone.ts'
import { ZonePreference } from './zone-preference.ts'

test('what Envoys are told is made once for a zone with servers, and is one thing for all zones without', () => {
  const member = { key: '10.0.0.1:8000', address: '10.0.0.1', httpPort: 8000, grpcPort: 8001, zone: 'here' }
  const map = mapFleet([
    { member, health: 'ready', sinceMs: 0, reason: '', pressure: 0, pressures: new Map(), models: new Map([['m', ['1']]]) },
  ]) // prettier-ignore
  const settings = { listenAddress: '127.0.0.1', listenPort: 1, picksAll: false, controlCluster: 'c', retryBodyBytes: 1, headBytes: 1, retryBudgetPercent: 1 } // prettier-ignore
  const of = resourcesByZone(map, new Set(), settings, new ZonePreference())
  assert.equal(of('here'), of('here'))
  assert.notEqual(of('here'), of(''))
  for (let i = 0; i < 3; i++) assert.equal(of(`elsewhere-${i}`), of(''))
})
