// Copies of stable's requests for the candidate: what is compared, and that nobody feels them.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ServerError } from '../../src/base/server-error.ts'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import type { ShadowStep } from '../../src/rollouts/rollout-plan.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { answerWithCopy } from '../fakes/held-instance.ts'
import { rolloutUnderTest } from '../fakes/rollout-under-test.ts'
import { until } from '../until.ts'

const step: ShadowStep = {
  kind: 'shadow',
  share: 10_000,
  forNs: 1,
  minCompared: 1,
  maxInFlight: null,
  maxBytes: 4 * 1024 * 1024,
  isKeepingInputs: false,
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

async function shadowed(change: Partial<ShadowStep> = {}, options: Parameters<typeof rolloutUnderTest>[1] = {}) {
  const metrics = { agreement: { min: '99%' } }
  const steps = [
    { shadow: 100, for: '10m' },
    { weight: 1, for: '10m' },
  ]
  const rollout = await rolloutUnderTest({ steps, judge: { metrics } }, { weight: 0, ...options })
  rollout.live.setShadow({ ...step, ...change })
  const figures = () => rollout.live.shadow.figures()
  return { ...rollout, figures }
}

const inputOf = (bytes: number): Tensor => new Tensor('IN', 'FP32', [bytes / 4], new Uint8Array(bytes))

describe('a copy', () => {
  test('goes to the candidate after stable had the request, and equal answers agree', async () => {
    const { backend, send, errorsOf, figures, live } = await shadowed()
    backend.isHolding = false
    const sent = send({ id: 'one' })
    assert.deepEqual([backend.executed, errorsOf(sent)], [['m/1'], ['']])
    await until(() => figures().compared === 1, 'copies are compared')
    assert.deepEqual(backend.executed, ['m/1', 'm/2'])
    const { disagreed, executions, dropped } = figures()
    assert.deepEqual([disagreed, executions, dropped], [0, 1, {}])
    assert.deepEqual(live.evidence.sums()['agreement'], { test: 'share', events: 0, count: 1, ticks: 0, later: [] })
    assert.deepEqual([live.arms[1]?.ended.success, live.inFlight(1)], [0, 0])
  })

  test('that answers otherwise, or fails, is a disagreement, and the client does not see it', async () => {
    const { backend, send, errorsOf, figures } = await shadowed({ isKeepingInputs: true })
    backend.isHolding = false
    backend.answer = (request) => {
      if (!request.isShadow) answerWithCopy(request)
      else if (request.id === 'broken') request.fail(new ServerError('INTERNAL', 'bad weights'))
      else request.respond(InferenceResponse.of([new Tensor('OUT', 'FP32', [1], new Uint8Array([0, 0, 128, 63]))]))
    }
    const sent = [send({ id: 'other' }), send({ id: 'broken' })]
    await until(() => figures().compared === 2, 'copies are compared')
    assert.deepEqual(sent.map(errorsOf), [[''], ['']])
    const { worst } = figures()
    assert.deepEqual(worst.map(({ requestId }) => requestId).toSorted(), ['broken', 'other'])
    assert.match(JSON.stringify(worst), /the candidate failed: bad weights/)
    assert.deepEqual(worst[0]?.inputs, [{ name: 'IN', datatype: 'FP32', shape: [1], data: 'AAAAAA==' }])
  })

  test('with large outputs is compared in a thread', async () => {
    const { backend, send, figures, live } = await shadowed()
    backend.isHolding = false
    backend.answer = (request) => {
      const bytes = new Uint8Array(1024 * 1024)
      if (request.isShadow && request.id === 'bad') bytes[1_000_003] = 64
      request.respond(InferenceResponse.of([new Tensor('OUT', 'FP32', [bytes.length / 4], bytes)]))
    }
    send({ id: 'good' })
    await turn()
    send({ id: 'bad' })
    await until(() => figures().compared === 2, 'copies are compared')
    assert.deepEqual(
      figures().worst.map(({ requestId }) => requestId),
      ['bad'],
    )
    live.close()
  })

  test('of a request that stable failed, or answered with very much, is not made', async () => {
    const { backend, send, figures } = await shadowed({ maxBytes: 8 })
    backend.isHolding = false
    backend.answer = (request) => {
      if (request.id === 'bad') request.fail(new ServerError('INTERNAL', 'broken'))
      else request.respond(InferenceResponse.of([new Tensor('OUT', 'FP32', [3], new Uint8Array(12))]))
    }
    send({ id: 'bad' })
    send({ id: 'large' })
    await turn()
    assert.deepEqual([backend.executed, figures().dropped], [['m/1', 'm/1'], { stable_failed: 1, too_large: 1 }])
  })

  test('waits until the caller has its answer', async () => {
    const { backend, send, errorsOf, figures } = await shadowed()
    const sent = send()
    for (let i = 0; i < 5; i++) await turn()
    assert.deepEqual(backend.executed, ['m/1'])
    backend.isHolding = false
    for (const { instance } of backend.held.splice(0)) instance.finish()
    assert.deepEqual([backend.executed, errorsOf(sent)], [['m/1'], ['']])
    await until(() => figures().compared === 1, 'copies are compared')
  })

  test('is neither taken from the response cache nor put into it', async () => {
    const { live } = await shadowed()
    const enqueued: string[] = []
    const version = live.arms[1]?.ready()
    assert.ok(version)
    const { FrontScheduler } = await import('../../src/scheduling/front-scheduler.ts')
    class Front extends FrontScheduler {
      protected override admit(): void {
        enqueued.push('front')
      }
    }
    const inner = { enqueue: () => enqueued.push('inner') } as unknown as ConstructorParameters<
      typeof FrontScheduler
    >[1]
    const front = new Front(null as never, inner)
    front.enqueue({ isShadow: true } as InferenceRequest)
    front.enqueue({ isShadow: false } as InferenceRequest)
    assert.deepEqual(enqueued, ['inner', 'front'])
  })
})

describe('a copy is dropped and counted', () => {
  test('when so many run already: a candidate that never answers holds two and no more', async () => {
    const { backend, send, errorsOf, figures } = await shadowed()
    const sent = []
    for (let i = 0; i < 20; i++) {
      sent.push(send())
      await turn()
      for (const { instance, owner } of backend.held.splice(0)) if (owner.startsWith('m/1')) instance.finish()
    }
    assert.deepEqual(
      sent.flatMap(errorsOf),
      sent.map(() => ''),
    )
    assert.deepEqual(figures().dropped, { in_flight: 18 })
    assert.equal(backend.executed.filter((owner) => owner === 'm/2').length, 1)
  })

  test('when its inputs are large, when the server is busy, and when nobody wants it any more', async () => {
    let pressure = 0
    const { backend, send, figures, live } = await shadowed({ maxBytes: 2 }, { pressure: () => pressure })
    backend.isHolding = false
    send()
    assert.deepEqual(figures().dropped, { too_large: 1 })
    live.setShadow(step)
    pressure = 0.9
    send({ inputs: [inputOf(4)] })
    assert.deepEqual(figures().dropped, { too_large: 1, pressure: 1 })
    pressure = 0
    live.setShadow({ ...step, share: 0 })
    send()
    live.setShadow(step)
    live.withdraw()
    send()
    await turn()
    assert.deepEqual([backend.executed.includes('m/2'), figures().compared], [false, 0])
  })
})

test('about as many requests are copied as the share says', async () => {
  const { backend, send, figures } = await shadowed({ share: 1000, maxInFlight: 100 })
  backend.isHolding = false
  for (let i = 0; i < 1000; i++) {
    send()
    if (i % 10 === 0) await turn()
  }
  await until(() => figures().compared + Object.values(figures().dropped).length > 0, 'copies are compared')
  await turn()
  const copied = backend.executed.filter((owner) => owner === 'm/2').length
  assert.ok(Math.abs(copied - 100) < 4 * Math.sqrt(90), String(copied))
})
