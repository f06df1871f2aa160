import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { until } from '../../../test/until.ts'
import { ServerError } from '../../base/server-error.ts'
import { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import type { FoundModel } from '../../repository/model-repository.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { engineOnShelf, shelvedModel } from '../../../test/fakes/engine-on-shelf.ts'

const tensors = `input { name: "IN" data_type: TYPE_UINT8 dims: 1 } output { name: "OUT" data_type: TYPE_UINT8 dims: 1 }`

const plain = (name: string): FoundModel =>
  shelvedModel(name, `backend: "fake" ${tensors} instance_group { kind: KIND_CPU count: 1 }`)

/** Calls one model after the other. */
function ensemble(name: string, ...parts: string[]): FoundModel {
  const tensor = (index: number): string => (index === 0 ? 'IN' : index === parts.length ? 'OUT' : `T${index}`)
  const steps = parts.map(
    (part, i) =>
      `step { model_name: "${part}" model_version: -1 input_map { key: "IN" value: "${tensor(i)}" } output_map { key: "OUT" value: "${tensor(i + 1)}" } }`,
  )
  return shelvedModel(name, `platform: "ensemble" ${tensors} ensemble_scheduling { ${steps.join(' ')} }`)
}

function engineUnderTest(models: FoundModel[], loadModels: string[] | null = null) {
  const control = { isModelControlExplicit: loadModels !== null, loadModels: loadModels ?? [] }
  const { engine, backend, shelf } = engineOnShelf(new ManualClock(), models, control)
  backend.isHolding = false
  backend.failureCode = 'INTERNAL'
  const outcomes: string[] = []
  const send = (name: string): void => {
    const sink = ({ error, outputs }: InferenceResponse): void =>
      void outcomes.push(error === null ? `ok ${outputs[0]?.bytes[0]}` : `${error.code} ${error.message}`)
    engine.inferByName(
      new InferenceRequest({ modelName: name, inputs: [new Tensor('IN', 'UINT8', [1], Uint8Array.of(7))], sink }),
    )
  }
  const ready = (): string[] => [...engine.models()].map(({ name }) => name).sort()
  return { engine, backend, shelf, outcomes, send, ready }
}

test('ensembles load after the models they call, however deep, and serve through them', async () => {
  const models = [ensemble('a', 'b', 'x'), ensemble('b', 'x', 'y'), plain('x'), plain('y')]
  const { engine, send, outcomes, ready } = engineUnderTest(models)
  await engine.start()
  assert.deepEqual(ready(), ['a', 'b', 'x', 'y'])
  assert.equal(engine.isReady, true)
  send('a')
  assert.deepEqual(outcomes, ['ok 7'])
  assert.deepEqual(engine.findVersion('a', '').config.modelTransactionPolicy, { decoupled: false })
  await engine.close()
})

test('an ensemble that cannot serve says why, keeps nobody else from it, and has no version', async () => {
  const models = [
    ensemble('a', 'x'),
    ensemble('c', 'd'),
    ensemble('d', 'c'),
    ensemble('m', 'nobody'),
    plain('x'),
    plain('y'),
  ]
  const { engine, backend, ready } = engineUnderTest(models)
  backend.failing.add('x')
  await engine.start()
  assert.deepEqual(ready(), ['y'])
  const reasons = new Map(engine.index().map(({ name, reason }) => [name, reason]))
  assert.equal(
    reasons.get('a'),
    "ensemble 'a' depends on 'x' which has no loaded version. Model 'x' loading failed with error: version 1 is at UNAVAILABLE state: Internal: no such weights;",
  )
  assert.equal(reasons.get('c'), 'circular dependency between ensembles: c -> ... -> d -> c')
  assert.equal(reasons.get('m'), 'ensemble m contains models that are not available or ambiguous: nobody')
  const [listed] = await engine.repositoryIndex(false)
  assert.deepEqual(listed, { name: 'a', version: '', state: 'UNAVAILABLE', reason: reasons.get('a') })
  await assert.rejects(engine.load('c'), {
    code: 'INVALID_ARG',
    message: "load failed for model 'c': circular dependency between ensembles: c -> ... -> d -> c\n",
  })
  await assert.rejects(engine.load('m'), {
    code: 'INVALID_ARG',
    message: "load failed for model 'm': ensemble m contains models that are not available or ambiguous: nobody\n",
  })
  await assert.rejects(engine.load('a'), {
    code: 'INVALID_ARG',
    message: /^load failed for model 'a': ensemble 'a' depends on 'x'/,
  })
})

test('an ensemble with a response cache does not load when a model that it calls is decoupled', async () => {
  const decoupled = shelvedModel('x', `backend: "fake" ${tensors} model_transaction_policy { decoupled: true }`)
  const cached = ensemble('a', 'x')
  cached.config.responseCache = { enable: true }
  const { engine, ready } = engineUnderTest([cached, decoupled])
  await engine.start()
  assert.deepEqual(ready(), ['x'])
  const reason = engine.index().find(({ name }) => name === 'a')?.reason
  assert.match(reason ?? '', /Response Cache does not currently support model a with 'decoupled' transaction policy/)
})

test('loading an ensemble loads what it calls, and an ensemble held back comes with its part', async () => {
  const { engine, backend, ready } = engineUnderTest([ensemble('a', 'x'), ensemble('b', 'x'), plain('x')], ['a'])
  backend.failing.add('x')
  await engine.start()
  assert.deepEqual(ready(), [])
  backend.failing.clear()
  await engine.load('x')
  assert.deepEqual(ready(), ['a', 'x'], 'b was never asked for')
  await engine.load('b')
  assert.deepEqual(ready(), ['a', 'b', 'x'])
  assert.deepEqual(backend.loaded, ['x'])
})

test('a model that goes takes the ensembles along that call it, and brings them back', async () => {
  const { engine, ready } = engineUnderTest(
    [ensemble('a', 'b'), ensemble('b', 'x'), ensemble('c', 'y'), plain('x'), plain('y')],
    ['*'],
  )
  await engine.start()
  await (
    await engine.unload('x')
  ).gone
  assert.deepEqual(ready(), ['c', 'y'])
  assert.equal(engine.isModelReady('a', ''), false)
  assert.equal(engine.isReady, true, 'unloaded models are tolerated')
  await engine.load('x')
  assert.deepEqual(ready(), ['a', 'b', 'c', 'x', 'y'])
  await (
    await engine.unload('a')
  ).gone
  await (
    await engine.unload('x')
  ).gone
  await engine.load('x')
  assert.deepEqual(ready(), ['b', 'c', 'x', 'y'], 'what was unloaded by name stays so')
})

test('unload_dependents takes along what nobody asked for and nobody else calls', async () => {
  const models = [ensemble('a', 'x', 'y', 'z'), ensemble('b', 'y'), plain('x'), plain('y'), plain('z')]
  const { engine, ready } = engineUnderTest(models, ['a', 'b', 'z'])
  await engine.start()
  assert.deepEqual(ready(), ['a', 'b', 'x', 'y', 'z'])
  await (
    await engine.unload('a', true)
  ).gone
  assert.deepEqual(ready(), ['b', 'y', 'z'])
  await (
    await engine.unload('b')
  ).gone
  assert.deepEqual(ready(), ['y', 'z'])
})

test('an unload waits for the load of an ensemble that brings the model along', async () => {
  for (const unloaded of ['x', 'a']) {
    const models = [ensemble('a', 'x', 'y'), plain('x'), plain('y')]
    const { engine, backend, ready } = engineUnderTest(models, [])
    await engine.start()
    const gates: (() => void)[] = []
    backend.gates = gates
    const load = engine.load('a')
    await until(() => gates.length === 1, 'a load')
    const unload = engine.unload(unloaded)
    gates.shift()?.()
    await until(() => gates.length === 1, 'a load')
    gates.shift()?.()
    await load
    await (
      await unload
    ).gone
    assert.deepEqual(ready(), unloaded === 'x' ? ['y'] : ['x', 'y'])
    await engine.close()
  }
})

test('unloads that wait for the load of an ensemble are as few as all changes that wait', async () => {
  const { engine, backend } = engineUnderTest([ensemble('a', 'x'), plain('x')], [])
  await engine.start()
  const gates: (() => void)[] = []
  backend.gates = gates
  const load = engine.load('a')
  await until(() => gates.length === 1, 'a load')
  const unloads = Array.from({ length: 40 }, () => engine.unload('x'))
  const refused = Promise.allSettled(unloads)
  gates.shift()?.()
  await load
  const reasons = (await refused).flatMap((result) =>
    result.status === 'rejected' ? [ServerError.from(result.reason)] : [],
  )
  assert.deepEqual(
    reasons.map(({ code }) => code),
    Array<string>(8).fill('UNAVAILABLE'),
  )
})

test('an ensemble is ready when all it calls is', async () => {
  const { engine, backend } = engineUnderTest([ensemble('a', 'x'), plain('x')])
  await engine.start()
  assert.equal(engine.isModelReady('a', ''), true)
  backend.areInstancesReady = false
  assert.equal(engine.isModelReady('a', ''), false)
})

test('a part that changes so that it no longer fits takes the ensemble down, and the way back is open', async () => {
  const { engine, shelf, ready } = engineUnderTest([ensemble('a', 'x'), plain('x')], ['*'])
  await engine.start()
  const before = shelf.get('x') as FoundModel
  const wider = tensors.replaceAll('dims: 1', 'dims: 2')
  shelf.set('x', shelvedModel('x', `backend: "fake" ${wider} instance_group { kind: KIND_CPU count: 1 }`))
  await engine.load('x')
  assert.deepEqual(ready(), ['x'])
  shelf.set('x', before)
  await engine.load('x')
  assert.deepEqual(ready(), ['a', 'x'])
})

test('what is under way in an ensemble ends well though its parts are unloaded or the server closes', async () => {
  for (const stop of ['unload', 'close'] as const) {
    const { engine, backend, send, outcomes, ready } = engineUnderTest(
      [ensemble('a', 'x', 'y'), plain('x'), plain('y')],
      ['*'],
    )
    await engine.start()
    backend.isHolding = true
    send('a')
    const stopped = stop === 'close' ? engine.close() : engine.unload('y').then(({ gone }) => gone)
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
    assert.equal(ready().includes('a'), false, 'nothing new is taken')
    backend.answerAll()
    backend.answerAll()
    assert.deepEqual(outcomes, ['ok 7'], stop)
    await stopped
    assert.equal(ready().includes('y'), false)
  }
})
