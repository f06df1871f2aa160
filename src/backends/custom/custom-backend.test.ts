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
  int32Tensor,
  int32Values,
  rawTensor,
  testBackendContract,
} from '../backend.contract.ts'
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
  assert.deepEqual(script.messages('info'), [
    'initialize b v',
    'modelInitialize B m',
    'instanceInitialize M m_0',
    'execute 1',
    'execute 2',
    'instanceFinalize 2',
    'modelFinalize M',
    'finalize B',
  ])
})

test('a backend whose finalizers throw still runs all of them', async (context) => {
  const source = `
    export const execute = () => []
    export function instanceFinalize() { throw new Error('first') }
    export function modelFinalize(model) { console.log('model') }
    export function finalize() { console.log('backend') }`
  const directory = await folderOf(context, { 'b/backend.mjs': source })
  const log = new MemoryLog()
  const backend = createCustomBackend({ clock, log }, 'b', `${directory}/b/backend.mjs`)
  const script = await ScriptUnderTest.of(context, backend, int32Config(), directory, log)
  await script.close()
  assert.deepEqual(script.messages('info'), ['model', 'backend'])
  assert.deepEqual(script.messages('error'), ['finalize failed: Error: first'])
})

test('a backend that crashes for one model leaves its other models alone', async (context) => {
  const source = `
    export function execute(instance, requests) {
      if (requests[0].input('IN').asInt32()[0] === 1) process.exit(1)
      return requests.map((request) => [request.input('IN').with({ name: 'OUT' })])
    }`
  const directory = await folderOf(context, { 'b/backend.ts': source })
  const log = new MemoryLog()
  const backend = createCustomBackend({ clock, log }, 'b', `${directory}/b/backend.ts`)
  const bad = await ScriptUnderTest.of(context, backend, int32Config(), directory, log)
  const good = await ScriptUnderTest.of(context, backend, int32Config(), directory, log)
  const failed = await executeOne(bad.instance, ask([int32Tensor('IN', [1])]))
  assert.match(failed.error?.message ?? '', /its code called process\.exit\(1\)/)
  assert.equal((await executeOne(good.instance, ask([int32Tensor('IN', [2])]))).error, null)
  await bad.untilReady(true)
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
