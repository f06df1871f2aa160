// The simulation of fleets says what its page says, on a small scale.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { simulateFleet, type FleetPlan, type Policy } from '../../bench/fleet/simulate-fleet.ts'
import { Random } from './random.ts'

function play(policy: Policy, more: Partial<FleetPlan>): ReturnType<typeof simulateFleet> {
  const source = new Random(7, 1)
  const random = (): number => source.int(2 ** 30) / 2 ** 30
  const serviceMs = (draw: () => number): number => 5 + 10 * draw()
  const plan = { servers: 10, requests: 10_000, load: 0.6, policy, serviceMs, meanServiceMs: 10, ...more }
  return simulateFleet(plan, random)
}

test('with a slow server the power of two with pressure beats round robin by more than two at p99', () => {
  const slow = { slowness: (server: number) => (server === 0 ? 5 : 1) }
  const [picked, even] = [play('power of two with pressure', slow), play('round robin', slow)]
  assert.ok(picked.p99Ms * 2 < even.p99Ms, `${picked.p99Ms} ${even.p99Ms}`)
  assert.equal(picked.failed, 0)
  assert.deepEqual(play('round robin', slow), even, 'the same seed gives the same')
})

test('what a lost zone had under way is repeated, and nothing fails', () => {
  const absences: FleetPlan['absences'] = (server, totalMs) => (server % 3 === 0 ? [totalMs / 2, Infinity] : null)
  const { failed, repeats } = play('least request', { load: 0.4, losesWork: true, absences })
  assert.ok(failed === 0 && repeats > 0, `${failed} ${repeats}`)
})

test('a budget bounds the repeats of a storm', () => {
  const storm = { load: 3, requests: 20_000, retries: 3 }
  const [bounded, free] = [play('least request', { ...storm, retryBudget: 0.1 }), play('least request', { ...storm, retryBudget: 1000 })] // prettier-ignore
  assert.ok(bounded.repeats < free.repeats / 2, `${bounded.repeats} ${free.repeats}`)
})
