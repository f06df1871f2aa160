import assert from 'node:assert/strict'
import test from 'node:test'
import { elementCount } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { numbersOf } from '../../tensor/typed-values.ts'
import { batchInputTensors, batchLayoutOf, raggedParts, scatteredShape } from './batch-layout.ts'
import { InferenceRequest } from '../../model/inference-request.ts'
import { emptyModelConfig, type BatchInputKind, type ModelConfig } from '../../config/model-config.ts'

const configWith = (part: Partial<ModelConfig>): ModelConfig => ({ ...emptyModelConfig(), maxBatchSize: 8, ...part })

const request = (...shape: number[]): InferenceRequest => {
  const bytes = new Uint8Array(Float32Array.from({ length: elementCount(shape) }, (_, i) => i + shape.length).buffer)
  return new InferenceRequest({
    modelName: 'm',
    inputs: [new Tensor('X', 'FP32', shape, bytes)],
    sink: () => undefined,
  })
}

function made(kind: BatchInputKind, requests: InferenceRequest[], dataType: 'TYPE_INT32' | 'TYPE_FP32' = 'TYPE_INT32') {
  const batchInput = [{ kind, targetName: ['A', 'B'], dataType, sourceInput: ['X'] }]
  const layout = batchLayoutOf(configWith({ batchInput }))
  assert.ok(layout !== null)
  const [a, b] = batchInputTensors(layout, requests)
  assert.ok(a !== undefined && b !== undefined)
  assert.deepEqual([a.name, b.name], ['A', 'B'])
  assert.deepEqual(numbersOf(a), numbersOf(b))
  return { shape: a.shape, values: [...numbersOf(a)], dataType: a.dataType }
}

const three = [request(1, 2), request(2, 3), request(1, 4)]

test('a model without any of it has no layout', () => {
  assert.equal(batchLayoutOf(configWith({})), null)
})

test('element counts are per request, batch dimension included', () => {
  assert.deepEqual(made('BATCH_ELEMENT_COUNT', three), { shape: [3], values: [2, 6, 4], dataType: 'INT32' })
  assert.deepEqual(made('BATCH_ELEMENT_COUNT', three, 'TYPE_FP32').dataType, 'FP32')
})

test('accumulated counts are running sums, with a zero in front where asked for', () => {
  assert.deepEqual(made('BATCH_ACCUMULATED_ELEMENT_COUNT', three).values, [2, 8, 12])
  const withZero = made('BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO', three)
  assert.deepEqual(withZero, { shape: [4], values: [0, 2, 8, 12], dataType: 'INT32' })
})

test('the largest count is the length of a row that says nothing else', () => {
  assert.deepEqual(made('BATCH_MAX_ELEMENT_COUNT_AS_SHAPE', three).shape, [6])
})

test('item shapes are per row, without the batch dimension', () => {
  const requests = [request(1, 2, 3), request(2, 4, 5)]
  assert.deepEqual(made('BATCH_ITEM_SHAPE', requests), {
    shape: [3, 2],
    values: [2, 3, 4, 5, 4, 5],
    dataType: 'INT32',
  })
  assert.deepEqual(made('BATCH_ITEM_SHAPE_FLATTEN', requests).shape, [6])
})

test('a ragged input is one row of all elements, request by request, and nothing is copied', () => {
  const { shape, parts } = raggedParts('X', three)
  assert.deepEqual(shape, [12])
  assert.deepEqual(
    parts.map((part) => three.findIndex(({ inputs }) => inputs[0]?.bytes === part)),
    [0, 1, 2],
  )
})

test('a scattered output takes its open dimensions from the same dimensions of its source', () => {
  const output = { name: 'Y', dims: [-1, 7], reshape: null } as ModelConfig['output'][0]
  const batchOutput = [{ targetName: ['Y'], kind: 'BATCH_SCATTER_WITH_INPUT_SHAPE' as const, sourceInput: ['X'] }]
  const rule = batchLayoutOf(configWith({ output: [output], batchOutput }))?.scatter.get('Y')
  assert.ok(rule !== undefined)
  assert.deepEqual(scatteredShape(rule, request(2, 3)), [2, 3, 7])
})
