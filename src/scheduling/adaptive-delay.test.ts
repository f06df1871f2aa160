import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { adaptiveDelayNs, LoadEstimate, type DelayFacts, type DelayTarget } from './adaptive-delay.ts'

const ms = 1e6
const target: DelayTarget = { sloNs: 50 * ms, maxBatchSize: 32, instanceCount: 1, maxDelayNs: Infinity }
const facts = (part: Partial<DelayFacts>): DelayFacts => ({
  rows: 1,
  oldestAgeNs: 0,
  rowRate: 0.1 / ms,
  fixedNs: 4 * ms,
  perRowNs: 0.1 * ms,
  spreadNs: 0,
  ...part,
})

test('a request that the model can serve alone waits for nobody', () => {
  assert.equal(adaptiveDelayNs(facts({ rowRate: 0.1 / ms }), target), 0)
})

test('a batch waits for as many rows as it takes to keep up, and no longer', () => {
  // One row per ms and 0.7 ms per row to spend: 4 + 0.1 n ≤ 0.7 n from n = 7 on.
  const delay = adaptiveDelayNs(facts({ rowRate: 1 / ms }), target)
  assert.ok(Math.abs(delay - 6 * ms) < 1, `${delay}`)
  assert.equal(adaptiveDelayNs(facts({ rowRate: 1 / ms, rows: 7 }), target), 0)
})

test('the oldest request is never held so long that it would be late', () => {
  // Fourteen rows are needed, and would take until long after the target to gather.
  const busy = facts({ rowRate: 0.3 / ms, fixedNs: 30 * ms })
  const delay = adaptiveDelayNs(busy, target)
  assert.ok(delay > 0 && delay + 30 * ms + 14 * 0.1 * ms <= target.sloNs)
  assert.equal(adaptiveDelayNs({ ...busy, oldestAgeNs: 20 * ms }, target), 0)
})

test('in a rush that keeps every size of batch too busy nobody waits: batches are large by themselves', () => {
  assert.equal(adaptiveDelayNs(facts({ rowRate: 6 / ms }), target), 0)
})

test('an unsteady model leaves more room, and max_queue_delay stays the limit', () => {
  const busy = facts({ rowRate: 0.3 / ms, fixedNs: 20 * ms })
  assert.ok(adaptiveDelayNs({ ...busy, spreadNs: 2 * ms }, target) < adaptiveDelayNs(busy, target))
  assert.equal(adaptiveDelayNs(busy, { ...target, maxDelayNs: ms }), ms)
})

test('more instances need smaller batches', () => {
  const busy = facts({ rowRate: 1 / ms })
  assert.ok(adaptiveDelayNs(busy, { ...target, instanceCount: 2 }) < adaptiveDelayNs(busy, target))
})

test('whatever the facts, the delay is a time that leaves the target within reach, or none at all', () => {
  const time = fc.double({ min: 0, max: 100 * ms, noNaN: true })
  const any = fc.record({
    rows: fc.integer({ min: 1, max: 31 }),
    oldestAgeNs: time,
    rowRate: fc.double({ min: 0, max: 100 / ms, noNaN: true }),
    fixedNs: time,
    perRowNs: time,
    spreadNs: time,
  })
  fc.assert(
    fc.property(any, (drawn) => {
      const delay = adaptiveDelayNs(drawn, target)
      assert.ok(delay === 0 || (delay > drawn.oldestAgeNs && delay + drawn.fixedNs < target.sloNs))
    }),
  )
})

test('a straight line through what executions took is found, and a slower model is noticed', () => {
  const estimate = new LoadEstimate(50 * ms)
  assert.equal(estimate.facts(1, 0, 0), null)
  for (let i = 0; i < 60; i++) estimate.executed(1 + (i % 16), (3 + 0.2 * (1 + (i % 16))) * ms)
  const learned = estimate.facts(1, 0, 0)
  assert.ok(Math.abs((learned?.fixedNs ?? 0) - 3 * ms) < 1e3)
  assert.ok(Math.abs((learned?.perRowNs ?? 0) - 0.2 * ms) < 1e3)
  for (let i = 0; i < 100; i++) estimate.executed(1 + (i % 16), (9 + 0.2 * (1 + (i % 16))) * ms)
  assert.ok(Math.abs((estimate.facts(1, 0, 0)?.fixedNs ?? 0) - 9 * ms) < 0.1 * ms)
})

test('batches of one size alone count as fixed cost', () => {
  const estimate = new LoadEstimate(50 * ms)
  for (let i = 0; i < 10; i++) estimate.executed(4, 5 * ms)
  const learned = estimate.facts(1, 0, 0)
  assert.deepEqual([learned?.fixedNs, learned?.perRowNs], [5 * ms, 0])
})

test('the rate of arrivals rises with a burst and fades when nothing comes', () => {
  const estimate = new LoadEstimate(10 * ms)
  for (let i = 0; i < 4; i++) estimate.executed(1, ms)
  for (let i = 0; i <= 1000; i++) estimate.arrived(1, i * 0.1 * ms)
  const busy = estimate.facts(1, 0, 100 * ms)?.rowRate ?? 0
  assert.ok(Math.abs(busy - 10 / ms) < 0.2 / ms, 'ten rows per millisecond')
  assert.ok((estimate.facts(1, 0, 150 * ms)?.rowRate ?? 1) < busy / 100)
})
