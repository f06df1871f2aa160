import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SystemClock } from '../../base/clock.ts'
import { silentLog } from '../../base/log.ts'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import type { ConfigDataType } from '../../config/model-config.ts'
import { configDataType, dataTypes, elementBytes } from '../../tensor/data-type.ts'
import { Tensor } from '../../tensor/tensor.ts'
import {
  ask,
  configOf,
  copyModelConfig,
  executeBatch,
  executeOne,
  filesOf,
  int32Tensor,
  int32Values,
  loadModel,
  testBackendContract,
} from '../backend.contract.ts'
import { firstExample, folderOf, int32Config, ScriptUnderTest } from '../script-under-test.contract.ts'
import { TypeScriptBackend } from './typescript-backend.ts'

const copySource = `
import type { ModelRequest } from 'galatea/model'
export const infer = (request: ModelRequest) =>
  [...request.inputs.values()].map((input) => input.with({ name: input.name.replace('INPUT', 'OUTPUT') }))
`

describe('a TypeScript model', () => {
  for (const isolation of ['thread', 'process']) {
    testBackendContract(`typescript (${isolation})`, async () => {
      const cleanups: (() => unknown)[] = []
      const directory = await folderOf(
        { after: (fn) => void cleanups.push(fn as () => unknown) },
        {
          '1/model.ts': copySource,
        },
      )
      const backend = new TypeScriptBackend({ clock: new SystemClock(), log: silentLog })
      const config = copyModelConfig()
      config.parameters.set('isolation', { stringValue: isolation })
      return {
        backend: {
          name: backend.name,
          complete: (draft, files) => backend.complete(draft, files),
          load: (source) => backend.load(source),
          close: async () => {
            for (const cleanup of cleanups) await cleanup()
            await backend.close()
          },
        },
        config,
        files: filesOf(directory),
      }
    })
  }
})

const addOne = `
import { tensor } from 'galatea/model'
const answer = (request) => [tensor('OUT', 'INT32', request.input('IN').shape, request.input('IN').asInt32().map((x) => x + 1))]
`
const value = async (script: ScriptUnderTest, input: number[]): Promise<number[] | string> => {
  const response = await executeOne(script.instance, ask([int32Tensor('IN', input)]))
  return response.error === null ? int32Values(response.outputs[0]) : response.error.message
}

const forms: Record<string, string> = {
  'named execute': `${addOne} export const execute = (requests) => requests.map(answer)`,
  'async execute': `${addOne} export async function execute(requests) { await null; return requests.map(answer) }`,
  'promises in the array': `${addOne} export const execute = (requests) => requests.map(async (request) => answer(request))`,
  'named infer': `${addOne} export const infer = answer`,
  'async infer': `${addOne} export const infer = async (request) => { await null; return answer(request) }`,
  'outputs in an object': `${addOne} export const infer = (request) => ({ outputs: answer(request) })`,
  'a default object': `${addOne} export default { offset: 1, infer(request) { return this.offset === 1 ? answer(request) : [] } }`,
  'a default class': `${addOne} export default class { #ready = true; execute(requests) { return this.#ready ? requests.map(answer) : [] } }`,
  'its sender': `${addOne} export function execute(requests) { for (const request of requests) request.sender.send(answer(request)) }`,
  'its sender, later': `${addOne} export function execute(requests) { for (const { sender } of requests) setImmediate(() => sender.send(answer(requests[0]))); }`,
}
for (const [form, source] of Object.entries(forms)) {
  test(`a model may answer with ${form}`, async (context) => {
    const script = await ScriptUnderTest.ofModel(context, source)
    assert.deepEqual(await value(script, [1, 2]), [2, 3])
  })
}

for (const fileName of ['model.mts', 'model.js', 'model.mjs']) {
  test(`a model may be ${fileName}`, async (context) => {
    const script = await ScriptUnderTest.ofModel(context, `${addOne} export const infer = answer`, { fileName })
    assert.deepEqual(await value(script, [1]), [2])
  })
}

test('a model in a process of its own tells what that has in memory, one in a thread shares it', async (context) => {
  const source = `${addOne} export const infer = answer`
  const config = int32Config()
  const thread = await ScriptUnderTest.ofModel(context, source, { config })
  assert.equal(await thread.instance.memoryBytes?.(), null)
  config.parameters.set('isolation', { stringValue: 'process' })
  const apart = await ScriptUnderTest.ofModel(context, source, { config })
  assert.ok(((await apart.instance.memoryBytes?.()) ?? 0) > 10e6, 'Node alone takes more')
})

test('default_model_filename names the file, and may not leave the version folder', async (context) => {
  const directory = await folderOf(context, { '1/mine.ts': `${addOne} export const infer = answer`, 'model.ts': '' })
  const backend = new TypeScriptBackend({ clock: new SystemClock(), log: silentLog })
  const config = int32Config()
  config.defaultModelFilename = 'mine.ts'
  const script = await ScriptUnderTest.of(context, backend, config, directory, new MemoryLog())
  assert.deepEqual(await value(script, [1]), [2])
  config.defaultModelFilename = '../model.ts'
  await assert.rejects(loadModel(backend, config, filesOf(directory)), /must lie in the version folder/)
})

test('a model file that is not there is UNAVAILABLE, with its path', async (context) => {
  const directory = await folderOf(context, {})
  const backend = new TypeScriptBackend({ clock: new SystemClock(), log: silentLog })
  await assert.rejects(backend.complete(int32Config(), filesOf(directory)), {
    code: 'UNAVAILABLE',
    message: `unable to find '${directory}/1/model.ts' for model instance 'm'`,
  })
})

test('a model inside node_modules is served, too', async (context) => {
  const source = `${addOne} export const infer = (request: import('galatea/model').ModelRequest) => answer(request)`
  const directory = await folderOf(context, { 'node_modules/pack/1/model.ts': source })
  const backend = new TypeScriptBackend({ clock: new SystemClock(), log: silentLog })
  const script = await ScriptUnderTest.of(
    context, backend, int32Config(), `${directory}/node_modules/pack`, new MemoryLog(),
  ) // prettier-ignore
  assert.deepEqual(await value(script, [1]), [2])
})

test('every data type passes through its accessor and back', async (context) => {
  const source = `
    import { tensor } from 'galatea/model'
    const read = {
      BOOL: (t) => t.asBooleans(), UINT8: (t) => t.asUint8(), UINT16: (t) => t.asUint16(), UINT32: (t) => t.asUint32(),
      UINT64: (t) => t.asBigUint64(), INT8: (t) => t.asInt8(), INT16: (t) => t.asInt16(), INT32: (t) => t.asInt32(),
      INT64: (t) => t.asBigInt64(), FP16: (t) => t.asFloat32(), FP32: (t) => t.asFloat32(), FP64: (t) => t.asFloat64(),
      BYTES: (t) => t.asStrings(), BF16: (t) => t.asFloat32(),
    }
    export const infer = (request) => [...request.inputs.values()].map((input) =>
      tensor('OUT_' + input.dataType, input.dataType, input.shape, read[input.dataType](input)))
  `
  const lines = (prefix: string) =>
    dataTypes.map((type) => [`${prefix}_${type}`, configDataType(type) as ConfigDataType, [-1]] as const)
  const config = configOf('m', { input: lines('IN'), output: lines('OUT') })
  const script = await ScriptUnderTest.ofModel(context, source, { config })
  // Descending bytes from 0x3f are exact, whole elements of every type of fixed size.
  const inputs = dataTypes.map((type) => {
    const bytes = Uint8Array.from({ length: 16 }, (_, index) => 0x3f - index)
    if (type === 'BYTES') return new Tensor('IN_BYTES', type, [2], Uint8Array.of(2, 0, 0, 0, 0xc3, 0xa4, 0, 0, 0, 0))
    if (type === 'BOOL') return new Tensor('IN_BOOL', type, [2], Uint8Array.of(1, 0))
    return new Tensor(`IN_${type}`, type, [bytes.length / elementBytes[type]], bytes)
  })
  const response = await executeOne(script.instance, ask(inputs))
  assert.equal(response.error, null)
  assert.deepEqual(
    response.outputs.map((output) => [output.name, Buffer.from(output.bytes).toString('hex')]),
    inputs.map((input) => [`OUT_${input.dataType}`, Buffer.from(input.bytes).toString('hex')]),
  )
})

test('initialize is told where and what the model is, and its log and prints reach the server log', async (context) => {
  const source = `${addOne}
    export const infer = answer
    export function initialize(args) {
      args.log.info('told', { json: JSON.stringify({ ...args, log: undefined, metrics: undefined, modelConfig: args.modelConfig.name }) })
      console.log('printed')
      console.error('complained')
    }`
  const directory = await folderOf(context, { '1/model.ts': source })
  const log = new MemoryLog()
  const backend = new TypeScriptBackend({ clock: new SystemClock(), log })
  const script = await ScriptUnderTest.of(context, backend, int32Config(), directory, log)
  await script.close()
  const told = log.entries.find(({ message }) => message === 'told')
  assert.deepEqual(JSON.parse(String(told?.fields['json'])), {
    modelName: 'm',
    modelVersion: '1',
    modelInstanceName: 'm_0',
    modelInstanceKind: 'CPU',
    modelInstanceDeviceId: 0,
    modelRepository: directory,
    modelDirectory: directory,
    versionDirectory: `${directory}/1`,
    modelConfig: 'm',
  })
  const lines = log.entries.map(({ level, message, fields }) => [level, message, fields['model']])
  assert.ok(lines.some((line) => line.join() === 'info,printed,m'))
  assert.ok(lines.some((line) => line.join() === 'warning,complained,m'))
})

test('a request comes with its id, parameters, correlation id, flags and requested outputs', async (context) => {
  const source = `
    import { fromStrings } from 'galatea/model'
    export const infer = (request) => [fromStrings('OUT', [6], [request.id, String(request.parameters.get('k')),
      String(request.correlationId), String(request.isSequenceStart), String(request.timeoutUs), request.requestedOutputs.join()])]
  `
  const config = configOf('m', { input: [['IN', 'TYPE_INT32', [-1]]], output: [['OUT', 'TYPE_STRING', [-1]]] })
  const script = await ScriptUnderTest.ofModel(context, source, { config })
  const asked = ask([int32Tensor('IN', [1])], {
    id: 'r7',
    parameters: new Map([['k', 9n]]),
    correlationId: 2n ** 63n,
    isSequenceStart: true,
    timeoutUs: 5n,
    requestedOutputs: ['OUT'],
  })
  const response = await executeOne(script.instance, asked)
  const text = Buffer.from(response.outputs[0]?.bytes ?? []).toString('latin1')
  for (const expected of ['r7', '9', '9223372036854775808', 'true', '5', 'OUT']) assert.ok(text.includes(expected))
})

test('response parameters come back, integers as integers', async (context) => {
  const source = `${addOne}
    export const infer = (request) => ({ outputs: answer(request), parameters: { i: 3, d: 0.5, s: 'x', b: true, l: 2n } })`
  const script = await ScriptUnderTest.ofModel(context, source)
  const response = await executeOne(script.instance, ask([int32Tensor('IN', [1])]))
  assert.deepEqual(Object.fromEntries(response.parameters ?? []), { i: 3n, d: 0.5, s: 'x', b: true, l: 2n })
})

test('outputs are taken as they are when sent: an array that is used again does no harm', async (context) => {
  const source = `
    import { tensor } from 'galatea/model'
    const shared = new Int32Array(2)
    export const infer = (request) => {
      shared.fill(request.input('IN').asInt32()[0])
      request.sender.send([tensor('OUT', 'INT32', [2], shared)])
      shared.fill(0)
    }`
  const script = await ScriptUnderTest.ofModel(context, source)
  const batch = [ask([int32Tensor('IN', [1])]), ask([int32Tensor('IN', [2])])]
  await executeBatch(script.instance, batch)
  const values = await Promise.all(batch.map(async ({ final }) => int32Values((await final).outputs[0])))
  assert.deepEqual(values, [
    [1, 1],
    [2, 2],
  ])
})

test('memory that cannot be handed over, WebAssembly\u2019s, is copied', async (context) => {
  const source = `
    import { fromBytes } from 'galatea/model'
    const memory = new WebAssembly.Memory({ initial: 1 })
    new Int32Array(memory.buffer).fill(5)
    export const infer = () => [fromBytes('OUT', 'INT32', [16384], new Uint8Array(memory.buffer))]`
  const script = await ScriptUnderTest.ofModel(context, source)
  for (let round = 0; round < 2; round++) {
    const result = await value(script, [1])
    assert.deepEqual([result.length, result.at(0), result.at(-1)], [16384, 5, 5])
  }
})

test('finalize runs when the instance is closed', async (context) => {
  const script = await ScriptUnderTest.ofModel(context, `${addOne}
    export const infer = answer
    export async function finalize() { await null; console.log('finalized') }`) // prettier-ignore
  await script.close()
  assert.ok(script.messages('info').includes('finalized'))
})

test('the first model of the guide serves as it stands', async (context) => {
  const source = await firstExample('typescript-models.md')
  const script = await ScriptUnderTest.ofModel(context, source, { config: configOf('shout') })
  const input = new Tensor('TEXT', 'BYTES', [1, 1], Uint8Array.of(2, 0, 0, 0, 0x68, 0x69))
  const response = await executeOne(script.instance, ask([input], { batchSize: 1 }))
  assert.equal(response.error, null)
  assert.deepEqual([...(response.outputs[0]?.bytes ?? [])], [2, 0, 0, 0, 0x48, 0x49])
})
