import assert from 'node:assert/strict'
import test from 'node:test'
import { ServerError } from '../base/server-error.ts'
import { Batch } from '../model/batch.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { ModelTotals } from './model-totals.ts'
import { Statistics } from './statistics.ts'

const stamps = {
  receivedNs: 100,
  queueStartNs: 110,
  computeStartNs: 150,
  computeInputEndNs: 170,
  computeOutputStartNs: 240,
  computeEndNs: 250,
  endNs: 300,
}

function requestWith(
  fields: Partial<typeof stamps & { batchSize: number; responseCount: number }> = {},
): InferenceRequest {
  const request = new InferenceRequest({ modelName: 'm', inputs: [], sink: () => undefined })
  return Object.assign(request, stamps, fields)
}

const noTimes = { queueStartNs: 0, computeStartNs: 0, computeInputEndNs: 0, computeOutputStartNs: 0, computeEndNs: 0 }
const failure = (code: ServerError['code']): InferenceResponse =>
  InferenceResponse.failure(ServerError.withoutStack(code, 'no'))
const plain = (): Statistics => new Statistics({ hasResponseStatistics: false })
const snapshotOf = (statistics: Statistics) => statistics.snapshot('m', '1', 1_000_000, 1_000_000)
const batchOf = (requests: InferenceRequest[], batchSize: number): Batch =>
  new Batch(requests, batchSize, () => undefined)

test('a success adds each phase of the request and its rows', () => {
  const statistics = plain()
  statistics.recordResponse(requestWith({ batchSize: 3 }), InferenceResponse.of([]), 0)
  const { inferenceStats, inferenceCount, lastInferenceMs } = snapshotOf(statistics)
  assert.deepEqual(inferenceStats, {
    success: { count: 1, ns: 200n },
    fail: { count: 0, ns: 0n },
    queue: { count: 1, ns: 40n },
    computeInput: { count: 1, ns: 20n },
    computeInfer: { count: 1, ns: 70n },
    computeOutput: { count: 1, ns: 10n },
    cacheHit: { count: 0, ns: 0n },
    cacheMiss: { count: 0, ns: 0n },
  })
  assert.equal(inferenceCount, 3)
  assert.equal(lastInferenceMs, 999_999)
})

test('a request of a model without batching counts as one inference', () => {
  const statistics = plain()
  statistics.recordResponse(requestWith({ batchSize: 0 }), InferenceResponse.of([]), 0)
  assert.equal(statistics.inferenceCount, 1)
})

test('a failure adds to fail alone', () => {
  const statistics = plain()
  statistics.recordResponse(requestWith(), failure('INTERNAL'), 0)
  const { inferenceStats, inferenceCount, lastInferenceMs } = snapshotOf(statistics)
  assert.deepEqual(inferenceStats.fail, { count: 1, ns: 200n })
  for (const [name, { count }] of Object.entries(inferenceStats)) {
    assert.equal(count, name === 'fail' ? 1 : 0, name)
  }
  assert.deepEqual({ inferenceCount, lastInferenceMs }, { inferenceCount: 0, lastInferenceMs: 0 })
})

test('the reason of a failure tells who failed', () => {
  const statistics = plain()
  statistics.recordResponse(requestWith(noTimes), failure('UNAVAILABLE'), 0)
  statistics.recordResponse(requestWith(noTimes), failure('CANCELLED'), 0)
  statistics.recordResponse(requestWith(), failure('CANCELLED'), 0)
  statistics.recordResponse(requestWith(), failure('UNAVAILABLE'), 0)
  statistics.recordResponse(requestWith(), failure('INTERNAL'), 0)
  statistics.recordResponse(requestWith(noTimes), failure('INTERNAL'), 0)
  assert.deepEqual(statistics.failures, { REJECTED: 1, CANCELED: 2, BACKEND: 2, OTHER: 1 })
  assert.equal(statistics.fail.count, 6)
})

test('an error that the model answered with is a success', () => {
  const statistics = plain()
  statistics.recordResponse(requestWith(), InferenceResponse.errorAnswer(new ServerError('INVALID_ARG', 'no')), 0)
  assert.equal(statistics.success.count, 1)
  assert.equal(statistics.fail.count, 0)
})

test('a request counts once however many responses it gets', () => {
  const statistics = plain()
  const request = requestWith()
  statistics.recordResponse(request, InferenceResponse.of([], { isFinal: false }), 0)
  statistics.recordResponse(request, InferenceResponse.of([], { isFinal: false }), 300)
  assert.equal(statistics.success.count, 0)
  statistics.recordResponse(request, InferenceResponse.finalFlag(), 300)
  assert.equal(statistics.success.count, 1)
})

test('an execution counts once per batch, under its rows, smallest first', () => {
  const statistics = plain()
  statistics.recordExecution(batchOf([requestWith(), requestWith()], 5), 300)
  statistics.recordExecution(batchOf([requestWith()], 2), 300)
  statistics.recordExecution(batchOf([requestWith()], 5), 300)
  const { executionCount, batchStats } = snapshotOf(statistics)
  assert.equal(executionCount, 3)
  assert.deepEqual(batchStats, [
    {
      batchSize: 2,
      computeInput: { count: 1, ns: 20n },
      computeInfer: { count: 1, ns: 70n },
      computeOutput: { count: 1, ns: 10n },
    },
    {
      batchSize: 5,
      computeInput: { count: 2, ns: 40n },
      computeInfer: { count: 2, ns: 140n },
      computeOutput: { count: 2, ns: 20n },
    },
  ])
})

test('a batch that no backend began is no execution, and a cancelled request does not hide its neighbours', () => {
  const statistics = plain()
  statistics.recordExecution(batchOf([requestWith(noTimes)], 1), 300)
  assert.equal(statistics.executionCount, 0)
  statistics.recordExecution(batchOf([requestWith(noTimes), requestWith()], 2), 300)
  assert.equal(statistics.executionCount, 1)
})

test('a Worker that died in the middle leaves the time until now as inference', () => {
  const statistics = plain()
  const request = requestWith({ computeOutputStartNs: 0, computeEndNs: 0 })
  statistics.recordExecution(batchOf([request], 1), 400)
  const [batch] = snapshotOf(statistics).batchStats
  assert.deepEqual(batch?.computeInfer, { count: 1, ns: 230n })
  assert.deepEqual(batch.computeOutput, { count: 1, ns: 0n })
})

test('a batch tells the request it belongs to, once, before the scheduler goes on', () => {
  const order: string[] = []
  const [filler, first, second] = [requestWith(), requestWith(), requestWith()]
  first.admit({ answered: (response) => response, executed: () => order.push('engine') })
  second.admit({ answered: (response) => response, executed: () => order.push('engine again') })
  new Batch([filler, first, second], 3, () => order.push('scheduler')).executed()
  assert.deepEqual(order, ['engine', 'scheduler'])
})

test('responses of a decoupled model are told apart by their index', () => {
  const statistics = new Statistics({ hasResponseStatistics: true })
  const request = requestWith({ endNs: 260 })
  statistics.recordResponse(request, InferenceResponse.of([], { isFinal: false }), 0)
  Object.assign(request, { responseCount: 1, computeOutputStartNs: 350, endNs: 360 })
  statistics.recordResponse(request, InferenceResponse.failure(new ServerError('INTERNAL', 'no'), false), 260)
  Object.assign(request, { responseCount: 2, endNs: 400 })
  statistics.recordResponse(request, InferenceResponse.finalFlag(), 360)
  const none = { count: 0, ns: 0n }
  assert.deepEqual(
    [...snapshotOf(statistics).responseStats],
    [
      [
        '0',
        {
          computeInfer: { count: 1, ns: 70n },
          computeOutput: { count: 1, ns: 20n },
          success: { count: 1, ns: 90n },
          fail: none,
          emptyResponse: none,
          cancel: none,
        },
      ],
      [
        '1',
        {
          computeInfer: { count: 1, ns: 90n },
          computeOutput: { count: 1, ns: 10n },
          success: none,
          fail: { count: 1, ns: 100n },
          emptyResponse: none,
          cancel: none,
        },
      ],
      [
        '2',
        {
          computeInfer: none,
          computeOutput: none,
          success: none,
          fail: none,
          emptyResponse: { count: 1, ns: 40n },
          cancel: none,
        },
      ],
    ],
  )
})

test('an endless stream does not fill the memory with indices', () => {
  const statistics = new Statistics({ hasResponseStatistics: true })
  const request = requestWith()
  for (let i = 0; i < 1_050; i++) {
    request.responseCount = i
    statistics.recordResponse(request, InferenceResponse.of([], { isFinal: false }), 290)
  }
  const { responseStats } = snapshotOf(statistics)
  assert.equal(responseStats.size, 1000)
  assert.equal(responseStats.get('999')?.success.count, 51)
})

test('whatever went wrong with a step, it was not the doing of the ensemble', () => {
  const statistics = new Statistics({ hasResponseStatistics: false, isEnsemble: true })
  statistics.recordResponse(requestWith(), failure('INTERNAL'), 0)
  statistics.recordResponse(requestWith(noTimes), failure('UNAVAILABLE'), 0)
  statistics.recordResponse(requestWith(), failure('CANCELLED'), 0)
  assert.deepEqual(statistics.failures, { REJECTED: 0, CANCELED: 1, BACKEND: 0, OTHER: 2 })
})

test('of 1024 batch sizes each is told apart, and all others count as the next power of two', () => {
  const statistics = plain()
  for (let size = 2; size <= 100_000; size++) statistics.recordExecution(batchOf([requestWith()], size), 0)
  const { batchStats, executionCount } = snapshotOf(statistics)
  assert.equal(executionCount, 99_999)
  assert.ok(batchStats.length <= 1024 + 17, String(batchStats.length))
  const executions = new Map(batchStats.map((stats) => [stats.batchSize, stats.computeInfer.count]))
  assert.equal(executions.get(1025), 1)
  assert.equal(executions.get(131_072), 100_000 - 65_536)
  const totals = new ModelTotals()
  for (let reload = 0; reload < 3; reload++) totals.add(statistics)
  assert.equal(totals.executionsBySize.size, batchStats.length)
})
