import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { RingQueue } from './ring-queue.ts'

test('a ring queue does what an array does, at any depth and after any removals', () => {
  const command = fc.oneof(
    fc.record({ do: fc.constant('push' as const), value: fc.nat(20) }),
    fc.record({ do: fc.constant('pushFirst' as const), value: fc.nat(20) }),
    fc.record({ do: fc.constant('take' as const), value: fc.constant(0) }),
    fc.record({ do: fc.constant('remove' as const), value: fc.nat(20) }),
  )
  fc.assert(
    fc.property(fc.array(command, { maxLength: 200 }), (commands) => {
      const queue = new RingQueue<number>()
      const model: number[] = []
      for (const { do: action, value } of commands) {
        if (action === 'push') {
          queue.push(value)
          model.push(value)
        } else if (action === 'pushFirst') {
          queue.pushFirst(value)
          model.unshift(value)
        } else if (action === 'take') {
          assert.equal(queue.peek(), model[0])
          assert.equal(queue.take(), model.shift())
        } else {
          const index = model.indexOf(value)
          assert.equal(queue.remove(value), index >= 0)
          if (index >= 0) model.splice(index, 1)
        }
        assert.equal(queue.size, model.length)
        assert.deepEqual([...queue], model)
      }
    }),
  )
})
