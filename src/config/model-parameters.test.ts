import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configMessage, type ModelConfig } from './model-config.ts'
import { nearestParameter, parameterProblems, parameterRow, readParameter } from './model-parameters.ts'
import { byteCount } from './parameter-rule.ts'

const configOf = (parameters: Record<string, string>, part: Partial<ModelConfig> = {}): ModelConfig =>
  configMessage('ModelConfig', {
    name: 'm',
    dynamicBatching: configMessage('ModelDynamicBatching'),
    parameters: new Map(Object.entries(parameters).map(([key, stringValue]) => [key, { stringValue }])),
    ...part,
  })
const messages = (parameters: Record<string, string>, part?: Partial<ModelConfig>): string[] =>
  [...parameterProblems(configOf(parameters, part))].map(({ message }) => message)

test('a parameter that the model does not have is null; one that cannot be read is refused by its name', () => {
  assert.equal(readParameter(configOf({}), 'lazy'), null)
  assert.equal(readParameter(configOf({ lazy: 'true' }), 'lazy'), true)
  assert.equal(readParameter(configOf({ isolation: 'process' }), 'isolation'), 'process')
  assert.throws(() => readParameter(configOf({ execution_mode: '2' }), 'execution_mode'), {
    code: 'INVALID_ARG',
    message: "parameter 'execution_mode' of model 'm' must be a whole number from 0 to 1, got '2'",
  })
})

test('slo_ms is a number of milliseconds, for a model with dynamic batching', () => {
  assert.deepEqual(messages({ slo_ms: '2.5' }), [])
  for (const bad of ['', 'fast', '0', '-1', 'Infinity'])
    assert.match(messages({ slo_ms: bad }).join(), /above 0 and up to 3600000, got/)
  assert.match(messages({ slo_ms: '5' }, { dynamicBatching: null }).join(), /needs 'dynamic_batching \{ \}'/)
})

test('single_flight is true or false, and does not go with sequences, many answers or a fixed order', () => {
  assert.deepEqual(messages({ single_flight: 'false' }, { modelTransactionPolicy: { decoupled: true } }), [])
  assert.match(messages({ single_flight: 'yes' }).join(), /'single_flight' of model 'm' must be 'true' or 'false', got/)
  const everything = {
    sequenceBatching: configMessage('ModelSequenceBatching'),
    modelTransactionPolicy: { decoupled: true },
    dynamicBatching: configMessage('ModelDynamicBatching', { preserveOrdering: true }),
  }
  assert.equal(messages({ single_flight: 'true' }, everything).length, 3)
  assert.match(messages({ single_flight: 'true' }, everything).join(), /does not go with sequence batching/)
})

test('a backend is held to its own parameters; the same key of another backend is free', () => {
  assert.equal(messages({ execution: 'somewhere' }, { backend: 'onnxruntime' }).length, 1)
  assert.deepEqual(messages({ execution: 'somewhere' }, { backend: 'python' }), [])
})

test('what a key means depends on the backend, and some keys exist for each input', () => {
  assert.notEqual(parameterRow('anything', 'pad_value.ids'), null)
  assert.equal(parameterRow('anything', 'pad_inputs.ids'), null)
  assert.notEqual(parameterRow('onnxruntime', 'memory.enable_memory_arena_shrinkage'), null)
  assert.equal(parameterRow('python', 'memory.enable_memory_arena_shrinkage'), null)
})

test('a key that was nearly right leads to the right one', () => {
  assert.equal(nearestParameter('onnxruntime', 'lasy'), 'lazy')
  assert.equal(nearestParameter('onnxruntime', 'SLO_MS'), 'slo_ms')
  assert.equal(nearestParameter('python', 'execution_env_path'), 'EXECUTION_ENV_PATH')
  assert.equal(nearestParameter('typescript', 'temperature'), null)
})

test('byte counts are whole numbers with or without a binary unit', () => {
  assert.equal(byteCount.read('1048576'), 1048576)
  assert.equal(byteCount.read('512MiB'), 512 * 1024 ** 2)
  assert.equal(byteCount.read('0.5 KiB'), 512)
  for (const text of ['', 'x', '-1', '1TB', '1e9', '1 2']) assert.equal(byteCount.read(text), null, text)
})
