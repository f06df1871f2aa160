// Ragged inputs, inputs made from a batch's shapes and scattered outputs, on a real model.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Batch } from '../../model/batch.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelConfig, ModelInput, ModelOutput } from '../../config/model-config.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { numbersOf } from '../../tensor/typed-values.ts'
import { floats, int64s, type OnnxModel, type OnnxValue } from '../../../test/fixtures/onnx/build-onnx.ts'
import { inferTogether, OnnxHarness, requestOf, type LoadedForTest } from '../../../test/fixtures/onnx/onnx-harness.ts'

/** SUM: what each request's elements add up to, found by its offsets. TWICE: every element, doubled. SHAPES: as made. */
const raggedSums: OnnxModel = {
  inputs: [
    { name: 'X', type: 'FP32', shape: ['elements'] },
    { name: 'OFFSETS', type: 'INT32', shape: ['offsets'] },
    { name: 'SHAPES_IN', type: 'FP32', shape: ['rows', 1] },
    { name: 'LONGEST', type: 'INT32', shape: ['longest'] },
  ],
  outputs: [
    { name: 'SUM', type: 'FP32', shape: ['requests', 1] },
    { name: 'TWICE', type: 'FP32', shape: ['elements'] },
    { name: 'SHAPES', type: 'FP32', shape: ['rows', 1] },
    { name: 'MOST', type: 'INT64', shape: ['requests', 1] },
  ],
  initializers: [
    { name: 'axis', type: 'INT64', dims: [1], raw: int64s(0) },
    { name: 'zero', type: 'FP32', dims: [1], raw: floats(0) },
    { name: 'one', type: 'INT64', dims: [1], raw: int64s(1) },
    { name: 'last', type: 'INT64', dims: [1], raw: int64s(-1) },
    { name: 'end', type: 'INT64', dims: [1], raw: int64s(1e9) },
    { name: 'two', type: 'FP32', dims: [1], raw: floats(2) },
    { name: 'ones', type: 'INT64', dims: [2], raw: int64s(1, 1) },
  ],
  nodes: [
    { op: 'CumSum', inputs: ['X', 'axis'], outputs: ['running'] },
    { op: 'Concat', inputs: ['zero', 'running'], outputs: ['sums'], attributes: [{ name: 'axis', int: 0 }] },
    { op: 'Gather', inputs: ['sums', 'OFFSETS'], outputs: ['ends'] },
    { op: 'Slice', inputs: ['ends', 'one', 'end'], outputs: ['to'] },
    { op: 'Slice', inputs: ['ends', 'axis', 'last'], outputs: ['from'] },
    { op: 'Sub', inputs: ['to', 'from'], outputs: ['difference'] },
    { op: 'Unsqueeze', inputs: ['difference', 'one'], outputs: ['SUM'] },
    { op: 'Mul', inputs: ['X', 'two'], outputs: ['TWICE'] },
    { op: 'Identity', inputs: ['SHAPES_IN'], outputs: ['SHAPES'] },
    { op: 'Shape', inputs: ['LONGEST'], outputs: ['longest_length'] },
    { op: 'Shape', inputs: ['SUM'], outputs: ['sum_shape'] },
    { op: 'Expand', inputs: ['longest_length', 'sum_shape'], outputs: ['MOST'] },
  ],
}

const input = (name: string, dims: number[], part: Partial<ModelInput> = {}): ModelInput => ({
  name,
  dims,
  dataType: 'TYPE_FP32',
  format: 'FORMAT_NONE',
  reshape: null,
  isShapeTensor: false,
  allowRaggedBatch: false,
  optional: false,
  isNonLinearFormatIo: false,
  ...part,
})
const output = (name: string, dims: number[], dataType: ModelOutput['dataType'] = 'TYPE_FP32'): ModelOutput => ({
  name,
  dims,
  dataType,
  reshape: null,
  labelFilename: '',
  isShapeTensor: false,
  isNonLinearFormatIo: false,
})

const raggedConfig: Partial<ModelConfig> = {
  maxBatchSize: 16,
  input: [input('X', [-1], { allowRaggedBatch: true })],
  output: [output('SUM', [1]), output('TWICE', [-1]), output('SHAPES', [1]), output('MOST', [1], 'TYPE_INT64')],
  batchInput: [
    {
      kind: 'BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO',
      targetName: ['OFFSETS'],
      dataType: 'TYPE_INT32',
      sourceInput: ['X'],
    },
    { kind: 'BATCH_ITEM_SHAPE', targetName: ['SHAPES_IN'], dataType: 'TYPE_FP32', sourceInput: ['X'] },
    { kind: 'BATCH_MAX_ELEMENT_COUNT_AS_SHAPE', targetName: ['LONGEST'], dataType: 'TYPE_INT32', sourceInput: ['X'] },
  ],
  batchOutput: [{ targetName: ['TWICE'], kind: 'BATCH_SCATTER_WITH_INPUT_SHAPE', sourceInput: ['X'] }],
}

const x = (...values: number[]): Tensor[] => [new Tensor('X', 'FP32', [1, values.length], floats(...values))]

function outputsOf(response: InferenceResponse): Record<string, { shape: readonly number[]; values: number[] }> {
  assert.equal(response.error, null)
  const entries = response.outputs.map((tensor) => [
    tensor.name,
    { shape: tensor.shape, values: Array.from(numbersOf(tensor) as unknown as ArrayLike<number>, Number) },
  ])
  response.release()
  return Object.fromEntries(entries) as ReturnType<typeof outputsOf>
}

let harness: OnnxHarness
before(async () => void (harness = await OnnxHarness.open()))
after(() => harness.close())

async function use(place: 'inline' | 'offloaded', body: (model: LoadedForTest) => Promise<void>): Promise<void> {
  const model = await harness.load(raggedSums, { config: raggedConfig, parameters: { execution: place } })
  try {
    await body(model)
  } finally {
    await model.close()
  }
}

for (const place of ['inline', 'offloaded'] as const) {
  test(`requests of different length run as one row and get back what is theirs, ${place}`, () =>
    use(place, async ({ instance }) => {
      const answers = await inferTogether(instance, [x(1, 2), x(10), x(100, 200, 300)])
      await new Promise(setImmediate)
      const [a, b, c] = answers.map(outputsOf)
      assert.deepEqual(a, {
        SUM: { shape: [1, 1], values: [3] },
        TWICE: { shape: [1, 2], values: [2, 4] },
        SHAPES: { shape: [1, 1], values: [2] },
        MOST: { shape: [1, 1], values: [3] },
      })
      assert.deepEqual([b?.['SUM']?.values, b?.['TWICE']], [[10], { shape: [1, 1], values: [20] }])
      assert.deepEqual([c?.['SUM']?.values, c?.['TWICE']?.values], [[600], [200, 400, 600]])
    }))
}

test('a single request is laid out as a batch of one', () =>
  use('inline', async (model) => {
    const answer = outputsOf(await model.infer(x(4, 5)))
    assert.deepEqual(answer['SUM'], { shape: [1, 1], values: [9] })
    assert.deepEqual(answer['TWICE'], { shape: [1, 2], values: [8, 10] })
  }))

test('an input that is to be ragged must be one open row in the model', async () => {
  const square: OnnxValue = { name: 'X', type: 'FP32', shape: ['batch', 'n'] }
  const model: OnnxModel = {
    inputs: [square],
    outputs: [{ ...square, name: 'Y' }],
    nodes: [{ op: 'Identity', inputs: ['X'], outputs: ['Y'] }],
  }
  const config = { maxBatchSize: 4, input: [input('X', [-1], { allowRaggedBatch: true })], output: [output('Y', [-1])] }
  await assert.rejects(
    harness.load(model, { name: 'square', config }),
    /unable to load model 'square', configuration expects model input 'X' to have shape \[-1\], but actual shape is \[-1,-1\]/,
  )
})

test('an output that has fewer elements than the shapes say fails its requests with the numbers', async () => {
  // The model gives out one element per batch where every element is expected.
  const model: OnnxModel = {
    inputs: [{ name: 'X', type: 'FP32', shape: ['n'] }],
    outputs: [{ name: 'Y', type: 'FP32', shape: ['m'] }],
    initializers: [
      { name: 'zero', type: 'INT64', dims: [1], raw: int64s(0) },
      { name: 'one', type: 'INT64', dims: [1], raw: int64s(1) },
    ],
    nodes: [{ op: 'Slice', inputs: ['X', 'zero', 'one'], outputs: ['Y'] }],
  }
  const config: Partial<ModelConfig> = {
    maxBatchSize: 4,
    input: [input('X', [-1], { allowRaggedBatch: true })],
    output: [output('Y', [-1])],
    batchOutput: [{ targetName: ['Y'], kind: 'BATCH_SCATTER_WITH_INPUT_SHAPE', sourceInput: ['X'] }],
  }
  const loaded = await harness.load(model, { config, parameters: { execution: 'inline' } })
  const answers = await inferTogether(loaded.instance, [x(1, 2), x(3)])
  for (const { error } of answers)
    assert.match(error?.message ?? '', /must have 3 elements, .* input 'X' say, got shape \[1\]/)
  await loaded.close()
})

test('an instance that runs beside this thread is free for the next batch before the answers of the last go out', async () => {
  const orderOf = async (place: 'inline' | 'offloaded'): Promise<string[]> => {
    const order: string[] = []
    await use(
      place,
      ({ instance }) =>
        new Promise<void>((resolve) => {
          const requests = [x(1, 2), x(3)].map((inputs) =>
            requestOf(inputs, (response) => {
              order.push('answered')
              response.release()
            }),
          )
          const executed = (): void => {
            order.push('free')
            setImmediate(resolve)
          }
          instance.execute(new Batch(requests, 2, executed))
        }),
    )
    return order
  }
  assert.deepEqual(await orderOf('offloaded'), ['free', 'answered', 'answered'])
  assert.deepEqual(await orderOf('inline'), ['answered', 'answered', 'free'])
})

test('what was prepared ahead of time runs as if it had been gathered, on any instance of the model', () =>
  use('offloaded', async (model) => {
    const other = await model.createInstance(1)
    const answers: InferenceResponse[] = []
    const requests = [x(1, 2), x(3)].map((inputs, i) => requestOf(inputs, (response) => void (answers[i] = response)))
    const prepared = model.instance.prepare?.(requests) ?? null
    assert.notEqual(prepared, null)
    await new Promise<void>((resolve) => {
      const batch = new Batch(requests, 2, resolve)
      batch.prepared = prepared
      // What the requests hold now would give other sums: the prepared bytes are what runs.
      for (const request of requests) for (const tensor of request.inputs) tensor.bytes.fill(0)
      other.execute(batch)
    })
    await new Promise(setImmediate)
    assert.deepEqual(
      answers.map((answer) => outputsOf(answer)['SUM']?.values),
      [[3], [3]],
    )
  }))
