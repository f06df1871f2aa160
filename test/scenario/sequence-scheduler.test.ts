// The sequence scheduler under random arrivals, finishes, iterations, cancellations, failures, worker deaths, drains and
// time, in virtual time.

import assert from 'node:assert/strict'
import test from 'node:test'
import { testHistories, testIsFoundOut } from './histories.ts'
import { Random } from './random.ts'
import { brokenSequenceSchedulers } from './sequence-broken.ts'
import { kinds, sequenceHistories, SequenceSimulation, type KindName } from './sequence-simulation.ts'

const kindNames = Object.keys(kinds) as KindName[]

for (const kind of kindNames) {
  testHistories(`sequences keep slot, order and state, whatever happens: ${kind}`, 120_000, sequenceHistories([kind]))
}

for (const [mistake, make] of Object.entries(brokenSequenceSchedulers)) {
  testIsFoundOut(mistake, 5000, sequenceHistories(kindNames, make))
}

test('once everything has been answered and the idle time has passed, no sequence holds a slot', () => {
  const { step } = sequenceHistories(kindNames)
  for (let index = 0; index < 300; index++) {
    const random = new Random(7, index)
    const setup = { kind: 'direct, one row', instanceCount: 2 } as const
    const simulation = new SequenceSimulation(setup)
    const { ledger, clock } = simulation
    for (let i = 0; i < 80; i++) {
      const next = step(random, setup)
      if (next.do !== 'drain' && next.do !== 'rescale') simulation.run(next)
    }
    simulation.bringBack()
    for (let round = 0; round < 200; round++) {
      for (const instance of simulation.instances) simulation.finish(instance, 0)
      simulation.endTurn()
      clock.advanceUs(1000)
    }
    assert.equal(ledger.openCount, 0)
    assert.equal(clock.pendingCount, 0)
    // A new sequence for every slot, and all of them run at once.
    for (let id = 0; id < simulation.instances.length; id++) {
      simulation.send(BigInt(100 + id), { isSequenceStart: true, isSequenceEnd: false, timeoutUs: 0n })
    }
    assert.equal(ledger.waiting.size, 0)
  }
})
