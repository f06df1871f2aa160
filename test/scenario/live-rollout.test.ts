// What happens to requests while a rollout lives: on a real Engine, with versions that answer when they are told to.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ServerError } from '../../src/base/server-error.ts'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { answerWithCopy } from '../fakes/held-instance.ts'
import { rolloutUnderTest } from '../fakes/rollout-under-test.ts'

const failing = (request: InferenceRequest): void => request.fail(new ServerError('INTERNAL', 'bad weights'))

describe('a request that the candidate fails', () => {
  test('runs again on stable, and the client sees no error', async () => {
    const { backend, live, send, errorsOf } = await rolloutUnderTest()
    backend.answer = (request) => (backend.executed.at(-1) === 'm/2' ? failing(request) : answerWithCopy(request))
    backend.isHolding = false
    const sent = send()
    assert.deepEqual(errorsOf(sent), [''])
    assert.deepEqual(sent.variants, ['r1/stable/1'])
    assert.deepEqual(backend.executed, ['m/2', 'm/1'])
    assert.deepEqual(
      live.arms.map(({ ended }) => ended),
      [
        { success: 1, error: 0, hidden_error: 0, ignored: 0 },
        { success: 0, error: 0, hidden_error: 1, ignored: 0 },
      ],
    )
    live.evidence.tick(1e9, true)
    assert.deepEqual([live.inFlight(0), live.inFlight(1)], [0, 0])
  })

  test('fails where the plan has no fallback, where the request is wrong, and where it has answered', async () => {
    const none = await rolloutUnderTest({ fallback: 'none' })
    none.backend.isHolding = false
    none.backend.answer = failing
    assert.deepEqual(none.errorsOf(none.send()), ['bad weights'])
    const { backend, send, errorsOf } = await rolloutUnderTest()
    backend.isHolding = false
    backend.answer = (request) => {
      request.respond(InferenceResponse.of([], { isFinal: false }))
      failing(request)
    }
    assert.deepEqual(errorsOf(send()), ['', 'bad weights'])
    assert.match(errorsOf(send({ inputs: [] })).join(), /expected/i)
  })

  test('runs again only while its timeout lasts', async () => {
    const { clock, backend, send, errorsOf } = await rolloutUnderTest()
    backend.answer = (request) => (backend.executed.at(-1) === 'm/2' ? failing(request) : answerWithCopy(request))
    const [late, early] = [send({ timeoutUs: 0n }), send({ timeoutUs: 1000n })]
    clock.advanceUs(5000)
    while (backend.answerAll().length > 0);
    assert.deepEqual([errorsOf(late).length, errorsOf(early).length], [1, 1])
    assert.notEqual(errorsOf(early)[0], '')
  })
})

describe('a rollback', () => {
  test('moves requests that wait to stable, lets those that have begun end, and loses none', async () => {
    const { backend, live, send, errorsOf } = await rolloutUnderTest()
    const sent = [send(), send(), send()]
    assert.deepEqual(backend.executed, ['m/2'])
    assert.deepEqual(live.withdraw(), { moved: 2, left: 1 })
    assert.deepEqual(backend.executed, ['m/2', 'm/1'])
    sent.push(send())
    while (backend.answerAll().length > 0);
    assert.deepEqual(sent.flatMap(errorsOf), ['', '', '', ''])
    assert.deepEqual(backend.executed, ['m/2', 'm/1', 'm/1', 'm/1'])
    assert.deepEqual([live.inFlight(0), live.inFlight(1)], [0, 0])
  })

  test('does not run a request that its client gave up', async () => {
    const { backend, live, send } = await rolloutUnderTest()
    const [, , waiting] = [send(), send(), send()]
    live.withdraw()
    waiting.request.cancel()
    while (backend.answerAll().length > 0);
    assert.deepEqual(
      waiting.answers.map(({ error }) => error?.code),
      ['CANCELLED'],
    )
  })

  test('is not counted as a failure of the candidate', async () => {
    const { engine, live, send } = await rolloutUnderTest()
    const sent = [send(), send()]
    live.withdraw()
    const [, candidate] = engine.statistics('m', '')
    assert.deepEqual([sent.length, candidate?.inferenceStats.fail.count], [2, 0])
  })
})

test('a request that names its version is not routed, and after the end nobody is', async () => {
  const { backend, live, send } = await rolloutUnderTest()
  backend.isHolding = false
  send({ modelVersion: '1' })
  send()
  live.close()
  live.close()
  send()
  assert.deepEqual(backend.executed, ['m/1', 'm/2', 'm/2'])
  assert.equal(live.arms[1]?.ended.success, 1)
})
