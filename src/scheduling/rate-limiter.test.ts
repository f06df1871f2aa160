import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import { DirectScheduler } from './direct-scheduler.ts'
import { RateLimiter, type InstanceClaim } from './rate-limiter.ts'
import { HeldInstance } from '../../test/fakes/held-instance.ts'

function limiterUnderTest(given: Record<string, number> | null = null) {
  const limiter = new RateLimiter(given === null ? null : new Map(Object.entries(given)))
  const running: string[] = []
  const instances = new Map<string, HeldInstance>()
  /** One model with one instance that executes until it is told to finish. */
  const model = (name: string, count: number, claim: Partial<InstanceClaim & { isGlobal: boolean }> = {}) => {
    const { priority = 1, deviceId = 0, isGlobal = false } = claim
    const instance = new HeldInstance(name, running)
    instance.describe = () => name
    instances.set(name, instance)
    const limited = limiter.limit(instance, { resources: [{ name: 'R', count, isGlobal }], priority, deviceId })
    const scheduler = new DirectScheduler({ clock: new ManualClock() }, [limited], { maxQueueSize: 100 })
    limited.wake = () => scheduler.instancesChanged()
    return (): InferenceRequest => {
      const request = new InferenceRequest({ modelName: name, inputs: [], sink: () => undefined })
      scheduler.enqueue(request)
      return request
    }
  }
  const finish = async (name: string): Promise<void> => {
    running.splice(running.indexOf(name), 1)
    instances.get(name)?.finish()
    await Promise.resolve()
  }
  return { model, running, finish, limiter }
}

test('without given resources each is as large as its largest claim', async () => {
  const { model, running, finish } = limiterUnderTest()
  const [a, b] = [model('a', 2), model('b', 2)]
  a()
  b()
  assert.deepEqual(running, ['a'])
  await finish('a')
  assert.deepEqual(running, ['b'])
})

test('what fits runs at the same time', () => {
  const { model, running } = limiterUnderTest({ R: 3 })
  for (const send of [model('a', 1), model('b', 2), model('c', 1)]) send()
  assert.deepEqual(running, ['a', 'b'])
})

test('devices have their own resources, a global one is shared by all', () => {
  const own = limiterUnderTest({ R: 1 })
  for (const deviceId of [0, 1]) own.model(`m${deviceId}`, 1, { deviceId })()
  assert.deepEqual(own.running, ['m0', 'm1'])
  const shared = limiterUnderTest({ R: 1 })
  for (const deviceId of [0, 1]) shared.model(`m${deviceId}`, 1, { deviceId, isGlobal: true })()
  assert.deepEqual(shared.running, ['m0'])
})

test('the fewest executions × priority go first', async () => {
  const { model, running, finish } = limiterUnderTest({ R: 1 })
  const often = model('often', 1, { priority: 1 })
  const seldom = model('seldom', 1, { priority: 3 })
  for (let i = 0; i < 8; i++) {
    often()
    seldom()
  }
  const order: string[] = []
  while (running.length > 0) {
    const [name = ''] = running
    order.push(name)
    await finish(name)
  }
  assert.equal(order.length, 16)
  assert.ok(order.slice(0, 8).filter((name) => name === 'often').length >= 5, order.join(' '))
  // Both count the load and the warm-up: 2 × 1 and 2 × 3.
  assert.deepEqual(order.slice(0, 4), Array(4).fill('often'))
})

test('small claims do not starve a large one', async () => {
  const { model, running, finish } = limiterUnderTest({ R: 2 })
  const [a, b, large] = [model('a', 1), model('b', 1), model('large', 2)]
  for (let i = 0; i < 5; i++) {
    a()
    b()
  }
  large()
  for (let i = 0; i < 4 && !running.includes('large'); i++) await finish(running[0] as string)
  assert.ok(running.includes('large'))
})

test('one whose request is cancelled while it stands in line holds nobody back', async () => {
  const { model, running, finish } = limiterUnderTest({ R: 3 })
  const [holder, small, large] = [model('holder', 1), model('small', 1), model('large', 3)]
  small()
  await finish('small')
  holder()
  const first = large()
  // It would fit, but has run more often than the one that waits.
  small()
  assert.deepEqual(running, ['holder'])
  first.cancel()
  await Promise.resolve()
  assert.deepEqual(running, ['holder', 'small'])
})

test('a claim above what there is can never run, and is refused at load', () => {
  const { model } = limiterUnderTest({ R: 1 })
  assert.throws(() => model('a', 2), {
    message:
      'Resource count for "R" is limited to 1 which will prevent scheduling of one or more model instances, the minimum required count is 2',
  })
})

test('a resource cannot be global in one claim and of a device in another', () => {
  const { model } = limiterUnderTest()
  model('a', 1)
  assert.throws(() => model('b', 1, { isGlobal: true }), {
    code: 'INVALID_ARG',
    message: 'Resource "R" is present as both global and device-specific resource in the model configuration.',
  })
  model('c', 1)
})

test('a count that is given for a device holds for a global resource too', () => {
  const { model, running } = limiterUnderTest({ 'R:0': 2, 'R:1': 3 })
  for (const send of [model('a', 3, { isGlobal: true }), model('b', 1, { isGlobal: true })]) send()
  assert.deepEqual(running, ['a'])
  assert.throws(() => model('c', 4, { isGlobal: true }), /limited to 3/)
})
