import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { makeCaller } from '../access/caller.ts'
import type { PreparedBatch } from '../model/batch.ts'
import type { Batch } from '../model/batch.ts'
import type { BatchPadding } from '../config/batch-padding.ts'
import { InferenceRequest, type InferenceRequestFields } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { Tensor } from '../tensor/tensor.ts'
import { HeldInstance } from '../../test/fakes/held-instance.ts'
import type { QueuePolicy } from './batch-queue.ts'
import { DynamicBatchScheduler } from './dynamic-batch-scheduler.ts'

type Settings = {
  instanceCount?: number
  maxBatchSize?: number
  delayUs?: number
  levels?: bigint
  policy?: Partial<QueuePolicy>
  policyByLevel?: [bigint, Partial<QueuePolicy>][]
  preservesOrder?: boolean
  defaultMaxQueueSize?: number
  sloMs?: number
  padding?: BatchPadding
  heldCount?: number
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
  const instances = Array.from({ length: settings.instanceCount ?? 1 }, () => new HeldInstance('held', seen))
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
    refusesUnread: true,
    padding: settings.padding ?? null,
    startHold: settings.heldCount === undefined ? null : { requestCount: settings.heldCount, backlogCount: 0 },
    sloNs: settings.sloMs === undefined ? null : settings.sloMs * 1e6,
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

test('a held start waits for its number of requests, and later requests for nothing', () => {
  const { send, seen, endTurn, clock, first } = schedulerUnderTest({ maxBatchSize: 2, delayUs: 100, heldCount: 3 })
  send('a')
  send('b')
  endTurn()
  clock.advanceUs(1000)
  assert.deepEqual(seen, [], 'neither a full batch nor the delay starts it')
  send('c')
  endTurn()
  first.finish()
  clock.advanceUs(100)
  assert.deepEqual(seen, ['a+b', 'c'])
  first.finish()
  send('d', 2)
  assert.deepEqual(seen, ['a+b', 'c', 'd'])
})

test('a held start does not keep the server from stopping', async () => {
  const { send, seen, endTurn, scheduler, first } = schedulerUnderTest({ heldCount: 3 })
  send('a')
  endTurn()
  const drained = scheduler.drain()
  first.finish()
  await drained
  assert.deepEqual(seen, ['a'])
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

test('a batch whose alarm comes early leaves then, and the next one waits for its own delay', () => {
  const { clock, send, endTurn, seen, first } = schedulerUnderTest({ delayUs: 400 })
  clock.earliness = 1
  send('a')
  endTurn()
  clock.advanceUs(349)
  assert.deepEqual(seen, [])
  clock.advanceUs(1)
  assert.equal(seen.length, 1)
  first.finish()
  send('b')
  endTurn()
  clock.advanceUs(349)
  assert.equal(seen.length, 1)
  clock.advanceUs(1)
  assert.equal(seen.length, 2)
  assert.equal(clock.pendingCount, 0)
})

test('a higher priority goes first, a level that does not exist is the default one, and what nobody waits for is last', () => {
  const { send, seen, endTurn, first } = schedulerUnderTest({ maxBatchSize: 1, levels: 3n })
  send('running')
  endTurn()
  send('job', 1, { priority: 1n, caller: makeCaller('anonymous', '', { isBackground: true }) })
  send('low', 1, { priority: 3n })
  send('default', 1)
  send('high', 1, { priority: 1n })
  send('beyond', 1, { priority: 9n })
  for (let i = 0; i < 5; i++) first.finish()
  assert.deepEqual(seen, ['running', 'high', 'default', 'beyond', 'job', 'low'])
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

test('the door is shut by a full queue, not by a burst of this turn, and priorities keep it open', () => {
  const { send, endTurn, scheduler } = schedulerUnderTest({ maxBatchSize: 1, policy: { maxQueueSize: 1 }, delayUs: 10 })
  send('running')
  endTurn()
  assert.equal(scheduler.door.isFullFor(''), false)
  send('waiting')
  assert.deepEqual([scheduler.door.isFullFor(''), scheduler.door.isFullFor('other')], [true, false])
  const burst = schedulerUnderTest({ maxBatchSize: 8, policy: { maxQueueSize: 1 } })
  burst.send('a')
  assert.equal(burst.scheduler.door.isFullFor(''), false)
  const levels = schedulerUnderTest({ maxBatchSize: 1, levels: 3n, policy: { maxQueueSize: 1 } })
  levels.send('running')
  levels.endTurn()
  levels.send('waiting')
  assert.equal(levels.scheduler.door.isFullFor(''), false)
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

class Prepared implements PreparedBatch {
  readonly ids: string
  isDropped = false

  constructor(requests: readonly InferenceRequest[]) {
    this.ids = idsOf(requests)
  }

  drop(): void {
    this.isDropped = true
  }
}

const idsOf = (requests: readonly InferenceRequest[]): string => requests.map((request) => request.id).join('+')

test('a full batch is prepared while every instance is busy, and runs with what was prepared', () => {
  const { instances, send, endTurn } = schedulerUnderTest({ maxBatchSize: 2 })
  const [instance] = instances as [HeldInstance]
  instance.prepare = (requests) => new Prepared(requests)
  send('a', 2)
  endTurn()
  assert.equal(instance.batch?.prepared, null)
  send('b')
  endTurn()
  send('c')
  send('d')
  endTurn()
  instance.finish()
  assert.equal(idsOf(instance.batch?.requests ?? []), 'b+c')
  const { prepared } = instance.batch as Batch
  assert.ok(prepared instanceof Prepared && prepared.ids === 'b+c' && !prepared.isDropped)
  instance.finish()
  assert.equal(instance.batch?.prepared, null, 'd alone was no full batch')
})

test('what was prepared for requests of which one has left is dropped', () => {
  const { instances, send, endTurn, seen } = schedulerUnderTest({ maxBatchSize: 2 })
  const [instance] = instances as [HeldInstance]
  const made: Prepared[] = []
  instance.prepare = (requests) => made[made.push(new Prepared(requests)) - 1] as Prepared
  send('a', 2)
  endTurn()
  const leaving = send('b')
  send('c')
  send('d')
  endTurn()
  leaving.cancel()
  endTurn()
  instance.finish()
  assert.deepEqual(seen, ['a', 'c+d'])
  assert.equal(instance.batch?.prepared, null)
  assert.deepEqual(
    made.map(({ ids, isDropped }) => [ids, isDropped]),
    [['b+c', true]],
  )
})

test('inputs of one bucket run together, filled up in one buffer, and the requests keep their own answers', () => {
  const padding: BatchPadding = {
    inputs: [{ name: 'X', dataType: 'UINT8', axis: 1, fill: Uint8Array.of(9), buckets: [4] }],
    outputs: [{ name: 'X', axis: 1, input: 'X' }],
  }
  const { instances, send, endTurn } = schedulerUnderTest({ maxBatchSize: 2, padding })
  const answers: Tensor[] = []
  const input = (...values: number[]) => ({
    inputs: [new Tensor('X', 'UINT8', [1, values.length], Uint8Array.from(values))],
    sink: (response: InferenceResponse) => void answers.push(...response.outputs),
  })
  send('a', 1, input(1, 2, 3))
  send('b', 1, input(4))
  endTurn()
  const [instance] = instances as [HeldInstance]
  const { batch } = instance
  const [a, b] = batch?.requests.map((request) => request.inputs[0]) ?? []
  assert.deepEqual([a?.shape, [...(a?.bytes ?? [])]], [[1, 4], [1, 2, 3, 9]]) // prettier-ignore
  assert.deepEqual([b?.shape, [...(b?.bytes ?? [])]], [[1, 4], [4, 9, 9, 9]]) // prettier-ignore
  assert.equal(b?.bytes.byteOffset, (a?.bytes.byteOffset ?? 0) + 4, 'a backend that gathers them finds them in a row')
  for (const request of batch?.requests ?? []) request.respond(InferenceResponse.of(request.inputs))
  assert.deepEqual(answers.map(({ shape, bytes }) => [shape, [...bytes]]), [[[1, 3], [1, 2, 3]], [[1, 1], [4]]]) // prettier-ignore
})

test('with a latency target a request waits for nobody until the model is known to be too busy for that', () => {
  const { clock, instances, send, endTurn, seen } = schedulerUnderTest({ maxBatchSize: 8, sloMs: 50 })
  const [instance] = instances as [HeldInstance]
  // Ten milliseconds per execution, whatever its size, and a request every twelve: one at a time is too busy.
  for (let i = 0; i < 12; i++) {
    send(`r${i}`)
    endTurn()
    clock.advanceMs(10)
    if (instance.batch !== null) instance.finish()
    endTurn()
    clock.advanceMs(2)
  }
  assert.equal(seen[0], 'r0')
  assert.ok(
    seen.some((ids) => ids.includes('+')),
    seen.join(),
  )
})

test('requests that are done and wait for a slow one count, and above the bound no more are admitted', () => {
  const { instances, send, endTurn, outcomes } = schedulerUnderTest({
    instanceCount: 2,
    maxBatchSize: 1,
    preservesOrder: true,
    defaultMaxQueueSize: 2,
  })
  send('slow')
  endTurn()
  const fast = instances.find((instance) => instance.batch === null) as HeldInstance
  for (const id of ['a', 'b']) {
    send(id)
    endTurn()
    fast.finish()
  }
  send('c')
  assert.match(outcomes.join(), /^c UNAVAILABLE .*Exceeds maximum queue size$/)
  instances.find((instance) => instance.batch !== null)?.finish()
  assert.deepEqual(outcomes.slice(1), ['slow ok', 'a ok', 'b ok'])
  send('d')
  endTurn()
  assert.equal(outcomes.length, 4)
})
