import assert from 'node:assert/strict'
import test from 'node:test'
import { ServerError } from '../base/server-error.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { Tensor } from '../tensor/tensor.ts'
import { ResponseOrder } from './response-order.ts'

function orderUnderTest(ids: string) {
  const order = new ResponseOrder()
  const seen: string[] = []
  const requests = new Map<string, InferenceRequest>()
  const join = (id: string): InferenceRequest => {
    const sink = (response: InferenceResponse): void => {
      seen.push(response.error === null ? `${id}${response.isFinal ? '.' : ''}` : `${id} ${response.error.code}`)
    }
    const request = new InferenceRequest({ modelName: 'm', id, inputs: [], sink })
    order.join(request)
    requests.set(id, request)
    return request
  }
  for (const id of ids) join(id)
  const answer = (id: string, isFinal = true): void => requests.get(id)?.respond(InferenceResponse.of([], { isFinal }))
  return { order, seen, answer, join, cancel: (id: string) => requests.get(id)?.cancel(), requests }
}

test('answers leave in the order in which their requests came', () => {
  const { seen, answer } = orderUnderTest('abc')
  answer('c')
  answer('b')
  assert.deepEqual(seen, [])
  answer('a')
  assert.deepEqual(seen, ['a.', 'b.', 'c.'])
})

test('of several answers to one request the first in line streams, the others wait', () => {
  const { seen, answer } = orderUnderTest('ab')
  answer('b', false)
  answer('a', false)
  answer('b')
  assert.deepEqual(seen, ['a'])
  answer('a')
  assert.deepEqual(seen, ['a', 'a.', 'b', 'b.'])
})

test('a cancelled request ends at once and holds nobody up', () => {
  const { seen, answer, cancel, requests } = orderUnderTest('abc')
  cancel('b')
  requests.get('b')?.failCancelled()
  assert.deepEqual(seen, ['b CANCELLED'])
  answer('c')
  answer('a')
  assert.deepEqual(seen, ['b CANCELLED', 'a.', 'c.'])
})

test('a decoupled model whose answers are held is told to wait after 64 of them, and to go on when its turn has come', () => {
  const { seen, answer, requests } = orderUnderTest('ab')
  const second = requests.get('b')
  for (let i = 0; i < 63; i++) answer('b', false)
  assert.equal(second?.isPaused, false)
  answer('b', false)
  assert.equal(second?.isPaused, true)
  answer('a')
  assert.equal(second?.isPaused, false)
  assert.equal(seen.length, 65)
})

test('requests that are done and wait for their turn are counted; cancelled ones hold nothing', () => {
  const { order, answer, cancel, requests } = orderUnderTest('abcd')
  answer('b')
  cancel('c')
  requests.get('c')?.failCancelled()
  answer('d')
  assert.equal(order.doneCount, 2)
  answer('a')
  assert.equal(order.doneCount, 0)
})

test('a cancelled request that waits for its turn is forgotten at once, with its inputs', () => {
  const { order, answer, cancel, requests, seen } = orderUnderTest('abc')
  cancel('b')
  requests.get('b')?.failCancelled()
  assert.equal(order.size, 2)
  cancel('a')
  requests.get('a')?.failCancelled()
  assert.equal(order.size, 1)
  answer('c')
  assert.deepEqual(seen, ['b CANCELLED', 'a CANCELLED', 'c.'])
  assert.equal(order.size, 0)
})

test('finished requests that hold too many bytes keep further requests out until their turn comes', () => {
  const { order, answer, requests } = orderUnderTest('ab')
  const bytes = new Uint8Array(256 * 1024 * 1024)
  requests.get('b')?.inputs.push(new Tensor('X', 'UINT8', [bytes.length], bytes))
  answer('b')
  assert.equal(order.isFull(100), true)
  answer('a')
  assert.equal(order.isFull(100), false)
})

test('a cancelled request of a model that says so before its last answer ends, too, and does not count for good', () => {
  const { order, answer, cancel, requests, seen } = orderUnderTest('ab')
  cancel('b')
  const error = ServerError.withoutStack('CANCELLED', 'nobody waits')
  requests.get('b')?.respond(InferenceResponse.errorAnswer(error, false))
  answer('b')
  answer('a')
  assert.deepEqual(seen, ['b CANCELLED', 'a.', 'b.'])
  assert.deepEqual([order.doneCount, order.size], [0, 0])
})
