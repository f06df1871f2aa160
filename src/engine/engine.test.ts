import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { ServerError } from '../base/server-error.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import type { PolledModel } from '../repository/model-repository.ts'
import { ModelLedger } from '../telemetry/model-ledger.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { EngineOptions } from './engine.ts'
import { engineOnShelf, plainModelText, shelvedModel } from '../../test/fakes/engine-on-shelf.ts'
import { until } from '../../test/until.ts'

const polled = (name: string, versions: string[], extra = '', fingerprint = versions.join()): PolledModel =>
  shelvedModel(name, plainModelText(name, extra), { versions, fingerprint })

function engineUnderTest(models: PolledModel[], options: Partial<EngineOptions> = {}) {
  const clock = new ManualClock()
  const { engine, backend, log, shelf } = engineOnShelf(clock, models, options)
  const outcomes: string[] = []
  const send = (name: string, version = ''): InferenceRequest => {
    const request = new InferenceRequest({
      modelName: name,
      inputs: [new Tensor('IN', 'FP32', [1], new Uint8Array(4))],
      sink: ({ error }) => outcomes.push(error === null ? 'ok' : `${error.code} ${error.message}`),
    })
    engine.infer(request, engine.findVersion(name, version))
    return request
  }
  return { engine, backend, clock, log, shelf, outcomes, send }
}

test('a request without a version gets the highest that serves', async () => {
  const { engine } = engineUnderTest([polled('m', ['2', '9', '10'], 'version_policy { all {} }')])
  await engine.start()
  assert.equal(engine.findVersion('m', '').version, '10')
  assert.equal(engine.findVersion('m', '9').version, '9')
  assert.deepEqual(engine.modelMetadata('m', '').versions, ['2', '9', '10'])
  assert.deepEqual(engine.modelMetadata('m', '9').versions, ['9'])
})

test('a load tells its instances, and with verbose lines its steps and their times', async () => {
  const { engine, log } = engineUnderTest([polled('m', ['1'], 'instance_group { count: 2 kind: KIND_CPU }')])
  await engine.start()
  const told = (level: string): string[] =>
    log.entries.filter((entry) => entry.level === level).map(({ message }) => message)
  assert.deepEqual(
    told('info').filter((message) => message.startsWith('TRITONBACKEND')),
    ['m_0_0', 'm_0_1', 'm_0'].map((name) => `TRITONBACKEND_ModelInstanceInitialize: ${name} (CPU device 0)`),
  )
  const steps = ['backend found', 'configuration completed and checked', 'model opened by its backend']
  assert.deepEqual(told('verbose'), [...steps, 'instances initialised and warmed up'])
  for (const { fields } of log.entries.filter((entry) => entry.level === 'verbose')) {
    assert.equal(fields['model'], 'm')
    assert.equal(typeof fields['ms'], 'number')
  }
})

test('with histogram_latencies the first responses of every model are counted, over its own bounds', async () => {
  const buckets =
    'model_metrics { metric_control { metric_identifier { family: "nv_inference_first_response_histogram_ms" } histogram_options { buckets: [1, 2] } } }'
  const ledger = new ModelLedger({ hasSummaries: false, hasFirstResponses: true, hasOwnFamilies: false })
  const clock = new ManualClock()
  const { engine, backend } = engineOnShelf(clock, [polled('m', ['1']), polled('n', ['1'], buckets)], {}, { ledger })
  await engine.start()
  for (const modelName of ['m', 'n']) {
    const inputs = [new Tensor('IN', 'FP32', [1], new Uint8Array(4))]
    engine.inferByName(new InferenceRequest({ modelName, inputs, sink: () => undefined }))
    clock.advanceUs(1500)
    backend.answerAll()
  }
  assert.deepEqual(
    [...ledger.entries()].map((entry) => [
      Object.fromEntries(entry.labels)['model'],
      entry.totals().firstResponses?.counts,
    ]),
    [
      ['m', [1, 0, 0, 0, 0]],
      ['n', [1, 0, 0]],
    ],
  )
})

test('the agents that models use are known', async () => {
  const { engine } = engineUnderTest([
    polled('m', ['1'], 'model_repository_agents { agents { name: "checksum" } }'),
    polled('n', ['1']),
  ])
  await engine.start()
  assert.deepEqual(engine.usedAgents, ['checksum'])
})

test('unknown models and versions are refused in Triton’s words', async () => {
  const { engine, backend } = engineUnderTest([polled('m', ['1']), polled('bad', ['1']), polled('empty', [])])
  backend.failing.add('bad/1')
  await engine.start()
  const refusals: [name: string, version: string, code: string, message: string][] = [
    ['empty', '', 'NOT_FOUND', "Request for unknown model: 'empty' has no available versions"],
    ['empty', '1', 'NOT_FOUND', "Request for unknown model: 'empty' version 1 is not found"],
    ['nobody', '', 'NOT_FOUND', "Request for unknown model: 'nobody' is not found"],
    ['m', '7', 'NOT_FOUND', "Request for unknown model: 'm' version 7 is not found"],
    ['bad', '', 'NOT_FOUND', "Request for unknown model: 'bad' has no available versions"],
    ['bad', '1', 'UNAVAILABLE', "Request for unknown model: 'bad' version 1 is not at ready state"],
    [
      'm',
      '99999999999999999999',
      'INVALID_ARG',
      "failed to get model version from specified version string '99999999999999999999' (details: stol), version should be an integral value > 0",
    ],
    ['m', '-3', 'INVALID_ARG', "invalid model version specified '-3' , version should be an integral value > 0"],
  ]
  for (const [name, version, code, message] of refusals) {
    assert.throws(() => engine.findVersion(name, version), { code, message })
  }
})

test('a text that is no version is told before a model that is not there', async () => {
  const { engine } = engineUnderTest([polled('m', ['1'])])
  await engine.start()
  const wrong = { code: 'INVALID_ARG', message: /^failed to get model version from specified version string 'x'/ }
  assert.throws(() => engine.findVersion('nobody', 'x'), wrong)
  assert.throws(() => engine.modelMetadata('nobody', 'x'), wrong)
  assert.throws(() => engine.isModelReady('nobody', 'x'), wrong)
  assert.throws(() => engine.statistics('', 'x'), wrong)
  assert.equal(engine.isModelReady('nobody', '1'), false)
})

test('a model that cannot load takes nobody with it and says why', async () => {
  const unreadable: PolledModel = {
    name: 'torn',
    error: new ServerError('INVALID_ARG', '3:1: expected a field'),
    hints: [],
  }
  const { engine, backend, send, outcomes } = engineUnderTest([polled('m', ['1']), polled('bad', ['1']), unreadable])
  backend.failing.add('bad/1')
  await engine.start()
  assert.deepEqual(
    engine.index().map(({ name, state, reason }) => [name, state, reason]),
    [
      ['m', 'READY', ''],
      ['bad', 'UNAVAILABLE', 'Invalid argument: no such weights'],
      ['torn', 'UNAVAILABLE', '3:1: expected a field'],
    ],
  )
  assert.equal(engine.hasFailures, true)
  assert.equal(engine.isReady, false, 'strict readiness asks for every model')
  send('m')
  backend.answerAll()
  assert.deepEqual(outcomes, ['ok'])
})

test('a model whose instances are lost is not ready, and its requests are told at once instead of waiting', async () => {
  const { engine, backend, send, outcomes } = engineUnderTest([polled('m', ['1'])])
  await engine.start()
  assert.equal(engine.isReady, true)
  backend.loseInstances()
  assert.equal(engine.isReady, false)
  send('m')
  backend.answerAll()
  assert.equal(outcomes.length, 1)
})

test('without strict readiness a failed model does not make the server unready', async () => {
  const { engine, backend } = engineUnderTest([polled('bad', ['1'])], { isStrictReadiness: false })
  backend.failing.add('bad/1')
  assert.equal(engine.isReady, false)
  await engine.start()
  assert.equal(engine.isReady, true)
})

test('to Triton a model that cannot be read is none: with its words the server is ready without it', async () => {
  const torn: PolledModel = { name: 'torn', error: new ServerError('INVALID_ARG', '3:1: expected a field'), hints: [] }
  const triton = engineUnderTest([polled('m', ['1']), torn], { wordsErrorsLikeTriton: true })
  await triton.engine.start()
  assert.equal(triton.engine.isReady, true)
  assert.equal(triton.engine.hasFailures, true)
  const without = engineUnderTest([polled('m', ['1']), polled('empty', [])], { wordsErrorsLikeTriton: true })
  await without.engine.start()
  assert.equal(without.engine.isReady, false, 'a model without a version is one')
  const listed = await without.engine.repositoryIndex(false)
  assert.deepEqual(
    listed.map(({ name }) => name),
    ['m'],
    'and has no versions to list',
  )
})

test('a model whose every instance is down is not ready, and neither is the server', async () => {
  const { engine, backend } = engineUnderTest([polled('m', ['1'])])
  await engine.start()
  assert.equal(engine.isModelReady('m', ''), true)
  const before = engine.revision
  backend.areInstancesReady = false
  assert.equal(engine.isModelReady('m', ''), false)
  assert.equal(engine.isReady, false)
  assert.ok(engine.revision > before)
})

test('explicit control loads what it is told to at start, and a missing model is a failure', async () => {
  const models = [polled('a', ['1']), polled('b', ['1'])]
  const some = engineUnderTest(models, { isModelControlExplicit: true, loadModels: ['b', 'nobody'] })
  await some.engine.start()
  assert.deepEqual(
    some.engine.index().map(({ name, state }) => [name, state]),
    [['b', 'READY']],
  )
  assert.equal(some.engine.hasFailures, true)
  assert.equal(some.engine.startError?.message, "failed to load 'nobody', failed to poll from model repository")
  const all = engineUnderTest(models, { isModelControlExplicit: true, loadModels: ['*'] })
  await all.engine.start()
  assert.equal(all.engine.index().length, 2)
})

test('a failed load is tried again as often as it may be', async () => {
  const { engine, backend, log } = engineUnderTest([polled('bad', ['1'])], { modelLoadRetryCount: 2 })
  backend.failing.add('bad/1')
  await engine.start()
  assert.equal(log.entries.filter(({ message }) => message === 'loading failed, trying again').length, 2)
})

test('every version the policy chose must load, or none of them serves', async () => {
  const { engine, backend } = engineUnderTest([polled('m', ['1', '2'], 'version_policy { all {} }')])
  backend.failing.add('m/2')
  await engine.start()
  assert.equal(engine.isModelReady('m', '1'), false)
  assert.equal(backend.instances.size, 0, 'what had been loaded is freed')
})

test('a reload takes over in one step while requests of the old version end on it', async () => {
  const { engine, backend, shelf, send, outcomes } = engineUnderTest([polled('m', ['1'])])
  await engine.start()
  send('m')
  const oldVersion = engine.findVersion('m', '')
  shelf.set('m', polled('m', ['1', '2']))
  const reloaded = engine.load('m')
  await until(() => engine.findVersion('m', '') !== oldVersion, 'the new version')
  assert.equal(engine.findVersion('m', '').version, '2')
  assert.deepEqual(outcomes, [], 'the old request is still running')
  backend.answerAll()
  await reloaded
  assert.deepEqual(outcomes, ['ok'])
  await until(() => backend.instances.size === 1, 'the old instance to be freed')
  assert.deepEqual([...backend.instances], ['m/2#2:0'])
})

test('a failed reload changes nothing that clients see', async () => {
  const { engine, backend, shelf } = engineUnderTest([polled('m', ['1'])])
  await engine.start()
  shelf.set('m', polled('m', ['2']))
  backend.failing.add('m/2')
  await assert.rejects(engine.load('m'), {
    code: 'INVALID_ARG',
    message: "load failed for model 'm': version 2 is at UNAVAILABLE state: Invalid argument: no such weights;\n",
  })
  assert.equal(engine.findVersion('m', '').version, '1')
  assert.equal(engine.isReady, true)
})

test('with the words of Triton a version that fails beside one that serves is in the index, and the server is not ready', async () => {
  const { engine, backend, shelf } = engineUnderTest([polled('m', ['1'])], { wordsErrorsLikeTriton: true })
  await engine.start()
  shelf.set('m', polled('m', ['2']))
  backend.failing.add('m/2')
  await assert.rejects(engine.load('m'))
  assert.equal(engine.findVersion('m', '').version, '1')
  assert.throws(() => engine.findVersion('m', '2'), { code: 'UNAVAILABLE' })
  assert.equal(engine.isReady, false)
  const reason = 'Invalid argument: no such weights'
  assert.deepEqual(engine.index(), [
    { name: 'm', version: '1', state: 'READY', reason: '' },
    { name: 'm', version: '2', state: 'UNAVAILABLE', reason },
  ])
  backend.failing.add('m/1')
  shelf.set('m', { ...polled('m', ['1']), fingerprint: 'touched' } as PolledModel)
  await engine.load('m').catch(() => undefined)
  assert.equal(engine.findVersion('m', '').version, '1', 'a version that serves keeps its place')
})

test('unload refuses new requests at once and frees the model after the last one in flight', async () => {
  const { engine, backend, send, outcomes } = engineUnderTest([polled('m', ['1'])])
  await engine.start()
  send('m')
  const { gone } = await engine.unload('m')
  assert.throws(() => engine.findVersion('m', ''), {
    message: "Request for unknown model: 'm' has no available versions",
  })
  assert.equal(backend.instances.size, 1)
  backend.answerAll()
  await gone
  assert.deepEqual(outcomes, ['ok'])
  assert.equal(backend.instances.size, 0)
  assert.deepEqual(engine.index(), [{ name: 'm', version: '1', state: 'UNAVAILABLE', reason: 'unloaded' }])
  assert.equal(engine.isReady, true, 'an unloaded model is tolerated')
})

test('loading what no repository has fails as Triton says it', async () => {
  const { engine } = engineUnderTest([])
  await engine.start()
  await assert.rejects(engine.load('nobody'), {
    code: 'INTERNAL',
    message: "failed to load 'nobody', failed to poll from model repository",
  })
})

test('closing waits for requests in flight and answers new ones with "Server exiting"', async () => {
  const { engine, backend, send, outcomes } = engineUnderTest([polled('m', ['1'])])
  await engine.start()
  send('m')
  const closed = engine.close(1000)
  assert.equal(engine.isReady, false)
  assert.equal(engine.isLive, false)
  assert.equal(backend.isClosed, false)
  backend.answerAll()
  assert.equal(await closed, true)
  assert.equal(backend.isClosed, true)
  assert.deepEqual(outcomes, ['ok'])
})

test('closing gives up on requests that outlast the budget, and says so', async () => {
  const { engine, clock, send, outcomes } = engineUnderTest([polled('m', ['1'])])
  await engine.start()
  send('m')
  send('m')
  const closed = engine.close(1000)
  await new Promise((resolve) => setImmediate(resolve))
  clock.advanceMs(1000)
  assert.equal(await closed, false)
  assert.equal(outcomes.length, 1, 'the queued one is answered; the running one is its instance’s to answer')
  assert.match(outcomes[0] ?? '', /^UNAVAILABLE .*stopped accepting/)
})

test('a model of an unknown backend is refused in Triton’s words', async () => {
  const model = polled('m', ['1'])
  if (model.error === null) model.config.backend = 'nothing'
  const { engine } = engineUnderTest([model])
  await engine.start()
  assert.equal(
    engine.index()[0]?.reason,
    "Invalid argument: unable to find backend library for backend 'nothing', try specifying runtime on the model configuration.",
  )
})

test('statistics belong to the versions that serve, and begin anew with a reload', async () => {
  const { engine, backend, clock, shelf, send } = engineUnderTest([
    polled('m', ['1', '2'], 'version_policy { all {} }'),
    polled('a', ['1']),
  ])
  await engine.start()
  clock.advanceMs(1)
  send('m', '1')
  const requests = backend.held[0]?.batch.requests ?? []
  Object.assign(requests[0] as InferenceRequest, { computeStartNs: clock.nowNs() })
  clock.advanceMs(5)
  backend.answerAll()
  const counts = engine.statistics('', '').map((stats) => [stats.name, stats.version, stats.executionCount])
  assert.deepEqual(counts, [
    ['a', '1', 0],
    ['m', '1', 1],
    ['m', '2', 0],
  ])
  const [stats] = engine.statistics('m', '01')
  assert.deepEqual(stats?.inferenceStats.success, { count: 1, ns: 5_000_000n })
  assert.equal(stats.lastInferenceMs, clock.wallMs())
  shelf.set('m', polled('m', ['1', '2'], 'version_policy { all {} }', 'changed'))
  await engine.load('m')
  assert.equal(engine.statistics('m', '1')[0]?.inferenceStats.success.count, 0)
  await (
    await engine.unload('m')
  ).gone
  assert.throws(() => engine.statistics('m', ''), { message: "requested model 'm' is not available" })
})

test('a request that is refused before it is admitted counts nowhere', async () => {
  const { engine } = engineUnderTest([polled('m', ['1'])])
  await engine.start()
  engine.infer(new InferenceRequest({ modelName: 'm', inputs: [], sink: () => undefined }), engine.findVersion('m', ''))
  const [stats] = engine.statistics('m', '')
  assert.equal(stats?.inferenceStats.fail.count, 0)
})
