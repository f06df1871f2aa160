import assert from 'node:assert/strict'
import test from 'node:test'
import type { ModelStatistics } from '../model/model-statistics.ts'
import { encodeStatistics } from './statistics-json.ts'

const none = { count: 0, ns: 0n }
const idle: ModelStatistics = {
  name: 'add_sub',
  version: '1',
  lastInferenceMs: 0,
  inferenceCount: 0,
  executionCount: 0,
  inferenceStats: {
    success: none,
    fail: none,
    queue: none,
    computeInput: none,
    computeInfer: none,
    computeOutput: none,
    cacheHit: none,
    cacheMiss: none,
  },
  responseStats: new Map(),
  batchStats: [],
  memoryUsage: [],
}

function textOf(models: readonly ModelStatistics[]): string {
  const steps = encodeStatistics(models)
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value.toString()
  }
}

test('an idle version is written as Triton writes it', () => {
  const zero = '{"count":0,"ns":0}'
  assert.equal(
    textOf([idle]),
    `{"model_stats":[{"name":"add_sub","version":"1","last_inference":0,"inference_count":0,"execution_count":0,` +
      `"inference_stats":{"success":${zero},"fail":${zero},"queue":${zero},"compute_input":${zero},` +
      `"compute_infer":${zero},"compute_output":${zero},"cache_hit":${zero},"cache_miss":${zero}},` +
      `"response_stats":{},"batch_stats":[],"memory_usage":[]}]}`,
  )
})

test('nanoseconds above 2^53 keep every digit', () => {
  const success = { count: 1, ns: 2n ** 63n + 1n }
  const text = textOf([{ ...idle, inferenceStats: { ...idle.inferenceStats, success } }])
  assert.ok(text.includes('"success":{"count":1,"ns":9223372036854775809}'), text)
})

test('batches, responses and memory are part of the answer, and names are escaped', () => {
  const some = { count: 2, ns: 7n }
  const compute = { computeInput: some, computeInfer: some, computeOutput: some }
  const parsed: unknown = JSON.parse(
    textOf([
      {
        ...idle,
        name: 'a"b',
        batchStats: [{ batchSize: 4, ...compute }],
        responseStats: new Map([['0', { ...compute, success: some, fail: none, emptyResponse: none, cancel: none }]]),
        memoryUsage: [{ type: 'CPU', id: 0, byteSize: 12n }],
      },
    ]),
  )
  const value = { count: 2, ns: 7 }
  const zero = { count: 0, ns: 0 }
  const [model] = (parsed as { model_stats: Record<string, unknown>[] }).model_stats
  assert.equal(model?.['name'], 'a"b')
  assert.deepEqual(model['batch_stats'], [
    { batch_size: 4, compute_input: value, compute_infer: value, compute_output: value },
  ])
  assert.deepEqual(model['response_stats'], {
    0: { compute_infer: value, compute_output: value, success: value, fail: zero, empty_response: zero, cancel: zero },
  })
  assert.deepEqual(model['memory_usage'], [{ type: 'CPU', id: 0, byte_size: 12 }])
})

test('models with many responses are written a few at a time', () => {
  const stats = {
    computeInfer: none,
    computeOutput: none,
    success: none,
    fail: none,
    emptyResponse: none,
    cancel: none,
  }
  const responseStats = new Map(Array.from({ length: 1000 }, (_, index) => [String(index), stats]))
  const steps = encodeStatistics(Array.from({ length: 8 }, () => ({ ...idle, responseStats })))
  let count = 0
  while (steps.next().done !== true) count++
  assert.equal(count, 8)
})
