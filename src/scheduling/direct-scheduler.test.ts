import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { HeldInstance } from '../../test/fakes/held-instance.ts'
import { DirectScheduler } from './direct-scheduler.ts'

function schedulerUnderTest(settings: { instanceCount?: number; maxQueueSize?: number; refusesUnread?: boolean } = {}) {
  const clock = new ManualClock()
  const seen: string[] = []
  const outcomes: string[] = []
  const instances = Array.from({ length: settings.instanceCount ?? 1 }, (_, i) => new HeldInstance(`m_${i}`, seen))
  const scheduler = new DirectScheduler({ clock }, instances, { maxQueueSize: 100, ...settings })
  const send = (id: string, fields: { timeoutUs?: bigint } = {}): InferenceRequest => {
    const sink = (response: InferenceResponse): void => {
      const { error } = response
      outcomes.push(error === null ? `${id} ok` : `${id} ${error.code} ${error.message}`)
    }
    const request = new InferenceRequest({ modelName: 'm', id, inputs: [], sink, ...fields })
    scheduler.enqueue(request)
    return request
  }
  return { clock, scheduler, instances, seen, outcomes, send, first: instances[0] as HeldInstance }
}

test('requests run one per execution, in the order they came', () => {
  const { send, first, seen, outcomes } = schedulerUnderTest()
  for (const id of ['a', 'b', 'c']) send(id)
  assert.deepEqual(seen, ['a'])
  first.finish()
  first.finish()
  first.finish()
  assert.deepEqual(seen, ['a', 'b', 'c'])
  assert.deepEqual(outcomes, ['a ok', 'b ok', 'c ok'])
})

test('an idle instance never waits while a request does', () => {
  const { send, instances, seen, scheduler } = schedulerUnderTest({ instanceCount: 2 })
  for (const id of ['a', 'b', 'c']) send(id)
  assert.deepEqual(seen, ['a', 'b'])
  assert.equal(scheduler.pendingCount, 1)
  instances[1]?.finish()
  assert.deepEqual(seen, ['a', 'b', 'c'])
})

test('of instances that compute several requests at a time, the one that a request suits best gets it', () => {
  const { send, instances, outcomes } = schedulerUnderTest({ instanceCount: 3 })
  const takers: string[] = []
  // Each is idle again at once, as one with room for more.
  for (const [i, instance] of instances.entries()) {
    const given: string[] = []
    instance.isHolding = false
    instance.answer = (request) => {
      given.push(request.id)
      takers.push(`${request.id}${i}`)
      request.respond(InferenceResponse.of([]))
    }
    instance.burden = ({ id }) => given.length - (given.includes(id) ? 2 : 0)
  }
  for (const id of ['a', 'b', 'c', 'd', 'd', 'd', 'd']) send(id)
  assert.deepEqual(takers, ['a0', 'b1', 'c2', 'd2', 'd2', 'd2', 'd1'])
  assert.equal(outcomes.length, 7)
  Object.assign(instances[1] as HeldInstance, { isReady: false })
  send('d')
  assert.equal(takers.at(-1), 'd0', 'the next best, where the best is away')
})

test('a request above the bound of the queue is refused at once, with its id', () => {
  const { send, outcomes, scheduler } = schedulerUnderTest({ maxQueueSize: 1 })
  for (const id of ['a', 'b', 'c']) send(id)
  assert.deepEqual(outcomes, ['c UNAVAILABLE [request id: c] Exceeds maximum queue size'])
  assert.equal(scheduler.pendingCount, 1)
})

test('a full queue is seen at the door, by the tenant that fills it and by no other, and not where requests are read first', () => {
  const { send, first, scheduler } = schedulerUnderTest({ maxQueueSize: 1, refusesUnread: true })
  send('a')
  assert.equal(scheduler.door.isFullFor(''), false)
  send('b')
  assert.deepEqual([scheduler.door.isFullFor(''), scheduler.door.isFullFor('other')], [true, false])
  const refusals = [scheduler.door.turnAwayFromFull(), scheduler.door.turnAwayFromFull()]
  assert.equal(refusals[0], refusals[1])
  assert.match(refusals[0]?.message ?? '', /^Exceeds maximum queue size/)
  assert.equal(scheduler.queue.counts.queue_full, 2)
  first.finish()
  assert.equal(scheduler.door.isFullFor(''), false)
  const triton = schedulerUnderTest({ maxQueueSize: 1 })
  for (const id of ['a', 'b']) triton.send(id)
  assert.equal(triton.scheduler.door.isFullFor(''), false)
})

test('a cancelled request leaves the queue at once and never runs', () => {
  const { send, first, seen, outcomes, scheduler } = schedulerUnderTest()
  send('a')
  send('b').cancel()
  assert.equal(scheduler.pendingCount, 0)
  assert.deepEqual(outcomes, ['b CANCELLED '])
  first.finish()
  assert.deepEqual(seen, ['a'])
})

test('a waiting request whose own timeout passes is refused; one that runs is not', () => {
  const { send, clock, first, outcomes } = schedulerUnderTest()
  send('a', { timeoutUs: 10n })
  send('b', { timeoutUs: 10n })
  send('c', { timeoutUs: 30n })
  clock.advanceUs(9)
  assert.deepEqual(outcomes, [])
  clock.advanceUs(1)
  assert.deepEqual(outcomes, ['b UNAVAILABLE Request timeout expired'])
  first.finish()
  first.finish()
  clock.advanceUs(100)
  assert.deepEqual(outcomes, ['b UNAVAILABLE Request timeout expired', 'a ok', 'c ok'])
  assert.equal(clock.pendingCount, 0)
})

test('requests wait while no instance is ready and run when one comes back', () => {
  const { send, first, seen, scheduler } = schedulerUnderTest()
  first.isReady = false
  send('a')
  assert.deepEqual(seen, [])
  first.isReady = true
  scheduler.instancesChanged()
  assert.deepEqual(seen, ['a'])
})

test('draining refuses new requests, finishes old ones and resolves after the last', async () => {
  const { send, first, scheduler, outcomes } = schedulerUnderTest()
  send('a')
  send('b')
  let isDrained = false
  const drained = scheduler.drain().then(() => (isDrained = true))
  send('late')
  first.finish()
  await Promise.resolve()
  assert.equal(isDrained, false)
  first.finish()
  await drained
  assert.deepEqual(outcomes, [
    'late UNAVAILABLE [request id: late] Server is stopping, scheduler for model has stopped accepting new inference requests',
    'a ok',
    'b ok',
  ])
})

test('closing answers what still waits', async () => {
  const { send, first, scheduler, outcomes } = schedulerUnderTest()
  send('a')
  send('b', { timeoutUs: 5n })
  const drained = scheduler.drain()
  scheduler.close()
  assert.equal(outcomes.length, 1)
  assert.match(outcomes[0] ?? '', /^b UNAVAILABLE .*stopped accepting/)
  first.finish()
  await drained
})

test('an instance that finishes before execute returns does not deepen the stack', () => {
  const outcomes: string[] = []
  const instance = new HeldInstance('inline')
  instance.isHolding = false
  const scheduler = new DirectScheduler({ clock: new ManualClock() }, [instance], { maxQueueSize: Infinity })
  let left = 50_000
  // Each answer brings the next request, as a client in a closed loop does.
  const next = (): void => {
    if (left-- === 0) return
    scheduler.enqueue(
      new InferenceRequest({
        modelName: 'm',
        inputs: [],
        sink: () => {
          outcomes.push('ok')
          if (left % 2 === 0) queueMicrotask(next)
          else next()
        },
      }),
    )
  }
  next()
  return new Promise<void>((resolve) => setImmediate(resolve)).then(() => assert.equal(outcomes.length, 50_000))
})
