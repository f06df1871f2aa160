import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emptyModelConfig, type ModelConfig } from '../../config/model-config.ts'
import { completeConfig } from './auto-complete.ts'
import { inputConfig, outputConfig } from './onnx-backend.contract.ts'
import type { OnnxTensorSpec } from './onnx-session.ts'

const tensor = (
  name: string,
  shape: number[] | null,
  dataType: OnnxTensorSpec['dataType'] = 'FP32',
): OnnxTensorSpec => ({
  name,
  dataType,
  typeText: dataType ?? 'sequence',
  shape,
  symbols: (shape ?? []).map(() => ''),
})
const draft = (fields: Partial<ModelConfig> = {}): ModelConfig => ({ ...emptyModelConfig(), name: 'm', ...fields })
const model = (inputs: OnnxTensorSpec[], outputs: OnnxTensorSpec[]) => ({ inputs, outputs })

test('when every first dimension is open, the model batches: the default size, no batch dimension in dims, dynamic batching', () => {
  const config = completeConfig(draft(), model([tensor('b', [-1, 3]), tensor('a', [-1, 2])], [tensor('y', [-1, 5])]), 4)
  assert.equal(config.maxBatchSize, 4)
  assert.deepEqual(config.dynamicBatching?.preferredBatchSize, [])
  // The model's own order, not the alphabet's.
  assert.deepEqual(
    config.input.map(({ name, dims }) => [name, dims]),
    [
      ['b', [3]],
      ['a', [2]],
    ],
  )
  assert.deepEqual(
    config.output.map(({ name, dims }) => [name, dims]),
    [['y', [5]]],
  )
})

test('a configured max_batch_size is kept', () => {
  assert.equal(
    completeConfig(draft({ maxBatchSize: 16 }), model([tensor('x', [-1])], [tensor('y', [-1])]), 4).maxBatchSize,
    16,
  )
})

test('a batch size of one brings no dynamic batching', () => {
  const config = completeConfig(draft(), model([tensor('x', [-1, 3])], [tensor('y', [-1, 3])]), 1)
  assert.equal(config.maxBatchSize, 1)
  assert.equal(config.dynamicBatching, null)
})

test('a scheduler that is configured is kept', () => {
  const sequenceBatching = {
    direct: null,
    oldest: null,
    maxSequenceIdleMicroseconds: 0n,
    controlInput: [],
    state: [],
    iterativeSequence: false,
  }
  const config = completeConfig(draft({ sequenceBatching }), model([tensor('x', [-1, 3])], [tensor('y', [-1, 3])]), 4)
  assert.equal(config.dynamicBatching, null)
})

test('one fixed first dimension, or none at all, means no batching and whole shapes', () => {
  for (const output of [tensor('y', [1, 3]), tensor('y', []), tensor('y', null)]) {
    const config = completeConfig(draft(), model([tensor('x', [-1, 3])], [output]), 4)
    assert.equal(config.maxBatchSize, 0)
    assert.deepEqual(
      config.input.map(({ dims }) => dims),
      [[-1, 3]],
    )
  }
})

test('a batch size for a model that cannot batch is refused with Triton’s text', () => {
  assert.throws(
    () => completeConfig(draft({ maxBatchSize: 8 }), model([tensor('x', [1, 3])], [tensor('y', [-1])]), 4),
    {
      code: 'INVALID_ARG',
      message:
        "autofill failed for model 'm': model does not support batching while non-zero max_batch_size is specified",
    },
  )
})

test('what is nothing but the batch dimension becomes one element with an empty reshape', () => {
  const config = completeConfig(draft(), model([tensor('x', [-1])], [tensor('y', [-1, 2])]), 4)
  assert.deepEqual(
    config.input.map(({ dims, reshape }) => [dims, reshape]),
    [[[1], { shape: [] }]],
  )
  assert.deepEqual(
    config.output.map(({ dims, reshape }) => [dims, reshape]),
    [[[2], null]],
  )
})

test('only the missing one of inputs and outputs is filled in', () => {
  const input = [inputConfig('x', 'TYPE_INT8', [7])]
  const config = completeConfig(
    draft({ input, maxBatchSize: 2 }),
    model([tensor('x', [-1, 3])], [tensor('y', [-1, 3])]),
    4,
  )
  assert.deepEqual(config.input, input)
  assert.deepEqual(
    config.output.map(({ name }) => name),
    ['y'],
  )
})

test('a configuration with inputs and outputs is left as it is, max_batch_size 0 included', () => {
  const config = draft({ input: [inputConfig('x', 'TYPE_FP32', [3])], output: [outputConfig('y', 'TYPE_FP32', [3])] })
  assert.deepEqual(
    completeConfig(structuredClone(config), model([tensor('x', [-1, 3])], [tensor('y', [-1, 3])]), 4),
    config,
  )
})

test('what the protocol cannot carry is refused by name', () => {
  assert.throws(
    () => completeConfig(draft(), model([tensor('x', [-1])], [tensor('probabilities', null, null)]), 4),
    /'probabilities' is of type sequence/,
  )
})
