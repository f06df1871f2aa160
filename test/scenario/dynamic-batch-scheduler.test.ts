// The dynamic batcher under random arrivals, finishes, deaths, cancellations, drains and time, in virtual time, beside a
// slow, obvious implementation of the same rules. A failing run prints the seed that repeats it.

import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { ServerError } from '../../src/base/server-error.ts'
import { ReferenceBatcher, type Arrival, type ReferenceSettings } from './dynamic-batch-reference.ts'
import { brokenSchedulers } from './dynamic-batch-broken.ts'
import { Simulation, type SchedulerMaker } from './dynamic-batch-simulation.ts'

const policy = fc.record({
  action: fc.constantFrom('REJECT' as const, 'DELAY' as const),
  timeoutUs: fc.constantFrom(0, 40, 90),
  allowsOverride: fc.boolean(),
  maxQueueSize: fc.constantFrom(0, 1, 5),
})

const settings: fc.Arbitrary<ReferenceSettings> = fc
  .record({
    maxBatchSize: fc.integer({ min: 1, max: 8 }),
    preferred: fc.uniqueArray(fc.integer({ min: 1, max: 8 }), { maxLength: 3 }),
    delayUs: fc.constantFrom(0, 30, 100),
    levels: fc.integer({ min: 0, max: 3 }),
    defaultLevel: fc.constant(1),
    policy: fc.option(policy),
    defaultBound: fc.constantFrom(3, 12, Infinity),
    instanceCount: fc.integer({ min: 1, max: 3 }),
    preservesOrder: fc.boolean(),
  })
  .map((drawn) => ({
    ...drawn,
    preferred: drawn.preferred.filter((size) => size <= drawn.maxBatchSize),
    defaultLevel: drawn.levels === 0 ? 0 : Math.min(2, drawn.levels),
    preservesOrder: drawn.preservesOrder && drawn.levels <= 1 && drawn.policy?.action !== 'DELAY',
  }))

const arrival = fc.record({
  rows: fc.nat(7),
  priority: fc.nat(4),
  timeoutUs: fc.constantFrom(0, 0, 20, 60),
  kind: fc.constantFrom(0, 0, 0, 1),
})

const act = <Name extends string, Value>(name: Name, value: fc.Arbitrary<Value>) =>
  fc.record({ do: fc.constant(name), value })

const step = fc.oneof(
  { weight: 10, arbitrary: act('arrive', fc.array(arrival, { minLength: 1, maxLength: 6 })) },
  { weight: 6, arbitrary: act('finish', fc.nat(2)) },
  { weight: 6, arbitrary: act('advance', fc.nat(60)) },
  { weight: 2, arbitrary: act('cancel', fc.nat(12)) },
  { weight: 1, arbitrary: act('die', fc.nat(2)) },
  { weight: 1, arbitrary: act('flip', fc.nat(2)) },
)

type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

const died = ServerError.withoutStack('INTERNAL', 'its worker died')

/** One history on both; throws at the first step after which they differ or a rule is broken. */
function live(from: ReferenceSettings, steps: readonly Step[], drainsAt: number, make?: SchedulerMaker): void {
  const real = new Simulation(from, make)
  const reference = new ReferenceBatcher(from)
  let isDraining = false
  const setReady = (index: number, isReady: boolean): void => {
    const instance = real.instances[index]
    if (instance === undefined) return
    instance.isReady = isReady
    reference.setReady(index, isReady)
    real.scheduler.instancesChanged()
    reference.settle()
  }
  const settle = (): void => {
    real.endTurn()
    reference.settle()
    assert.deepEqual(real.log, reference.log)
    assert.equal(real.scheduler.pendingCount, reference.pendingCount)
    real.check()
  }
  const perform = ({ do: action, value }: Step): void => {
    if (action === 'arrive') {
      for (const each of value) {
        const fitting: Arrival = { ...each, rows: 1 + (each.rows % from.maxBatchSize) }
        reference.arrive(real.requestCount, fitting)
        real.arrive(real.requestCount, fitting)
      }
    } else if (action === 'advance') {
      real.clock.advanceUs(value)
      reference.advance(value)
    } else if (action === 'cancel') {
      const id = real.requestCount - 1 - value
      real.cancel(id)
      reference.cancel(id)
    } else if (action === 'flip') {
      const instance = real.instances[value]
      if (instance !== undefined) setReady(value, !instance.isReady)
    } else if (action === 'die') {
      const index = real.instances.findIndex((instance) => instance === real.running[value])
      if (index < 0) return
      setReady(index, false)
      reference.finish(value, 'INTERNAL')
      real.finish(value, died)
    } else {
      reference.finish(value, 'ok')
      real.finish(value, null)
    }
  }
  for (const [index, next] of steps.entries()) {
    if (index === drainsAt) {
      isDraining = true
      real.drain()
      reference.drain()
    }
    perform(next)
    settle()
  }
  // Then every worker is back, time passes and all work is done: nothing may be left over.
  for (const index of real.instances.keys()) setReady(index, true)
  while (real.endedCount < real.requestCount) {
    perform({ do: 'advance', value: 100 })
    perform({ do: 'finish', value: 0 })
    settle()
  }
  assert.equal(real.scheduler.pendingCount, 0)
  assert.equal(real.clock.pendingCount, 0, 'no timer is left behind')
  if (isDraining && steps.length > drainsAt) assert.equal(real.running.length, 0)
}

const history = [settings, fc.array(step, { maxLength: 80, size: 'max' }), fc.nat(160)] as const

test('the dynamic batcher keeps its invariants and does what the obvious implementation does, whatever happens', () => {
  fc.assert(
    fc.property(...history, (from, steps, drainsAt) => live(from, steps, drainsAt)),
    { numRuns: 3000 },
  )
})

for (const [mistake, make] of Object.entries(brokenSchedulers)) {
  test(`a scheduler with this mistake is found out: ${mistake}`, () => {
    const property = fc.property(...history, (from, steps, drainsAt) => live(from, steps, drainsAt, make))
    // It stops at the first history that shows the mistake; the rarest takes some five hundred.
    const { failed } = fc.check(property, { numRuns: 20_000, endOnFailure: true })
    assert.ok(failed, 'no history showed the mistake')
  })
}
