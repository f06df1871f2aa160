import assert from 'node:assert/strict'
import test from 'node:test'
import { anonymous, makeCaller, type Caller } from '../access/caller.ts'
import type { Chooser, RequestFacts } from '../model/choice.ts'
import type { RequestHead } from '../model/request-origin.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { ServerError } from '../base/server-error.ts'
import type { FoundModel, PolledModel } from '../repository/model-repository.ts'
import { Tensor } from '../tensor/tensor.ts'
import { engineOnShelf, plainModelText, shelvedModel } from '../../test/fakes/engine-on-shelf.ts'
import type { EngineOptions } from './engine.ts'

/** Answers at once, and tells by name which version did. */
async function engineUnderTest(models: readonly PolledModel[], options: Partial<EngineOptions> = {}) {
  const { engine, backend, shelf } = engineOnShelf(new ManualClock(), models, options)
  backend.isHolding = false
  const { executed } = backend
  await engine.start()
  const ask = (model: string, said: Said = {}, version = ''): string => {
    try {
      return engine.choose(model, version, factsOf(said)).version
    } catch (reason) {
      return ServerError.from(reason).message
    }
  }
  /** The version that answered; '' when none has. */
  const run = (model: string, said: Said = {}, version = ''): string => {
    executed.length = 0
    const inputs = [new Tensor('IN', 'FP32', [1], new Uint8Array(4))]
    const request = new InferenceRequest({ modelName: model, modelVersion: version, inputs, sink: () => undefined })
    engine.infer(request, engine.choose(model, version, factsOf(said)))
    return executed.join()
  }
  return { engine, shelf, executed, ask, run }
}

const polled = (name: string, versions: readonly string[], extra = '', fingerprint = ''): FoundModel =>
  shelvedModel(name, plainModelText(name, `version_policy { all {} } ${extra}`), {
    versions: [...versions],
    fingerprint,
  })

type Said = {
  readonly headers?: Readonly<Record<string, string>>
  readonly caller?: Caller
  readonly head?: () => Partial<RequestHead>
}

const unread = (): never => assert.fail('nobody asked for the head of the request')

const factsOf = ({ headers = {}, caller = anonymous, head = unread }: Said): RequestFacts => ({
  protocol: 'http',
  api: 'inference',
  path: '/',
  peer: '',
  caller,
  watch: null,
  header: (name) => headers[name] ?? null,
  head: () => ({ id: '', parameters: new Map(), correlationId: 0n, isSequenceStart: false, ...head() }),
})

const byHeader: Chooser = (facts, version, model) => model.find(facts.header('x-canary') === 'yes' ? '2' : version)
const byCaller: Chooser = ({ caller }, _version, model) => model.find(caller.principal === 'tester' ? '3' : '1')
const byId: Chooser = (facts, _version, model) => model.find(facts.head().id.startsWith('new-') ? '3' : '2')

test('without a Chooser a request gets the version that it asks for, and nothing of it is read', async () => {
  const { engine, ask, run } = await engineUnderTest([polled('m', ['1', '2', '3'])])
  assert.deepEqual([ask('m'), ask('m', {}, '2')], ['3', '2'])
  assert.equal(engine.choose('m', '', factsOf({})), engine.findVersion('m', ''))
  assert.equal(run('m', {}, '1'), 'm/1')
})

test('a Chooser steers by header, by caller and by id, and is exchanged while the model serves', async () => {
  const { engine, ask, run } = await engineUnderTest([polled('m', ['1', '2', '3']), polled('other', ['1'])])
  engine.setChooser('m', byHeader)
  assert.deepEqual([ask('m', { headers: { 'x-canary': 'yes' } }), ask('m'), ask('m', {}, '1')], ['2', '3', '1'])
  engine.setChooser('m', byCaller)
  const tester = makeCaller('shared-key', 'tester')
  assert.deepEqual([ask('m', { caller: tester }), ask('m')], ['3', '1'])
  engine.setChooser('m', byId)
  assert.deepEqual([ask('m', { head: () => ({ id: 'new-7' }) }), ask('m', { head: () => ({}) })], ['3', '2'])
  assert.equal(run('m', { head: () => ({ id: 'old' }) }), 'm/2', 'the version that was chosen answers')
  assert.equal(ask('other'), '1', 'other models have no Chooser')
  engine.setChooser('m', null)
  assert.equal(run('m'), 'm/3')
})

test('a Chooser sees which versions serve', async () => {
  const { engine, ask } = await engineUnderTest([polled('m', ['1', '2', '3'])])
  engine.setChooser('m', (_facts, _version, model) => model.find(model.readyVersions[0] ?? ''))
  assert.equal(ask('m'), '1')
})

test('metadata and copies that nobody waits for do not ask the Chooser', async () => {
  const { engine, executed } = await engineUnderTest([polled('m', ['1', '2'])])
  engine.setChooser('m', () => assert.fail('asked'))
  assert.equal(engine.findVersion('m', '').version, '2')
  assert.deepEqual(engine.modelMetadata('m', '').versions, ['1', '2'])
  const inputs = [new Tensor('IN', 'FP32', [1], new Uint8Array(4))]
  const request = new InferenceRequest({ modelName: 'm', inputs, sink: () => undefined })
  request.isShadow = true
  engine.inferByName(request)
  assert.deepEqual(executed, ['m/2'])
})

test('a call by another model is chosen by the facts of the client, and by its own parameters', async () => {
  const { engine, executed } = await engineUnderTest([polled('m', ['1', '2', '3'])])
  const inputs = [new Tensor('IN', 'FP32', [1], new Uint8Array(4))]
  const call = (said: Said | null, parameters = new Map<string, string>()): void => {
    const request = new InferenceRequest({ modelName: 'm', inputs, parameters, sink: () => undefined })
    request.origin = said === null ? null : factsOf(said)
    engine.inferByName(request)
  }
  engine.setChooser('m', byHeader)
  call({ headers: { 'x-canary': 'yes' } })
  call(null)
  engine.setChooser('m', (facts, _version, model) => model.find(String(facts.head().parameters.get('wanted') ?? '1')))
  call({ head: () => ({ parameters: new Map([['wanted', '2']]) }) })
  call({ head: () => ({ parameters: new Map([['wanted', '2']]) }) }, new Map([['wanted', '3']]))
  call(null)
  assert.deepEqual(executed, ['m/2', 'm/3', 'm/2', 'm/3', 'm/1'])
})

test('a Chooser that throws fails the one request', async () => {
  const { engine, ask } = await engineUnderTest([polled('m', ['1', '2'])])
  engine.setChooser('m', (facts, version, model) => {
    if (facts.header('x-odd') !== null) throw new ServerError('INVALID_ARG', 'an odd request')
    return model.find(version)
  })
  assert.equal(ask('m', { headers: { 'x-odd': '1' } }), 'an odd request')
  assert.equal(ask('m'), '2')
  engine.setChooser('m', (_facts, _version, model) => model.find('7'))
  assert.equal(ask('m'), "Request for unknown model: 'm' version 7 is not found")
})

test('a Chooser belongs to the name: it is there before the model is loaded, and after a reload', async () => {
  const { engine, shelf, ask } = await engineUnderTest([polled('m', ['1', '2', '3'])])
  engine.setChooser('m', byCaller)
  engine.setChooser('later', byCaller)
  shelf.set('m', polled('m', ['1', '2', '3'], 'max_batch_size: 4', 'changed'))
  shelf.set('later', polled('later', ['1', '2']))
  await engine.load('m')
  await engine.load('later')
  assert.equal(engine.findVersion('m', '').config.maxBatchSize, 4)
  assert.deepEqual([ask('m'), ask('later')], ['1', '1'])
  await (
    await engine.unload('m')
  ).gone
  await engine.load('m')
  assert.equal(ask('m'), '1')
})

test('what was chosen stays chosen when the version is loaded anew before the request is passed on', async () => {
  const { engine, shelf, executed } = await engineUnderTest([polled('m', ['1', '2'])])
  engine.setChooser('m', (_facts, _version, model) => model.find('1'))
  const chosen = engine.choose('m', '', factsOf({}))
  shelf.set('m', polled('m', ['1', '2'], '', 'changed'))
  await engine.load('m')
  assert.notEqual(chosen.state, 'READY')
  const inputs = [new Tensor('IN', 'FP32', [1], new Uint8Array(4))]
  engine.infer(new InferenceRequest({ modelName: 'm', inputs, sink: () => undefined }), chosen)
  assert.deepEqual(executed, ['m/1'])
})

test('a model that sleeps is woken for the version that was chosen', async () => {
  const { engine, executed } = await engineUnderTest([polled('m', ['1', '2'])], { isModelLoadLazy: true })
  engine.setChooser('m', (_facts, _version, model) => model.find('1'))
  const answered = Promise.withResolvers<void>()
  const inputs = [new Tensor('IN', 'FP32', [1], new Uint8Array(4))]
  const request = new InferenceRequest({ modelName: 'm', inputs, sink: () => answered.resolve() })
  engine.infer(request, engine.choose('m', '', factsOf({})))
  assert.deepEqual(executed, [])
  await answered.promise
  assert.deepEqual(executed, ['m/1'])
})
