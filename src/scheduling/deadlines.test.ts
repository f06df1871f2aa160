import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { Deadlines, type Expiring } from './deadlines.ts'

class Waiter implements Expiring {
  readonly name: number
  readonly deadlineNs: number
  deadlinePlace = -1
  deadlineOrder = 0

  constructor(name: number, deadlineNs: number) {
    this.name = name
    this.deadlineNs = deadlineNs
  }
}

test('each is due at its time and in order, whoever leaves before, and one timer serves all of them', () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('add' as const), value: fc.oneof(fc.nat(50), fc.constant(Infinity)) }),
    fc.record({ do: fc.constant('remove' as const), value: fc.nat(100) }),
    fc.record({ do: fc.constant('advance' as const), value: fc.nat(20) }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const clock = new ManualClock()
      const seen: string[] = []
      const deadlines = new Deadlines<Waiter>(clock, (nowNs) => {
        for (let due = deadlines.takeDue(nowNs); due !== null; due = deadlines.takeDue(nowNs)) {
          seen.push(`${due.name} at ${nowNs}`)
        }
      })
      const all: Waiter[] = []
      const gone = new Set<Waiter>()
      for (const { do: action, value } of steps) {
        const nowNs = clock.nowNs()
        if (action === 'add') {
          const waiter = new Waiter(all.length, nowNs + 1 + value)
          all.push(waiter)
          deadlines.add(waiter, nowNs)
        } else if (action === 'advance') clock.advanceNs(value)
        else {
          const waiter = all[value]
          if (waiter === undefined || waiter.deadlineNs <= nowNs) continue
          gone.add(waiter)
          deadlines.remove(waiter)
          deadlines.remove(waiter)
        }
        assert.ok(clock.pendingCount <= 1, 'one timer')
      }
      const nowNs = clock.nowNs()
      const expected = all
        .filter((waiter) => !gone.has(waiter) && waiter.deadlineNs <= nowNs)
        .sort((a, b) => a.deadlineNs - b.deadlineNs || a.name - b.name)
        .map(({ name, deadlineNs }) => `${name} at ${deadlineNs}`)
      assert.deepEqual(seen, expected)
      clock.advanceNs(100)
      assert.equal(clock.pendingCount, 0, 'no timer is left when nobody waits')
    }),
  )
})
