import assert from 'node:assert/strict'
import { fileURLToPath } from 'node:url'
import { test, type TestContext } from 'node:test'
import { SystemClock } from '../../base/clock.ts'
import { silentLog } from '../../base/log.ts'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import {
  ask,
  configOf,
  copyModelConfig,
  executeOne,
  filesOf,
  instanceSpec,
  int32Tensor,
  int32Values,
  loadModel,
  rawTensor,
  testBackendContract,
} from '../backend.contract.ts'
import type { Backend, Instance } from '../../model/backend.ts'
import { until } from '../../../test/until.ts'
import { firstExample, folderOf, int32Config, ScriptUnderTest } from '../script-under-test.contract.ts'
import { createCustomBackend, findCustomBackend, findCustomBackends } from './custom-backend.ts'

const clock = new SystemClock()
const examples = fileURLToPath(new URL('../../../examples/backends', import.meta.url))

testBackendContract('a custom backend', async () => {
  const cleanups: (() => unknown)[] = []
  const directory = await folderOf(
    { after: (cleanup) => void cleanups.push(cleanup as () => unknown) },
    {
      'copy/backend.ts': `export const execute = (instance, requests) => requests.map((request) =>
        [...request.inputs.values()].map((input) => input.with({ name: input.name.replace('INPUT', 'OUTPUT') })))`,
    },
  )
  const backend = createCustomBackend({ clock, log: silentLog }, 'copy', `${directory}/copy/backend.ts`)
  const close = async (): Promise<void> => {
    await backend.close()
    for (const cleanup of cleanups) await cleanup()
  }
  const { name } = backend
  return {
    backend: { name, complete: (...args) => backend.complete(...args), load: (source) => backend.load(source), close },
    config: copyModelConfig(),
    files: filesOf(directory),
  }
})

test('the seven functions run in order, each with the state of those before it', async (context) => {
  const source = `
    const say = (what, context) => context.log.info(what)
    export function initialize(backend) { say('initialize ' + backend.name + ' ' + backend.settings.get('k'), backend); return 'B' }
    export function modelInitialize(model) { say('modelInitialize ' + model.backend.state + ' ' + model.name, model); return 'M' }
    export async function instanceInitialize(instance) { say('instanceInitialize ' + instance.model.state + ' ' + instance.name, instance); return { count: 0 } }
    export function execute(instance, requests) {
      say('execute ' + ++instance.state.count, instance)
      return requests.map((request) => [request.input('IN').with({ name: 'OUT' })])
    }
    export function instanceFinalize(instance) { say('instanceFinalize ' + instance.state.count, instance) }
    export function modelFinalize(model) { say('modelFinalize ' + model.state, model) }
    export function finalize(backend) { say('finalize ' + backend.state, backend) }`
  const directory = await folderOf(context, { 'b/backend.ts': source })
  const log = new MemoryLog()
  const backend = createCustomBackend({ clock, log }, 'b', `${directory}/b/backend.ts`, new Map([['k', 'v']]))
  const script = await ScriptUnderTest.of(context, backend, int32Config(), directory, log)
  for (const value of [1, 2]) {
    const response = await executeOne(script.instance, ask([int32Tensor('IN', [value])]))
    assert.deepEqual(int32Values(response.outputs[0]), [value])
  }
  await script.close()
  await backend.close()
  assert.deepEqual(script.messages('info'), [
    'TRITONBACKEND_Initialize: b',
    'initialize b v',
    'TRITONBACKEND_ModelInitialize: m (version 1)',
    'modelInitialize B m',
    'instanceInitialize M m_0',
    'execute 1',
    'execute 2',
    'TRITONBACKEND_ModelInstanceFinalize: delete instance state: m_0',
    'instanceFinalize 2',
    'TRITONBACKEND_ModelFinalize: delete model state: m (version 1)',
    'modelFinalize M',
    'TRITONBACKEND_Finalize: b',
    'finalize B',
  ])
})

const recorder = `
  const said = []
  export function initialize() { said.push('B+'); return said }
  export function modelInitialize(model) {
    said.push('M+' + model.name)
    if (model.name === 'bad') throw new Error('no')
    return { name: model.name }
  }
  export function instanceInitialize(instance) { said.push('I+' + instance.name); return instance.name }
  export const execute = (instance, requests) => requests.map((request) => {
    if (request.input('IN').asInt32()[0] === -1) process.exit(1)
    return [request.input('IN').with({ name: 'OUT' })]
  })
  export function instanceFinalize(instance) { said.push('I-' + instance.state) }
  export function modelFinalize(model) { said.push('M-' + model.state.name) }
  export function finalize(backend) { said.push('B-'); console.log(backend.state.join(' ')) }`

async function recorderOf(
  context: TestContext,
  settings: ReadonlyMap<string, string> = new Map(),
): Promise<{ backend: Backend; load: (name: string, count: number) => Promise<Served>; said: () => string[] }> {
  const directory = await folderOf(context, { 'b/backend.ts': recorder })
  const log = new MemoryLog()
  const backend = createCustomBackend({ clock, log }, 'b', `${directory}/b/backend.ts`, settings)
  context.after(() => backend.close())
  const load = async (name: string, count: number): Promise<Served> => {
    const model = await loadModel(backend, { ...int32Config(), name }, filesOf(directory), log)
    const instances = await Promise.all(
      Array.from({ length: count }, (_, i) => model.createInstance(instanceSpec(name, i))),
    )
    const close = async (): Promise<void> => void (await Promise.all(instances.map((instance) => instance.close())))
    context.after(close)
    return { instances, close }
  }
  const said = (): string[] => log.entries.map(({ message }) => message).filter((line) => line.startsWith('B+'))
  return { backend, load, said }
}

type Served = { readonly instances: readonly Instance[]; readonly close: () => Promise<void> }

test('the backend is initialised once, each model once, each instance for itself, and all end in reverse', async (context) => {
  const { backend, load, said } = await recorderOf(context)
  const one = await load('one', 2)
  const two = await load('two', 1)
  await one.close()
  // A reload is another model, also while the one before still serves.
  const again = await load('two', 1)
  await two.close()
  await again.close()
  await backend.close()
  const order =
    'B+ M+one I+one_0 I+one_1 M+two I+two_0 I-one_0 I-one_1 M-one M+two I+two_0 I-two_0 M-two I-two_0 M-two B-'
  assert.deepEqual(said(), [order])
})

test('a model that cannot be initialised leaves the backend and its other models as they are', async (context) => {
  const { backend, load, said } = await recorderOf(context)
  const good = await load('good', 1)
  await assert.rejects(load('bad', 1), /failed to initialize model 'bad' \(bad_0\): .*Error: no/)
  assert.equal(good.instances[0]?.isReady, true)
  await good.close()
  await backend.close()
  assert.deepEqual(said(), ['B+ M+good I+good_0 M+bad I-good_0 M-good B-'])
})

test('with worker=instance each instance has a life of its own', async (context) => {
  const { backend, load, said } = await recorderOf(context, new Map([['worker', 'instance']]))
  const model = await load('m', 2)
  await model.close()
  await backend.close()
  assert.deepEqual(said().toSorted(), ['B+ M+m I+m_0 I-m_0 M-m B-', 'B+ M+m I+m_1 I-m_1 M-m B-'])
  assert.throws(
    () => createCustomBackend({ clock, log: silentLog }, 'b', 'x', new Map([['worker', 'own']])),
    /--backend-config=b,worker: expected 'shared' or 'instance', got 'own'/,
  )
})

test('a backend whose finalizers throw still runs all of them', async (context) => {
  const source = `
    export const execute = () => []
    export function instanceFinalize() { throw new Error('first') }
    export function modelFinalize(model) { throw new Error('second') }
    export function finalize() { throw new Error('third') }`
  const directory = await folderOf(context, { 'b/backend.mjs': source })
  const log = new MemoryLog()
  const backend = createCustomBackend({ clock, log }, 'b', `${directory}/b/backend.mjs`)
  const script = await ScriptUnderTest.of(context, backend, int32Config(), directory, log)
  await script.close()
  await backend.close()
  const finalized = script.messages('info').filter((line) => line.includes('Finalize'))
  assert.equal(finalized.length, 3)
  assert.deepEqual(script.messages('error'), ['finalize failed: Error: first', 'finalize failed: Error: third'])
})

test('a crash costs all models of a backend their thread, and they come back; with worker=instance only the one', async (context) => {
  for (const [worker, isOtherHit] of [
    ['shared', true],
    ['instance', false],
  ] as const) {
    const { load } = await recorderOf(context, new Map([['worker', worker]]))
    const [bad, good] = [await load('bad_one', 1), await load('good', 1)].map(({ instances }) => instances[0])
    assert.ok(bad !== undefined && good !== undefined)
    const failed = await executeOne(bad, ask([int32Tensor('IN', [-1])]))
    assert.match(failed.error?.message ?? '', /its code called process\.exit\(1\)/)
    assert.equal(good.isReady, !isOtherHit)
    await until(() => bad.isReady && good.isReady, 'both are back')
    assert.equal((await executeOne(good, ask([int32Tensor('IN', [2])]))).error, null)
  }
})

test('a backend with no execute does not load, and says so', async (context) => {
  const directory = await folderOf(context, { 'b/backend.ts': 'export const run = 1' })
  const backend = createCustomBackend({ clock, log: silentLog }, 'b', `${directory}/b/backend.ts`)
  await assert.rejects(
    backend.complete(configOf('m'), filesOf(directory)),
    /must export a function execute\(instance, requests\), by name or on its default export; it exports run/,
  )
})

test('backends are found by folder: backend.ts, .mts, .mjs or .js, and nothing else', async (context) => {
  const directory = await folderOf(context, {
    'zeta/backend.ts': '',
    'alpha/backend.js': '',
    'beta/backend.mjs': '',
    'other/model.ts': '',
    'backend.ts': '',
  })
  assert.deepEqual(await findCustomBackends(directory), ['alpha', 'beta', 'zeta'])
  assert.deepEqual(await findCustomBackends(`${directory}/none`), [])
})

test('a name that is no plain folder name finds nothing', async (context) => {
  const directory = await folderOf(context, { 'in/backend.ts': '', 'backend.ts': '' })
  assert.equal(await findCustomBackend(directory, 'in'), `${directory}/in/backend.ts`)
  for (const name of ['..', '.', '', '../in', 'in/../in', 'none']) {
    assert.equal(await findCustomBackend(`${directory}/in`, name), null)
  }
})

test('a backend may be an npm package, found from the folder that the server runs in', async (context) => {
  const log = new MemoryLog()
  const file = await findCustomBackend('', 'b', new Map([['package', 'fast-check']]))
  assert.equal(file, 'package:fast-check')
  const backend = createCustomBackend({ clock, log }, 'b', file)
  const directory = await folderOf(context, {})
  // It is found and loaded; that it is no backend is what it is then told.
  await assert.rejects(backend.complete(configOf('m'), filesOf(directory)), /backend 'package:fast-check' must export/)
  const missing = createCustomBackend({ clock, log }, 'b', 'package:no-such-package-anywhere')
  await assert.rejects(missing.complete(configOf('m'), filesOf(directory)), /Cannot find package/)
})

async function scaleOneAndTwo(context: TestContext, file: string): Promise<{ values: number[]; log: MemoryLog }> {
  const log = new MemoryLog()
  const backend = createCustomBackend({ clock, log }, 'scale', file)
  const config = configOf('m', { parameters: { factor: '2.5' } })
  const script = await ScriptUnderTest.of(context, backend, config, await folderOf(context, {}), log)
  const input = rawTensor('INPUT', 'FP32', [1, 2], Float32Array.of(1, 2))
  const response = await executeOne(script.instance, ask([input], { batchSize: 1 }))
  assert.equal(response.error, null)
  await script.close()
  const output = Uint8Array.from(response.outputs[0]?.bytes ?? [])
  return { values: Array.from(new Float32Array(output.buffer)), log }
}

test('the example backend serves a model that lists no tensors', async (context) => {
  assert.deepEqual(await findCustomBackends(examples), ['scale'])
  const { values, log } = await scaleOneAndTwo(context, `${examples}/scale/backend.ts`)
  assert.deepEqual(values, [2.5, 5])
  assert.equal(log.entries.find(({ message }) => message === 'instance done')?.fields['executions'], 1)
})

test('the first backend of the guide serves as it stands', async (context) => {
  const directory = await folderOf(context, { 'scale/backend.ts': await firstExample('custom-backends.md') })
  const { values } = await scaleOneAndTwo(context, `${directory}/scale/backend.ts`)
  assert.deepEqual(values, [2.5, 5])
})
