import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { ServerError } from '../base/server-error.ts'
import { InferenceRequest, type InferenceRequestFields } from './inference-request.ts'
import { InferenceResponse } from './inference-response.ts'
import type { Scheduler } from './scheduler.ts'
import { Tensor } from '../tensor/tensor.ts'
import { LocalResponseCache } from '../engine/cache/local-response-cache.ts'
import { cacheKey, cacheKeyInSlices, type CachedModel } from './response-cache.ts'
import { SystemClock } from '../base/clock.ts'
import { until } from '../../test/until.ts'
import { SingleFlightScheduler } from '../scheduling/single-flight-scheduler.ts'
import { ResponseCacheScheduler } from '../scheduling/response-cache-scheduler.ts'

const model = { config: { name: 'm' }, files: { version: '1' } } as CachedModel

const tensor = (name: string, bytes: readonly number[], shape = [bytes.length]): Tensor =>
  new Tensor(name, 'UINT8', shape, Uint8Array.from(bytes))

const request = (inputs: Tensor[], fields: Partial<InferenceRequestFields> = {}): InferenceRequest =>
  new InferenceRequest({ modelName: 'm', inputs, sink: () => undefined, ...fields })

const answerOf = (bytes: number): InferenceResponse =>
  InferenceResponse.of([new Tensor('Y', 'UINT8', [bytes], new Uint8Array(bytes))])

test('the key covers names, types, shapes, bytes, wanted outputs, parameters and the load of the model', () => {
  const base = (): InferenceRequest => request([tensor('A', [1, 2]), tensor('B', [3])])
  const key = cacheKey('m', base())
  assert.equal(cacheKey('m', base()), key)
  assert.equal(
    cacheKey('m', request([tensor('B', [3]), tensor('A', [1, 2])], { id: 'x' })),
    key,
    'order and id do not count',
  )
  const others = [
    cacheKey('n', base()),
    cacheKey('m', request([tensor('A', [1]), tensor('B', [2, 3])])),
    cacheKey('m', request([tensor('A', [1, 2], [1, 2]), tensor('B', [3])])),
    cacheKey('m', request([tensor('A', [1, 9]), tensor('B', [3])])),
    cacheKey('m', request([tensor('A', [1, 2]), tensor('C', [3])])),
    cacheKey('m', request([new Tensor('A', 'INT8', [2], Uint8Array.of(1, 2)), tensor('B', [3])])),
    cacheKey('m', request([tensor('A', [1, 2]), tensor('B', [3])], { requestedOutputs: ['Y'] })),
    cacheKey('m', request([tensor('A', [1, 2]), tensor('B', [3])], { parameters: new Map([['k', 1n]]) })),
    cacheKey('m', request([tensor('A', [1, 2]), tensor('B', [3])], { parameters: new Map([['k', '1']]) })),
  ]
  assert.equal(new Set([key, ...others]).size, others.length + 1)
})

test('the cache never holds more than its bytes, and what was used longest ago goes first', () => {
  const cache = new LocalResponseCache(3 * (512 + 256 + 100))
  for (const key of ['a', 'b', 'c']) cache.insert(key, answerOf(100))
  assert.notEqual(cache.lookup('a'), null)
  cache.insert('d', answerOf(100))
  assert.equal(cache.lookup('b'), null)
  assert.notEqual(cache.lookup('a'), null)
  assert.equal(cache.evictionCount, 1)
  const operation = fc.record({ key: fc.nat(9), bytes: fc.nat(4000) })
  fc.assert(
    fc.property(fc.array(operation), fc.nat(6000), (operations, maxBytes) => {
      const small = new LocalResponseCache(maxBytes)
      for (const { key, bytes } of operations) {
        small.insert(String(key), answerOf(bytes))
        assert.ok(small.byteSize <= maxBytes)
      }
      small.dropPrefix('')
      assert.equal(small.byteSize, 0)
    }),
  )
})

test('the parameters of an answer count, which a model may have from its client', () => {
  const cache = new LocalResponseCache(1e6)
  cache.insert('a', InferenceResponse.of([], { parameters: new Map([['text', 'x'.repeat(300_000)]]) }))
  assert.ok(cache.byteSize > 600_000)
})

test('the answers of an unloaded model leave a few at a time, and no others do', async () => {
  const cache = new LocalResponseCache(1e9)
  for (let i = 0; i < 50_000; i++) cache.insert(`${i % 2 === 0 ? 'old' : 'new'} ${i}`, answerOf(1))
  cache.dropPrefix('old ')
  assert.ok(cache.entryCount > 40_000)
  for (let i = 1; i < 20_000; i += 2) assert.notEqual(cache.lookup(`new ${i}`), null)
  await until(() => cache.entryCount === 25_000, 'the old answers to leave')
  assert.equal(cache.byteSize, 25_000 * (512 + 256 + 1))
})

function schedulerUnderTest() {
  const cache = new LocalResponseCache(1e6)
  const waiting: InferenceRequest[] = []
  const inner: Scheduler = {
    enqueue: (queued) => void waiting.push(queued),
    pendingCount: 0,
    instancesChanged: () => undefined,
    drain: () => Promise.resolve(),
    close: () => undefined,
  }
  const dependencies = { clock: new ManualClock(), cache }
  const scheduler = new ResponseCacheScheduler(dependencies, inner, cache.prefixFor(model))
  const answers: InferenceResponse[] = []
  const send = (bytes: readonly number[]): InferenceRequest => {
    const sent = request([tensor('A', bytes)], { sink: (response) => void answers.push(response) })
    scheduler.enqueue(sent)
    return sent
  }
  return { cache, waiting, answers, send, inner, dependencies, scheduler }
}

test('a request that comes again is answered with a copy, and is marked as a hit', () => {
  const { waiting, answers, send } = schedulerUnderTest()
  const memory = Uint8Array.of(7)
  send([1])
  waiting.pop()?.respond(InferenceResponse.of([new Tensor('Y', 'UINT8', [1], memory)]))
  // The model's memory is used for something else as soon as the client has its answer.
  memory[0] = 0
  const again = send([1])
  assert.ok(again.isCacheHit)
  assert.deepEqual([...(answers[1]?.outputs[0]?.bytes ?? [])], [7])
  assert.equal(waiting.length, 0)
  assert.ok(!send([2]).isCacheHit)
})

test('errors are not kept, and a model that is loaded anew answers anew', () => {
  const { waiting, send, inner, dependencies, cache, scheduler } = schedulerUnderTest()
  send([1])
  waiting.pop()?.fail(new ServerError('INTERNAL', 'no'))
  assert.ok(!send([1]).isCacheHit)
  waiting.pop()?.respond(answerOf(1))
  assert.ok(send([1]).isCacheHit)
  const reloaded = new ResponseCacheScheduler(dependencies, inner, cache.prefixFor(model))
  const asked = request([tensor('A', [1])])
  reloaded.enqueue(asked)
  assert.ok(!asked.isCacheHit)
  scheduler.close()
  assert.equal(cache.entryCount, 0)
})

test('the log says once that an answer is too large for the cache, and the answer goes out', () => {
  const { inner, waiting } = schedulerUnderTest()
  const log = new MemoryLog()
  const cache = new LocalResponseCache(1000)
  const scheduler = new ResponseCacheScheduler({ clock: new ManualClock(), cache, log }, inner, 'p ')
  for (const bytes of [100, 1000, 1000]) {
    const asked = request([tensor('A', [bytes % 256, waiting.length])])
    scheduler.enqueue(asked)
    waiting.at(-1)?.respond(answerOf(bytes))
    assert.ok(asked.isEnded)
  }
  const said = log.entries.map(({ level, message }) => [level, message.replace(/\[.*?\]/, '[K]')])
  assert.deepEqual(said, [
    [
      'warning',
      "Failed to insert key [K] into response cache: the answer takes 1768 bytes, and the cache has 1000 (--cache-config=local,size=…). Further answers of model 'm' that are too large are not told.",
    ],
  ])
})

test('large inputs are hashed in slices, to the same key, and requests keep their order', async () => {
  const clock = new SystemClock()
  const large = (fill: number): Tensor => new Tensor('A', 'UINT8', [12e6], new Uint8Array(12e6).fill(fill))
  const keyed = cacheKeyInSlices(clock, 'm', request([large(1), tensor('B', [3])]))
  assert.ok(keyed instanceof Promise)
  assert.equal(await keyed, cacheKey('m', request([tensor('B', [3]), large(1)])))
  const order: string[] = []
  const inner = { enqueue: ({ id }: InferenceRequest) => order.push(id), pendingCount: 0 } as unknown as Scheduler
  const cache = new LocalResponseCache(1e6)
  const scheduler = new ResponseCacheScheduler({ clock, cache }, inner, 'm')
  const single = new SingleFlightScheduler({ clock }, inner)
  for (const front of [scheduler, single]) {
    order.length = 0
    for (const [id, input] of [
      ['a', large(2)],
      ['b', tensor('A', [1])],
      ['c', large(3)],
      ['d', tensor('A', [2])],
    ] as const) {
      front.enqueue(request([input], { id }))
    }
    await until(() => order.length === 4, 'all four requests')
    assert.deepEqual(order, ['a', 'b', 'c', 'd'])
  }
})
