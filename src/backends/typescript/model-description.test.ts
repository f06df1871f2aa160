import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../base/clock.ts'
import { silentLog } from '../../base/log.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { ask, configOf, executeOne, filesOf, int32Tensor, int32Values } from '../backend.contract.ts'
import { folderOf, ScriptUnderTest } from '../script-under-test.contract.ts'
import { applyDescription, type ModelDescription } from './model-description.ts'
import { TypeScriptBackend } from './typescript-backend.ts'

const described: ModelDescription = {
  maxBatchSize: 8,
  input: [{ name: 'IN', dataType: 'INT32', dims: [-1], optional: true }],
  output: [{ name: 'OUT', dataType: 'TYPE_STRING', dims: [2], labelFilename: 'labels.txt' }],
  decoupled: true,
  dynamicBatching: true,
}

test('an empty configuration takes everything from the description', () => {
  const config = applyDescription(configOf('m'), described)
  assert.equal(config.maxBatchSize, 8)
  assert.deepEqual(
    config.input.map(({ name, dataType, dims, optional }) => [name, dataType, dims, optional]),
    [['IN', 'TYPE_INT32', [-1], true]],
  )
  assert.deepEqual(
    config.output.map(({ name, dataType, dims, labelFilename }) => [name, dataType, dims, labelFilename]),
    [['OUT', 'TYPE_STRING', [2], 'labels.txt']],
  )
  assert.deepEqual(config.modelTransactionPolicy, { decoupled: true })
  assert.deepEqual(config.dynamicBatching?.preferredBatchSize, [])
})

test('what a configuration says stays, and only what is missing is added', () => {
  const draft = configOf('m', { maxBatchSize: 4, input: [['IN', 'TYPE_INT32', [-1]]] })
  const config = applyDescription(draft, described)
  assert.equal(config.maxBatchSize, 4)
  assert.equal(config.input[0]?.optional, false)
  assert.equal(config.output.length, 1)
  assert.deepEqual(draft.output, [], 'the draft itself is left alone')
})

test('a description may fill in nothing but what a backend may', () => {
  const sly = { name: 'other', instanceGroup: [{}], parameters: new Map([['a', 'b']]) } as ModelDescription
  assert.deepEqual(applyDescription(configOf('m'), sly), configOf('m'))
})

const contradictions: readonly (readonly [what: string, draft: ModelConfig, more: object, message: string])[] = [
  [
    'a larger max_batch_size',
    configOf('m', { maxBatchSize: 16 }),
    {},
    "configuration specified max_batch_size 16, but in auto-complete-config function for model 'm' specified max_batch_size 8",
  ],
  [
    'another data type',
    configOf('m', { input: [['IN', 'TYPE_FP32', [-1]]] }),
    {},
    "unable to load model 'm', configuration expects datatype TYPE_FP32 for input 'IN', model provides TYPE_INT32",
  ],
  [
    'other dims',
    configOf('m', { output: [['OUT', 'TYPE_STRING', [3]]] }),
    {},
    "model 'm', tensor 'OUT': the model expects dims [2] but the model configuration specifies dims [3]",
  ],
  [
    'the other transaction policy',
    { ...configOf('m'), modelTransactionPolicy: { decoupled: false } },
    {},
    "trying to change decoupled property in auto-complete-config for model 'm', which is already set to 'False'.",
  ],
  [
    'an input with no type',
    configOf('m'),
    { input: [{ name: 'X', dims: [1] }] },
    "input 'X' in auto-complete-config function for model 'm' is missing 'data_type' property.",
  ],
  [
    'an output with no dims',
    configOf('m'),
    { output: [{ name: 'X', dataType: 'FP32' }] },
    "output 'X' in auto-complete-config function for model 'm' is missing 'dims' property.",
  ],
  [
    'an unknown type',
    configOf('m'),
    { input: [{ name: 'X', dims: [1], dataType: 'FP8' }] },
    "input 'X' in auto-complete-config function for model 'm' has the unknown data type 'FP8'; there are BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, FP32, FP64, BYTES, BF16.",
  ],
]
for (const [what, draft, more, message] of contradictions) {
  test(`a description and a configuration with ${what} do not load`, () => {
    assert.throws(() => applyDescription(draft, { ...described, ...more }), { code: 'INVALID_ARG', message })
  })
}

test('a sequence batcher and a description that wants dynamic batching do not load', () => {
  const draft = configOf('m')
  draft.sequenceBatching = {
    direct: null,
    oldest: null,
    maxSequenceIdleMicroseconds: 0n,
    controlInput: [],
    state: [],
    iterativeSequence: false,
  }
  assert.throws(
    () => applyDescription(draft, described),
    /scheduling_choice as 'sequence_batching', but auto-complete-config function for model 'm' tries to set/,
  )
})

test('a folder with nothing but 1/model.ts serves', async (context) => {
  const source = `
    import { tensor } from 'galatea/model'
    export const config = {
      maxBatchSize: 2,
      input: [{ name: 'IN', dataType: 'INT32', dims: [2] }],
      output: [{ name: 'OUT', dataType: 'INT32', dims: [2] }],
    }
    export const infer = (request) => [tensor('OUT', 'INT32', [1, 2], request.input('IN').asInt32().map((x) => x * 2))]`
  const script = await ScriptUnderTest.ofModel(context, source, { config: configOf('m') })
  const response = await executeOne(script.instance, ask([int32Tensor('IN', [1, 2], 1)], { batchSize: 1 }))
  assert.deepEqual(int32Values(response.outputs[0]), [2, 4])
})

test('autoCompleteConfig sees the configuration and may be asynchronous', async (context) => {
  const source = `
    export const infer = () => []
    export async function autoCompleteConfig(config) {
      return { maxBatchSize: 3, output: [{ name: config.name + '_out', dataType: 'FP32', dims: [-1] }] }
    }`
  const directory = await folderOf(context, { '1/model.ts': source })
  const backend = new TypeScriptBackend({ clock: new SystemClock(), log: silentLog })
  const config = await backend.complete(configOf('m'), filesOf(directory))
  assert.deepEqual([config.maxBatchSize, config.output[0]?.name], [3, 'm_out'])
})

test('a model that describes nothing leaves the configuration as it is', async (context) => {
  const directory = await folderOf(context, { '1/model.ts': 'export const infer = () => []' })
  const backend = new TypeScriptBackend({ clock: new SystemClock(), log: silentLog })
  assert.deepEqual(await backend.complete(configOf('m'), filesOf(directory)), configOf('m'))
})
