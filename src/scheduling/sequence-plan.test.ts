import assert from 'node:assert/strict'
import test from 'node:test'
import { planSequenceBatch, type SequenceBatchLimits } from './sequence-plan.ts'

const direct: SequenceBatchLimits = { maxBatchSize: 4, delayNs: 100, minimumSlotUtilization: 0.5, preferredSizes: [] }
const oldest: SequenceBatchLimits = { maxBatchSize: 8, delayNs: 100, minimumSlotUtilization: 0, preferredSizes: [3, 6] }
const plan = (limits: SequenceBatchLimits, readyCount: number, nowNs: number) =>
  planSequenceBatch(limits, { readyCount, slotCount: 4, oldestNs: 1000, nowNs })

test('nothing ready, nothing to do', () => {
  assert.deepEqual(plan(direct, 0, 5000), { kind: 'idle' })
})

test('direct waits for its share of the slots, but not past the delay of the oldest request', () => {
  assert.deepEqual(plan(direct, 1, 1099), { kind: 'wait', untilNs: 1100 })
  assert.deepEqual(plan(direct, 2, 1000), { kind: 'run', sequenceCount: 2 })
  assert.deepEqual(plan(direct, 1, 1100), { kind: 'run', sequenceCount: 1 })
})

test('without a share to wait for, or without a delay, direct runs at once', () => {
  assert.deepEqual(plan({ ...direct, minimumSlotUtilization: 0 }, 1, 1000), { kind: 'run', sequenceCount: 1 })
  assert.deepEqual(plan({ ...direct, delayNs: 0 }, 1, 1000), { kind: 'run', sequenceCount: 1 })
})

test('oldest runs the largest preferred size, all after the delay, and never more than the model takes', () => {
  assert.deepEqual(plan(oldest, 2, 1000), { kind: 'wait', untilNs: 1100 })
  assert.deepEqual(plan(oldest, 4, 1000), { kind: 'run', sequenceCount: 3 })
  assert.deepEqual(plan(oldest, 7, 1000), { kind: 'run', sequenceCount: 6 })
  assert.deepEqual(plan(oldest, 2, 1100), { kind: 'run', sequenceCount: 2 })
  assert.deepEqual(plan(oldest, 20, 1100), { kind: 'run', sequenceCount: 8 })
})
