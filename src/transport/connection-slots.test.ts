import assert from 'node:assert/strict'
import { test } from 'node:test'

import { ConnectionSlots } from './connection-slots.ts'

test('connections beyond the limit get no slot until another one leaves', () => {
  const slots = new ConnectionSlots(2)
  assert.deepEqual([slots.take(), slots.take(), slots.take()], [true, true, false])
  assert.equal(slots.refusedCount, 1)
  slots.leave()
  assert.ok(slots.take())
})

test('a process leaves descriptors to its models, workers and files', () => {
  const slots = ConnectionSlots.ofProcess()
  assert.ok(slots.limit >= 8)
  assert.ok(process.platform !== 'linux' || Number.isFinite(slots.limit))
})
