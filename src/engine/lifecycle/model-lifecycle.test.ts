import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { InferenceRequest, type InferenceRequestFields } from '../../model/inference-request.ts'
import type { FoundModel, PolledModel } from '../../repository/model-repository.ts'
import { ResidencyLedger } from '../../telemetry/residency-ledger.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { EngineOptions } from '../engine.ts'
import { engineOnShelf, plainModelText, shelvedModel } from '../../../test/fakes/engine-on-shelf.ts'

type ModelOptions = { readonly extra?: string; readonly content?: string; readonly instances?: number }

const polled = (name: string, { extra = '', content = '0', instances = 1 }: ModelOptions = {}): FoundModel =>
  shelvedModel(name, plainModelText(name, extra, instances), {
    fingerprint: `${content}/${instances}/${extra}`,
    partFingerprints: new Map([
      ['', content],
      ['1', content],
    ]),
    partBytes: new Map([['1', 10]]),
  })

const parameter = (key: string, value: string): string =>
  `parameters { key: "${key}" value { string_value: "${value}" } }`
const lazy = parameter('lazy', 'true')
const sequences = 'sequence_batching { max_sequence_idle_microseconds: 5000000 }'

function engineUnderTest(models: PolledModel[], options: Partial<EngineOptions> = {}) {
  const clock = new ManualClock()
  const residencyLedger = new ResidencyLedger()
  const settings = { defaultMaxQueueSize: 3, ...options }
  const { engine, backend, log, shelf } = engineOnShelf(clock, models, settings, { residencyLedger })
  const outcomes: string[] = []
  const send = (name: string, fields: Partial<InferenceRequestFields> = {}): InferenceRequest => {
    const request = new InferenceRequest({
      modelName: name,
      inputs: [new Tensor('IN', 'FP32', [1], new Uint8Array(4))],
      sink: ({ error }) => outcomes.push(error === null ? 'ok' : `${error.code} ${error.message}`),
      ...fields,
    })
    engine.infer(request, engine.findVersion(name, ''))
    return request
  }
  const states = (): string[] => engine.index().map(({ name, state }) => `${name} ${state}`)
  return { engine, backend, clock, log, residencyLedger, shelf, outcomes, send, states }
}

const turn = async (): Promise<void> => {
  for (let i = 0; i < 4; i++) await new Promise((resolve) => setImmediate(resolve))
}

test('a lazy model is known but not loaded, counts as ready, and is loaded by its first request', async () => {
  const { engine, backend, send, outcomes, residencyLedger } = engineUnderTest([polled('m', { extra: lazy })])
  await engine.start()
  assert.equal(backend.loadCount, 0)
  assert.deepEqual(engine.index(), [
    {
      name: 'm',
      version: '1',
      state: 'UNAVAILABLE',
      reason: 'not loaded yet: it is lazy, the first request loads it',
    },
  ])
  assert.equal(engine.isReady, true)
  assert.equal(engine.hasFailures, false)
  assert.equal(engine.isModelReady('m', ''), true)
  assert.deepEqual(engine.modelMetadata('m', '').versions, ['1'])
  assert.equal(engine.statistics('m', '')[0]?.executionCount, 0)
  assert.throws(() => engine.findVersion('m', '2'), {
    message: "Request for unknown model: 'm' version 2 is not found",
  })
  send('m')
  send('m')
  await turn()
  assert.equal(backend.loadCount, 1, 'two requests load it once')
  backend.answerAll()
  backend.answerAll()
  assert.deepEqual(outcomes, ['ok', 'ok'])
  assert.deepEqual(
    residencyLedger
      .coldStarts()
      .get('m')
      ?.counts.reduce((a, b) => a + b),
    1,
  )
})

test('a model with thousands of versions loads a few of them at a time, and others are served meanwhile', async () => {
  const versions = Array.from({ length: 1000 }, (_, i) => String(i + 1))
  const { engine, backend } = engineUnderTest([{ ...polled('m', { extra: 'version_policy { all { } }' }), versions }])
  let mostInOneTurn = 0
  let before = 0
  const look = (): void => {
    mostInOneTurn = Math.max(mostInOneTurn, backend.loadCount - before)
    before = backend.loadCount
    if (before < versions.length) setImmediate(look)
  }
  setImmediate(look)
  await engine.start()
  assert.equal(engine.modelMetadata('m', '').versions.length, 1000)
  assert.ok(mostInOneTurn <= 100, `${mostInOneTurn} versions in one turn`)
})

test('requests wait for their model within a bound, and keep their timeouts and their right to be cancelled', async () => {
  const { engine, backend, clock, send, outcomes } = engineUnderTest([polled('m', { extra: lazy })])
  await engine.start()
  backend.gates = []
  const first = send('m')
  send('m', { timeoutUs: 1000n })
  const patient = send('m', { timeoutUs: 9_000_000n })
  send('m')
  assert.match(outcomes.pop() ?? '', /^UNAVAILABLE .*Exceeds maximum queue size$/)
  await turn()
  clock.advanceMs(1)
  assert.deepEqual(outcomes.splice(0), ['UNAVAILABLE Request timeout expired'])
  first.cancel()
  assert.deepEqual(outcomes.splice(0), ['CANCELLED '])
  clock.advanceMs(2999)
  backend.gates.splice(0).forEach((open) => open())
  await turn()
  assert.equal(patient.timeoutUs, 6_000_000n, 'the time it has waited is gone')
  backend.answerAll()
  assert.deepEqual(outcomes, ['ok'])
})

test('a model that cannot be loaded tells every waiting request, and is not tried again by each one that follows', async () => {
  const { engine, backend, clock, send, outcomes, states } = engineUnderTest([polled('m', { extra: lazy })])
  await engine.start()
  backend.failing.add('m')
  send('m')
  send('m')
  await turn()
  assert.equal(outcomes.length, 2)
  assert.match(outcomes[0] ?? '', /^UNAVAILABLE model 'm' could not be loaded for this request: .*no such weights/)
  assert.equal(engine.isModelReady('m', ''), false)
  assert.equal(engine.isReady, true, 'one model that fails on demand does not take the server down')
  assert.deepEqual(states(), ['m UNAVAILABLE'])
  send('m')
  await turn()
  assert.equal(backend.loadCount, 1, 'within the back-off nobody tries')
  assert.equal(outcomes.length, 3)
  clock.advanceMs(1000)
  backend.failing.clear()
  send('m')
  await turn()
  backend.answerAll()
  assert.equal(outcomes.at(-1), 'ok')
})

test('a model without requests for long enough leaves the memory, and comes back with the next one', async () => {
  const { engine, backend, clock, send, outcomes, states, residencyLedger } = engineUnderTest([polled('m')], {
    modelIdleUnloadSecs: 60,
  })
  await engine.start()
  send('m')
  clock.advanceMs(120_000)
  await turn()
  assert.deepEqual(states(), ['m READY'], 'one in use stays')
  backend.answerAll()
  clock.advanceMs(59_000)
  send('m')
  backend.answerAll()
  clock.advanceMs(59_000)
  await turn()
  assert.deepEqual(states(), ['m READY'], 'the time counts from the last request')
  clock.advanceMs(60_000)
  await turn()
  assert.deepEqual(states(), ['m UNAVAILABLE'])
  assert.equal(backend.instances.size, 0)
  assert.deepEqual([...(residencyLedger.evictions().get('m') ?? [])], [['idle', 1]])
  send('m')
  await turn()
  backend.answerAll()
  assert.deepEqual(outcomes, ['ok', 'ok', 'ok'])
})

test('room is made by those used longest ago, never by one in use or kept warm', async () => {
  const models = [
    polled('warm', { extra: parameter('keep_warm', 'true') }),
    polled('a', { extra: lazy }),
    polled('b', { extra: lazy }),
    polled('c', { extra: lazy }),
  ]
  const { engine, backend, clock, send, outcomes, states, residencyLedger } = engineUnderTest(models, {
    modelMemoryLimitBytes: 30,
  })
  await engine.start()
  for (const name of ['a', 'b']) {
    clock.advanceMs(1)
    send(name)
    await turn()
    backend.answerAll()
  }
  clock.advanceMs(1)
  send('a')
  backend.answerAll()
  send('c')
  await turn()
  assert.deepEqual(states(), ['warm READY', 'a READY', 'b UNAVAILABLE', 'c READY'])
  assert.deepEqual([...residencyLedger.evictions().keys()], ['b'])
  // a and c are in use now, so b waits until one of them is not.
  send('a')
  send('b')
  await turn()
  assert.deepEqual(states(), ['warm READY', 'a READY', 'b UNAVAILABLE', 'c READY'])
  assert.deepEqual(backend.answerAll(), ['c/1#4', 'a/1#2'])
  clock.advanceMs(20)
  await turn()
  backend.answerAll()
  assert.deepEqual(new Set(outcomes), new Set(['ok']))
  assert.equal(outcomes.length, 6)
})

test('a model larger than the limit is refused with the figures', async () => {
  const huge = polled('huge', { extra: lazy + parameter('memory_bytes', '1GiB') })
  const { engine, send, outcomes } = engineUnderTest([huge], { modelMemoryLimitBytes: 1000 })
  await engine.start()
  send('huge')
  await turn()
  assert.match(outcomes[0] ?? '', /it needs 1073741824 bytes, 1000 of --model-memory-limit=1000 are free, and alone/)
})

test('models that find no room at start wait for their first request in place of pushing others out', async () => {
  const { engine, backend, states } = engineUnderTest([polled('a'), polled('b'), polled('c')], {
    modelMemoryLimitBytes: 20,
    modelLoadThreadCount: 1,
  })
  await engine.start()
  assert.deepEqual(states(), ['a READY', 'b READY', 'c UNAVAILABLE'])
  assert.equal(backend.loadCount, 2)
  assert.equal(engine.isReady, true)
})

test('a change of the instances alone scales in place: nothing that stays is loaded again', async () => {
  const { engine, backend, shelf, send, outcomes } = engineUnderTest([polled('m')])
  await engine.start()
  send('m')
  const statistics = engine.findVersion('m', '')
  shelf.set('m', polled('m', { instances: 3 }))
  await engine.load('m')
  assert.equal(backend.loadCount, 1)
  assert.deepEqual([...backend.instances], ['m/1#1:0', 'm/1#1:1', 'm/1#1:2'])
  assert.equal(engine.findVersion('m', ''), statistics, 'the version that serves is the same')
  assert.equal(engine.findVersion('m', '').config.instanceGroup[0]?.count, 3)
  send('m')
  send('m')
  assert.equal(backend.held.length, 3, 'the new ones are used')
  shelf.set('m', polled('m', { instances: 1 }))
  await engine.load('m')
  assert.equal(backend.instances.size, 3, 'those that go end what they have begun')
  backend.answerAll()
  await turn()
  assert.equal(backend.instances.size, 1)
  send('m')
  assert.deepEqual(backend.answerAll(), ['m/1#1'])
  assert.deepEqual(outcomes, ['ok', 'ok', 'ok', 'ok'])
  shelf.set('m', polled('m', { content: 'new', instances: 1 }))
  await engine.load('m')
  assert.equal(backend.loadCount, 2, 'other files are loaded')
})

test('a sequence ends on the version it began on, a new one begins on the new version', async () => {
  const { engine, backend, shelf, send, outcomes } = engineUnderTest([polled('m', { extra: sequences })])
  await engine.start()
  send('m', { correlationId: 7n, isSequenceStart: true })
  backend.answerAll()
  shelf.set('m', polled('m', { extra: sequences, content: 'new' }))
  await engine.load('m')
  send('m', { correlationId: 7n })
  send('m', { correlationId: 8n, isSequenceStart: true })
  assert.deepEqual(backend.answerAll().sort(), ['m/1#1', 'm/1#2'])
  assert.equal(backend.instances.size, 2, 'the old version stays for its sequence')
  send('m', { correlationId: 7n, isSequenceEnd: true })
  assert.deepEqual(backend.answerAll(), ['m/1#1'])
  await turn()
  assert.deepEqual([...backend.instances], ['m/1#2:0'])
  send('m', { correlationId: 7n })
  assert.match(outcomes.pop() ?? '', /must specify the START flag/)
  assert.deepEqual(new Set(outcomes), new Set(['ok']))
})

test('a sequence that nobody continues keeps the old version no longer than its idle time', async () => {
  const { engine, backend, clock, shelf, send } = engineUnderTest([polled('m', { extra: sequences })])
  await engine.start()
  send('m', { correlationId: 7n, isSequenceStart: true })
  backend.answerAll()
  shelf.set('m', polled('m', { extra: sequences, content: 'new' }))
  await engine.load('m')
  clock.advanceMs(4999)
  await turn()
  assert.equal(backend.instances.size, 2)
  clock.advanceMs(5000)
  await turn()
  assert.deepEqual([...backend.instances], ['m/1#2:0'])
})

test('a model with a sequence under way is in use: it is not put to sleep', async () => {
  const { engine, backend, clock, send, states } = engineUnderTest(
    [polled('m', { extra: 'sequence_batching { max_sequence_idle_microseconds: 60000000 }' })],
    { modelIdleUnloadSecs: 1 },
  )
  await engine.start()
  send('m', { correlationId: 7n, isSequenceStart: true })
  backend.answerAll()
  clock.advanceMs(10_000)
  await turn()
  assert.deepEqual(states(), ['m READY'])
})

test('what a front end has in hand for a version still comes to it when another takes over', async () => {
  const { engine, backend, shelf, outcomes } = engineUnderTest([polled('m')])
  await engine.start()
  const old = engine.findVersion('m', '')
  const passedOn = engine.expectRequest()
  shelf.set('m', polled('m', { content: 'new' }))
  const reloaded = engine.load('m')
  await turn()
  const request = new InferenceRequest({
    modelName: 'm',
    inputs: [new Tensor('IN', 'FP32', [1], new Uint8Array(4))],
    sink: ({ error }) => outcomes.push(error?.message ?? 'ok'),
  })
  engine.infer(request, old, true)
  passedOn()
  assert.deepEqual(backend.answerAll(), ['m/1#1'])
  await reloaded
  assert.deepEqual(outcomes, ['ok'])
  await turn()
  assert.deepEqual([...backend.instances], ['m/1#2:0'])
})

test('a load does not wait for the requests that a version before it is still working on', async () => {
  const { engine, backend, shelf, send, outcomes } = engineUnderTest([polled('m')])
  await engine.start()
  send('m')
  for (const content of ['b', 'c']) {
    shelf.set('m', polled('m', { content }))
    await engine.load('m')
  }
  assert.deepEqual(backend.answerAll(), ['m/1#1'])
  await turn()
  assert.deepEqual(outcomes, ['ok'])
  assert.deepEqual([...backend.instances], ['m/1#3:0'])
})

test('no more models load at a time than --model-load-thread-count says, whoever asks', async () => {
  const names = ['a', 'b', 'c', 'd']
  const { engine, backend } = engineUnderTest(
    names.map((name) => polled(name)),
    { isModelControlExplicit: true, modelLoadThreadCount: 2 },
  )
  await engine.start()
  const gates: (() => void)[] = []
  backend.gates = gates
  const loads = Promise.all(names.map((name) => engine.load(name)))
  await turn()
  assert.equal(backend.loadCount, 2)
  gates.splice(0).forEach((open) => open())
  await turn()
  assert.equal(backend.loadCount, 4)
  gates.splice(0).forEach((open) => open())
  await loads
})

test('a load of more than two seconds tells that it is alive', async () => {
  const { engine, backend, clock, log } = engineUnderTest([polled('slow')])
  const gates: (() => void)[] = []
  backend.gates = gates
  const started = engine.start()
  await turn()
  clock.advanceMs(2000)
  clock.advanceMs(10_000)
  gates.forEach((open) => open())
  await started
  const lines = log.entries.map(({ message }) => message).filter((message) => /after|loaded 'slow' in/.test(message))
  assert.deepEqual(lines, [
    "still loading 'slow' after 2 s",
    "still loading 'slow' after 12 s",
    "loaded 'slow' in 12 s",
  ])
})

test('unloading a model that sleeps, or is just waking up, ends its requests and leaves nothing behind', async () => {
  const { engine, backend, send, outcomes, states } = engineUnderTest([polled('m', { extra: lazy })])
  await engine.start()
  const gates: (() => void)[] = []
  backend.gates = gates
  send('m')
  await turn()
  const unloaded = engine.unload('m')
  gates.forEach((open) => open())
  await turn()
  backend.answerAll()
  const { gone } = await unloaded
  await gone
  assert.equal(outcomes.length, 1)
  assert.deepEqual(states(), ['m UNAVAILABLE'])
  assert.equal(backend.instances.size, 0)
  assert.throws(() => engine.findVersion('m', ''), { message: /has no available versions/ })
})

test('closing waits for a model that is waking up and answers what waited for it', async () => {
  const { engine, backend, send, outcomes } = engineUnderTest([polled('m', { extra: lazy })])
  await engine.start()
  const gates: (() => void)[] = []
  backend.gates = gates
  send('m')
  await turn()
  const closed = engine.close(1000)
  gates.forEach((open) => open())
  await turn()
  backend.answerAll()
  assert.equal(await closed, true)
  assert.deepEqual(outcomes, ['ok'])
  assert.equal(backend.instances.size, 0)
})

test('an exit does not wait for a load beyond its time', async () => {
  const { engine, backend, clock, outcomes, send } = engineUnderTest([polled('slow', { extra: lazy })])
  await engine.start()
  backend.gates = []
  send('slow')
  await turn()
  assert.equal(backend.gates.length, 1, 'it loads, and will never be done')
  const closed = engine.close(1000)
  await turn()
  clock.advanceMs(1000)
  assert.equal(await closed, false)
  assert.deepEqual(outcomes, ['UNAVAILABLE Server exiting'])
})

test('a model that is unloaded while a request wakes it stays unloaded', async () => {
  const { engine, backend, outcomes, send } = engineUnderTest([polled('m', { extra: lazy })])
  await engine.start()
  send('m')
  const { gone } = await engine.unload('m')
  await gone
  await turn()
  assert.deepEqual(outcomes, ["UNAVAILABLE model 'm' was unloaded"])
  assert.equal(backend.loadCount, 0)
  assert.throws(() => engine.findVersion('m', ''), { code: 'NOT_FOUND' })
  await engine.load('m')
  assert.equal(engine.isModelReady('m', ''), true)
})

test('a second unload is done when the first one is', async () => {
  const { engine, backend, send } = engineUnderTest([polled('m')])
  await engine.start()
  send('m')
  const done: string[] = []
  const first = await engine.unload('m')
  const second = await engine.unload('m')
  void first.gone.then(() => done.push('first'))
  void second.gone.then(() => done.push('second'))
  await turn()
  assert.deepEqual(done, [], 'a request is still under way')
  backend.answerAll()
  await Promise.all([first.gone, second.gone])
  assert.equal(backend.instances.size, 0)
})

test('a model is forgotten once nothing of it serves or ends, and can come back', async () => {
  const { engine, backend, send } = engineUnderTest([polled('m')])
  await engine.start()
  engine.forget('m')
  engine.forget('nobody')
  assert.equal(engine.isModelReady('m', ''), true)
  send('m')
  const { gone } = await engine.unload('m')
  engine.forget('m')
  assert.equal(engine.index().length, 1, 'a request is still under way')
  backend.answerAll()
  await gone
  engine.forget('m')
  assert.deepEqual([engine.index(), engine.isReady], [[], true])
  await engine.load('m')
  assert.equal(engine.isModelReady('m', ''), true)
})

test('a lazy ensemble answers more than once as soon as one of its parts does, before either is loaded', async () => {
  const step = (part: string): string =>
    `platform: "ensemble" ${lazy} ensemble_scheduling { step { model_name: "${part}" model_version: -1
      input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } }`
  const ensemble = (name: string, part: string): PolledModel => {
    const { config, ...found } = polled(name, { extra: step(part) }) as FoundModel
    return { ...found, config: { ...config, backend: '', instanceGroup: [] } }
  }
  const { engine, backend } = engineUnderTest([
    ensemble('outer', 'inner'),
    ensemble('inner', 'many'),
    ensemble('plain', 'one'),
    polled('many', { extra: `${lazy} model_transaction_policy { decoupled: true }` }),
    polled('one', { extra: lazy }),
  ])
  await engine.start()
  assert.equal(backend.loadCount, 0)
  const decoupled = ['outer', 'inner', 'plain'].map((name) => engine.findVersion(name, '').signature.isDecoupled)
  assert.deepEqual(decoupled, [true, true, false])
})
