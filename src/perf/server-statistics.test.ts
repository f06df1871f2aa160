import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ModelStatistics } from '../client/inference-client.ts'
import { statisticsBetween } from './server-statistics.ts'

const snapshot = (count: number): ModelStatistics[] => {
  const each = { count, ns: count * 1000 }
  return [
    {
      name: 'm',
      version: '1',
      lastInference: 0,
      inferenceCount: count,
      executionCount: count,
      inferenceStats: {
        success: each,
        fail: each,
        queue: each,
        computeInput: each,
        computeInfer: each,
        computeOutput: each,
        cacheHit: each,
        cacheMiss: each,
      },
      batchStats: [],
    } as unknown as ModelStatistics,
  ]
}

const model = { name: 'm', version: '', composing: [] }

test('a window is what was counted since the one before', () => {
  const window = statisticsBetween(snapshot(10), snapshot(25), model)
  assert.equal(window?.inferenceCount, 15)
  assert.deepEqual(window?.queue, { count: 15, ns: 15_000 })
})

test('a model that was loaded anew in a window has counted nothing, and nothing below 0', () => {
  const window = statisticsBetween(snapshot(25), snapshot(3), model)
  assert.equal(window?.inferenceCount, 0)
  assert.deepEqual(window?.success, { count: 0, ns: 0 })
})
