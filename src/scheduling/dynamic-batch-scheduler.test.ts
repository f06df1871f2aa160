import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../base/clock.ts'
import type { Instance } from '../model/backend.ts'
import type { Batch } from '../model/batch.ts'
import { InferenceRequest, type InferenceRequestFields } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import type { QueuePolicy } from './batch-queue.ts'
import { DynamicBatchScheduler } from './dynamic-batch-scheduler.ts'

/** Executes when told to; keeps what it was given. */
class HeldInstance implements Instance {
  readonly name = 'held'
  isReady = true
  batch: Batch | null = null
  readonly #seen: string[]

  constructor(seen: string[]) {
    this.#seen = seen
  }
  execute(batch: Batch): void {
    assert.equal(this.batch, null, 'one batch at a time')
    this.batch = batch
    this.#seen.push(batch.requests.map((request) => request.id).join('+'))
  }
  finish(): void {
    const batch = this.batch as Batch
    this.batch = null
    for (const request of batch.requests) request.respond(InferenceResponse.of([]))
    batch.executed()
  }
  close(): Promise<void> {
    return Promise.resolve()
  }
}

type Settings = {
  instanceCount?: number
  maxBatchSize?: number
  delayUs?: number
  levels?: bigint
  policy?: Partial<QueuePolicy>
  policyByLevel?: [bigint, Partial<QueuePolicy>][]
  preservesOrder?: boolean
  defaultMaxQueueSize?: number
}

const policyOf = (from: Partial<QueuePolicy>): QueuePolicy => ({
  timeoutAction: 'REJECT',
  defaultTimeoutNs: 0,
  allowsTimeoutOverride: false,
  maxQueueSize: Infinity,
  ...from,
})

function schedulerUnderTest(settings: Settings = {}) {
  const { maxBatchSize = 8, delayUs = 0, levels = 0n, policy, preservesOrder = false } = settings
  const clock = new ManualClock()
  const seen: string[] = []
  const outcomes: string[] = []
  const turns: (() => void)[] = []
  const instances = Array.from({ length: settings.instanceCount ?? 1 }, () => new HeldInstance(seen))
  const scheduler = new DynamicBatchScheduler({ clock, afterThisTurn: (fire) => turns.push(fire) }, instances, {
    limits: {
      maxBatchSize,
      preferredBatchSizes: new Set(),
      largestPreferredBatchSize: maxBatchSize,
      maxQueueDelayNs: delayUs * 1000,
      canJoin: null,
    },
    queue: {
      priorityLevels: levels,
      defaultPriorityLevel: levels === 0n ? 0n : 2n,
      defaultPolicy: policy === undefined ? null : policyOf(policy),
      policyByLevel: new Map(settings.policyByLevel?.map(([level, from]) => [level, policyOf(from)])),
      defaultMaxQueueSize: settings.defaultMaxQueueSize ?? 100,
    },
    preservesOrder,
  })
  const send = (id: string, rows = 1, fields: Partial<InferenceRequestFields> = {}): InferenceRequest => {
    const sink = (response: InferenceResponse): void => {
      const { error } = response
      outcomes.push(error === null ? `${id} ok` : `${id} ${error.code} ${error.message}`)
    }
    const request = new InferenceRequest({ modelName: 'm', id, inputs: [], sink, ...fields })
    request.batchSize = rows
    scheduler.enqueue(request)
    return request
  }
  const endTurn = (): void => turns.splice(0).forEach((fire) => fire())
  return { clock, scheduler, instances, seen, outcomes, send, endTurn, first: instances[0] as HeldInstance }
}

test('requests of one turn of the loop run together on an idle instance', () => {
  const { send, seen, endTurn } = schedulerUnderTest()
  for (const id of ['a', 'b', 'c']) send(id)
  assert.deepEqual(seen, [])
  endTurn()
  assert.deepEqual(seen, ['a+b+c'])
})

test('a full batch does not wait for the turn to end', () => {
  const { send, seen } = schedulerUnderTest({ maxBatchSize: 2 })
  for (const id of ['a', 'b', 'c']) send(id)
  assert.deepEqual(seen, ['a+b'])
})

test('what waits while the instances are busy runs together when one is free', () => {
  const { send, seen, endTurn, first } = schedulerUnderTest()
  send('a')
  endTurn()
  for (const id of ['b', 'c', 'd']) send(id)
  endTurn()
  first.finish()
  assert.deepEqual(seen, ['a', 'b+c+d'])
})

test('a partial batch leaves once its oldest request has waited the delay, to the microsecond', () => {
  const { send, seen, endTurn, clock } = schedulerUnderTest({ delayUs: 100 })
  send('a', 3)
  endTurn()
  clock.advanceUs(60)
  send('b')
  endTurn()
  clock.advanceUs(39)
  assert.deepEqual(seen, [])
  clock.advanceUs(1)
  assert.deepEqual(seen, ['a+b'])
  assert.equal(clock.pendingCount, 0)
})

test('a higher priority goes first, a level that does not exist is the default one', () => {
  const { send, seen, endTurn, first } = schedulerUnderTest({ maxBatchSize: 1, levels: 3n })
  send('running')
  endTurn()
  send('low', 1, { priority: 3n })
  send('default', 1)
  send('high', 1, { priority: 1n })
  send('beyond', 1, { priority: 9n })
  for (let i = 0; i < 4; i++) first.finish()
  assert.deepEqual(seen, ['running', 'high', 'default', 'beyond', 'low'])
})

test('levels mix in one batch', () => {
  const { send, seen, endTurn } = schedulerUnderTest({ levels: 3n })
  send('low', 1, { priority: 3n })
  send('high', 1, { priority: 1n })
  endTurn()
  assert.deepEqual(seen, ['high+low'])
})

test('each level has its own bound, and a request above it is refused at once', () => {
  const { send, endTurn, outcomes } = schedulerUnderTest({
    maxBatchSize: 1,
    levels: 3n,
    policyByLevel: [[1n, { maxQueueSize: 1 }]],
  })
  send('running')
  endTurn()
  send('a', 1, { priority: 1n })
  send('b', 1, { priority: 1n })
  send('c', 1, { priority: 3n })
  assert.deepEqual(outcomes, ['b UNAVAILABLE [request id: b] Exceeds maximum queue size'])
})

test('a burst of one turn fills idle instances before it is refused', () => {
  const { send, seen, outcomes } = schedulerUnderTest({ maxBatchSize: 8, policy: { maxQueueSize: 1 } })
  for (const id of ['a', 'b', 'c']) send(id)
  assert.deepEqual(seen, ['a'])
  assert.deepEqual(outcomes, ['c UNAVAILABLE [request id: c] Exceeds maximum queue size'])
})

test('REJECT refuses what waited too long; a request may shorten the timeout, never lengthen it', () => {
  const policy = { defaultTimeoutNs: 50_000, allowsTimeoutOverride: true }
  const { send, endTurn, outcomes, clock, first, seen } = schedulerUnderTest({ maxBatchSize: 1, policy })
  send('running')
  endTurn()
  send('short', 1, { timeoutUs: 10n })
  send('default', 1)
  send('long', 1, { timeoutUs: 1000n })
  clock.advanceUs(10)
  assert.deepEqual(outcomes, ['short UNAVAILABLE Request timeout expired'])
  clock.advanceUs(40)
  assert.equal(outcomes.length, 3)
  first.finish()
  assert.deepEqual(seen, ['running'])
  assert.equal(clock.pendingCount, 0)
})

test('a policy without a timeout ignores that of a request; without a policy it counts', () => {
  for (const policy of [{}, undefined]) {
    const { send, endTurn, outcomes, clock } = schedulerUnderTest({ maxBatchSize: 1, ...(policy && { policy }) })
    send('running')
    endTurn()
    send('b', 1, { timeoutUs: 10n })
    clock.advanceUs(10)
    assert.equal(outcomes.length, policy === undefined ? 1 : 0)
  }
})

test('DELAY puts what waited too long behind the others of its level and never refuses it', () => {
  const policy = { timeoutAction: 'DELAY' as const, defaultTimeoutNs: 20_000 }
  const { send, endTurn, clock, first, seen } = schedulerUnderTest({ maxBatchSize: 1, policy })
  send('running')
  endTurn()
  send('late')
  clock.advanceUs(15)
  send('on time')
  clock.advanceUs(5)
  for (let i = 0; i < 3; i++) first.finish()
  assert.deepEqual(seen, ['running', 'on time', 'late'])
})

test('a cancelled request leaves the queue at once and never runs', () => {
  const { send, endTurn, clock, seen, outcomes, scheduler } = schedulerUnderTest({ delayUs: 100 })
  send('a')
  const cancelled = send('b')
  endTurn()
  cancelled.cancel()
  assert.equal(scheduler.pendingCount, 1)
  assert.deepEqual(outcomes, ['b CANCELLED '])
  clock.advanceUs(100)
  assert.deepEqual(seen, ['a'])
})

test('with preserve_ordering a later batch that is done first is answered second', () => {
  const { send, endTurn, instances, outcomes } = schedulerUnderTest({ instanceCount: 2, preservesOrder: true })
  send('a')
  endTurn()
  send('b')
  endTurn()
  instances[1]?.finish()
  assert.deepEqual(outcomes, [])
  instances[0]?.finish()
  assert.deepEqual(outcomes, ['a ok', 'b ok'])
})

test('draining runs what waits for company, refuses what is new and resolves after the last', async () => {
  const { send, endTurn, first, seen, outcomes, scheduler } = schedulerUnderTest({ delayUs: 1e6 })
  send('a')
  endTurn()
  const drained = scheduler.drain()
  send('late')
  assert.deepEqual(seen, ['a'])
  assert.match(outcomes[0] ?? '', /^late UNAVAILABLE \[request id: late\] Server is stopping/)
  first.finish()
  await drained
})

test('closing answers what still waits and leaves no timer behind', () => {
  const { send, endTurn, clock, outcomes, scheduler } = schedulerUnderTest({ delayUs: 100 })
  send('a')
  send('b', 1, { timeoutUs: 50n })
  endTurn()
  scheduler.close()
  assert.equal(outcomes.length, 2)
  assert.equal(clock.pendingCount, 0)
})
