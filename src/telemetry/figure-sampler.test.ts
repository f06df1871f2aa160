import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { FigureSampler, quantileMs } from './figure-sampler.ts'
import { LiveFigures } from './live-figures.ts'
import { ModelLedger, noWorkload } from './model-ledger.ts'
import { Statistics } from './statistics.ts'

const counters = {
  cpuMicros: () => 0,
  memoryBytes: () => 1000,
  connectionCount: () => 1,
  mainThreadReader: () => () => 0.5,
}

function ledgerWith(statistics: Statistics): ModelLedger {
  const ledger = new ModelLedger()
  const version = { name: 'm', version: '1', pendingCount: 3, inFlightCount: 4, loadSeconds: 0, workload: noWorkload }
  ledger.open(version, new Map(), statistics)
  return ledger
}

test('a quantile lies between the bounds of its bucket, and nothing has no quantile', () => {
  assert.equal(quantileMs([0, 0, 0], 0.5), null)
  const buckets = [0, 0, 0, 0, 100]
  const middle = quantileMs(buckets, 0.5)
  assert.ok(middle !== null && middle > 1 && middle < 2.5, String(middle))
})

test('rates are what was added since the last look, divided by the time', () => {
  const clock = new ManualClock()
  const statistics = new Statistics({ hasResponseStatistics: false })
  const ledger = ledgerWith(statistics)
  statistics.success.add(1e6)
  const sampler = new FigureSampler({ clock, entries: () => ledger.entries(), process: counters })
  for (let i = 0; i < 10; i++) statistics.success.add(2e6)
  statistics.failures.BACKEND += 5
  clock.advanceMs(2000)
  const { server, versions } = sampler.sample()
  const figures = versions.get('m/1')
  assert.equal(figures?.requests_per_s, 7.5)
  assert.equal(figures?.errors_per_s, 2.5)
  assert.equal(figures?.mean_ms, 2)
  assert.equal(figures?.waiting, 3)
  assert.equal(server.requests_per_s, 7.5)
  assert.equal(server.main_thread, 0.5)
  clock.advanceMs(1000)
  assert.equal(sampler.sample().versions.get('m/1')?.requests_per_s, 0)
})

test('nothing is measured while nobody looks; an hour after the last look the history ends too', () => {
  const clock = new ManualClock()
  let looks = 0
  const ledger = ledgerWith(new Statistics({ hasResponseStatistics: false }))
  const entries = (): ReturnType<ModelLedger['entries']> => {
    looks++
    return ledger.entries()
  }
  const live = new LiveFigures({ clock, entries, process: counters })
  clock.advanceMs(60_000)
  assert.equal(looks, 0)
  let seen = 0
  const unwatch = live.watch(() => seen++)
  for (let i = 0; i < 10; i++) clock.advanceMs(1000)
  assert.equal(seen, 10)
  unwatch()
  assert.equal(live.history('m', '1').figures['waiting']?.at(-1), 3)
  assert.equal(live.history('', '').figures['memory_bytes']?.at(-1), 1000)
  for (let i = 0; i < 730; i++) clock.advanceMs(5000)
  const before = looks
  for (let i = 0; i < 20; i++) clock.advanceMs(5000)
  assert.equal(looks, before)
  assert.equal(seen, 10)
})

test('the first 500 versions have figures, the first 50 a history', () => {
  const clock = new ManualClock()
  const ledger = new ModelLedger()
  for (let i = 0; i < 600; i++) {
    const version = { name: `m${i}`, version: '1', pendingCount: 0, inFlightCount: 0, loadSeconds: 0, workload: noWorkload } // prettier-ignore
    ledger.open(version, new Map(), new Statistics({ hasResponseStatistics: false }))
  }
  const live = new LiveFigures({ clock, entries: () => ledger.entries(), process: counters })
  let count = 0
  live.watch(({ versions }) => (count = versions.size))
  for (let i = 0; i < 6; i++) clock.advanceMs(1000)
  assert.equal(count, 500)
  assert.equal(Object.keys(live.rates()).length, 50)
})
