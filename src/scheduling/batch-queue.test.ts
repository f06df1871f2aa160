import assert from 'node:assert/strict'
import test from 'node:test'
import { InferenceRequest } from '../model/inference-request.ts'
import { BatchQueue, type WaitingRequest } from './batch-queue.ts'

const requestOf = (priority: bigint): InferenceRequest =>
  new InferenceRequest({ modelName: 'm', inputs: [], priority, sink: () => undefined })

const queueOf = (priorityLevels: bigint): BatchQueue =>
  new BatchQueue({
    priorityLevels,
    defaultPriorityLevel: 1n,
    defaultPolicy: null,
    policyByLevel: new Map(),
    defaultMaxQueueSize: Infinity,
  })

function* waitingIn(queue: BatchQueue): Generator<WaitingRequest> {
  for (let waiting = queue.first(); waiting !== null; waiting = queue.after(waiting)) yield waiting
}

test('requests run by priority, whatever the order in which their levels came and went', () => {
  const queue = queueOf(9n)
  const [five, two, nine, two2] = [5n, 2n, 9n, 2n].map((priority) => queue.push(requestOf(priority), 0))
  assert.deepEqual([...waitingIn(queue)], [two, two2, five, nine])
  queue.remove(five as WaitingRequest)
  const seven = queue.push(requestOf(7n), 0)
  const none = queue.push(requestOf(0n), 0)
  assert.deepEqual([...waitingIn(queue)], [none, two, two2, seven, nine])
  assert.equal(queue.size, 5)
})

test('requests of thousands of priorities cost about as much as those of one', () => {
  const queue = queueOf(1_000_000n)
  // The square of this number is minutes.
  for (let priority = 1n; priority <= 200_000n; priority++) {
    const request = requestOf(priority)
    queue.joinedBy(request)
    queue.push(request, 0)
  }
  let least = 0n
  for (const { request } of waitingIn(queue)) {
    assert.ok(request.priority > least)
    least = request.priority
  }
  for (let first = queue.first(); first !== null; first = queue.first()) queue.remove(first)
  assert.equal(queue.size, 0)
})
