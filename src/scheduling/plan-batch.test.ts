import assert from 'node:assert/strict'
import test from 'node:test'
import { InferenceRequest } from '../model/inference-request.ts'
import { planBatch, type BatchLimits, type Waiting } from './plan-batch.ts'

const request = (kind = 0): InferenceRequest =>
  new InferenceRequest({ modelName: String(kind), inputs: [], sink: () => undefined })

const line = (...waiting: readonly Waiting[]) => ({
  first: () => waiting[0] ?? null,
  after: (one: Waiting) => waiting[waiting.indexOf(one) + 1] ?? null,
})

const rows = (count: number, enqueuedNs = 0, kind = 0): Waiting => ({ request: request(kind), rows: count, enqueuedNs })

const limits = (from: { max?: number; preferred?: number[]; delayNs?: number } = {}): BatchLimits => {
  const { max = 8, preferred = [], delayNs = 0 } = from
  return {
    maxBatchSize: max,
    preferredBatchSizes: new Set(preferred),
    largestPreferredBatchSize: preferred.length === 0 ? max : Math.max(...preferred),
    maxQueueDelayNs: delayNs,
    canJoin: (first, next) => first.modelName === next.modelName,
  }
}

test('an empty line plans nothing', () => {
  assert.deepEqual(planBatch(line(), limits(), 0), { kind: 'idle' })
})

test('without a delay everything that fits runs at once', () => {
  const plan = planBatch(line(rows(3), rows(4), rows(2)), limits(), 0)
  assert.deepEqual(plan, { kind: 'run', requestCount: 2, batchSize: 7 })
})

test('with a delay a partial batch waits until its oldest request has waited that long', () => {
  const two = line(rows(1, 100), rows(1, 150))
  const slow = limits({ delayNs: 50 })
  assert.deepEqual(planBatch(two, slow, 149), { kind: 'wait', untilNs: 150, requestCount: 2, batchSize: 2 })
  assert.deepEqual(planBatch(two, slow, 150), { kind: 'run', requestCount: 2, batchSize: 2 })
})

test('a full batch never waits, and no request is split to fill one', () => {
  const slow = limits({ delayNs: 50 })
  assert.deepEqual(planBatch(line(rows(8)), slow, 0), { kind: 'run', requestCount: 1, batchSize: 8 })
  assert.deepEqual(planBatch(line(rows(5), rows(5)), slow, 0), { kind: 'run', requestCount: 1, batchSize: 5 })
})

test('the largest preferred size that the front of the line makes up leaves at once', () => {
  const picky = limits({ preferred: [2, 4], delayNs: 50 })
  const five = line(rows(1), rows(1), rows(1), rows(1), rows(1))
  assert.deepEqual(planBatch(five, picky, 0), { kind: 'run', requestCount: 4, batchSize: 4 })
  assert.equal(planBatch(line(rows(1)), picky, 0).kind, 'wait')
})

test('once the delay has passed everything that fits runs, preferred size or not', () => {
  const picky = limits({ preferred: [4], delayNs: 50 })
  const five = line(rows(1), rows(1), rows(1), rows(1), rows(1))
  assert.deepEqual(planBatch(five, picky, 50), { kind: 'run', requestCount: 5, batchSize: 5 })
})

test('a batch that the next request would take past every preferred size leaves without it', () => {
  const picky = limits({ preferred: [4], delayNs: 50 })
  assert.deepEqual(planBatch(line(rows(3), rows(3)), picky, 0), { kind: 'run', requestCount: 1, batchSize: 3 })
})

test('a request larger than every preferred size runs all the same', () => {
  const picky = limits({ preferred: [2], delayNs: 50 })
  assert.deepEqual(planBatch(line(rows(6)), picky, 0), { kind: 'run', requestCount: 1, batchSize: 6 })
})

test('a request that may not join ends the batch before it', () => {
  const slow = limits({ delayNs: 50 })
  const plan = planBatch(line(rows(1), rows(1, 0, 1), rows(1)), slow, 0)
  assert.deepEqual(plan, { kind: 'run', requestCount: 1, batchSize: 1 })
})
