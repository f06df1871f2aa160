import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { until } from '../../test/until.ts'
import { ServerError } from '../base/server-error.ts'
import { InferenceRequest, type InferenceRequestFields } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { Tensor } from '../tensor/tensor.ts'
import { SingleFlightScheduler } from './single-flight-scheduler.ts'

function schedulerUnderTest() {
  const running: InferenceRequest[] = []
  const outcomes: string[] = []
  const responses: InferenceResponse[] = []
  const inner: Scheduler = {
    enqueue: (request) => {
      request.handOver({ onCancel: (cancelled) => cancelled.failCancelled() })
      running.push(request)
    },
    pendingCount: 0,
    instancesChanged: () => undefined,
    drain: () => Promise.resolve(),
    close: () => undefined,
  }
  const clock = new ManualClock()
  const scheduler = new SingleFlightScheduler({ clock }, inner)
  const send = (id: string, byte: number, fields: Partial<InferenceRequestFields> = {}): InferenceRequest => {
    const request = new InferenceRequest({
      modelName: 'm',
      id,
      inputs: [new Tensor('A', 'UINT8', [1], Uint8Array.of(byte))],
      sink: (response) => {
        responses.push(response)
        outcomes.push(`${id} ${response.error?.code ?? response.outputs[0]?.bytes[0]}`)
      },
      ...fields,
    })
    scheduler.enqueue(request)
    return request
  }
  return { clock, scheduler, running, outcomes, responses, send }
}

const answer = (byte: number, release: () => void = () => undefined): InferenceResponse =>
  InferenceResponse.of([new Tensor('Y', 'UINT8', [1], Uint8Array.of(byte))], { release })

test('equal requests that are there at one time run once and all get the answer; a different one runs itself', () => {
  const { scheduler, running, outcomes, send } = schedulerUnderTest()
  for (const id of ['a', 'b', 'c']) send(id, 1)
  send('other', 2)
  assert.deepEqual(
    running.map(({ id }) => id),
    ['a', 'other'],
  )
  assert.equal(scheduler.pendingCount, 2)
  running[0]?.respond(answer(7))
  assert.deepEqual(outcomes.sort(), ['a 7', 'b 7', 'c 7'])
  assert.equal(scheduler.pendingCount, 0)
  send('later', 1)
  assert.equal(running.at(-1)?.id, 'later', 'nothing is kept once it is answered')
})

test('the memory of an answer goes back when the last of those who share it has written it', () => {
  const { running, responses, send } = schedulerUnderTest()
  for (const id of ['a', 'b', 'c']) send(id, 1)
  let released = 0
  running[0]?.respond(answer(7, () => released++))
  assert.equal(responses.length, 3)
  responses[0]?.release()
  responses[0]?.release()
  responses[1]?.release()
  assert.equal(released, 0)
  responses[2]?.release()
  assert.equal(released, 1)
})

test('when the one that runs is cancelled or refused, the next one runs in its place', async () => {
  const { running, outcomes, send } = schedulerUnderTest()
  for (const id of ['a', 'b', 'c']) send(id, 1)
  running[0]?.cancel()
  assert.deepEqual(outcomes, ['a CANCELLED'])
  await Promise.resolve()
  assert.deepEqual(
    running.map(({ id }) => id),
    ['a', 'b'],
  )
  running[1]?.fail(new ServerError('UNAVAILABLE', 'full'))
  await Promise.resolve()
  running[2]?.respond(answer(3))
  assert.deepEqual(outcomes, ['a CANCELLED', 'b UNAVAILABLE', 'c 3'])
})

test('those who are cancelled with the one that ran never run', async () => {
  const { scheduler, running, outcomes, send } = schedulerUnderTest()
  const requests = ['a', 'b', 'c'].map((id) => send(id, 1))
  requests[0]?.cancel()
  requests[1]?.cancel()
  assert.deepEqual(outcomes, ['a CANCELLED', 'b CANCELLED'])
  assert.equal(scheduler.pendingCount, 1)
  await Promise.resolve()
  assert.deepEqual(
    running.map(({ id }) => id),
    ['a', 'c'],
  )
})

test('who waits at the drain still gets an answer, and who waits at close is told', async () => {
  const { scheduler, running, outcomes, send } = schedulerUnderTest()
  for (const id of ['a', 'b', 'c']) send(id, 1)
  let isDrained = false
  void scheduler.drain().then(() => (isDrained = true))
  send('late', 1)
  assert.deepEqual(outcomes, ['late UNAVAILABLE'])
  running[0]?.cancel()
  await Promise.resolve()
  assert.equal(running.at(-1)?.id, 'b', 'admitted before, and so run')
  await Promise.resolve()
  assert.ok(!isDrained)
  scheduler.close()
  assert.deepEqual(outcomes.slice(1), ['a CANCELLED', 'c UNAVAILABLE'])
})

test("the model's own error goes to all of them", () => {
  const { running, outcomes, send } = schedulerUnderTest()
  send('a', 1)
  send('b', 1)
  running[0]?.fail(new ServerError('INTERNAL', 'no'))
  assert.deepEqual(outcomes.sort(), ['a INTERNAL', 'b INTERNAL'])
})

test('one that waits can be cancelled and can expire without harm to the others', () => {
  const { clock, scheduler, running, outcomes, send } = schedulerUnderTest()
  send('a', 1)
  const waiting = send('b', 1)
  send('c', 1, { timeoutUs: 1000n })
  waiting.cancel()
  assert.deepEqual(outcomes, ['b CANCELLED'])
  clock.advanceUs(1000)
  assert.deepEqual(outcomes, ['b CANCELLED', 'c UNAVAILABLE'])
  assert.equal(scheduler.pendingCount, 0)
  running[0]?.respond(answer(1))
  assert.deepEqual(outcomes.at(-1), 'a 1')
})

test('thousands who wait for one answer get it a few at a time, those who gave up meanwhile too', async () => {
  const { scheduler, running, outcomes, send } = schedulerUnderTest()
  const sent = Array.from({ length: 1000 }, (_, i) => send(String(i), 1))
  let releaseCount = 0
  running[0]?.respond(answer(7, () => releaseCount++))
  assert.equal(scheduler.pendingCount, 0)
  assert.ok(outcomes.length < 100, String(outcomes.length))
  sent.at(-1)?.cancel()
  await until(() => outcomes.length === 1000, 'all answers')
  assert.equal(outcomes.filter((outcome) => outcome.endsWith(' 7')).length, 1000)
})
