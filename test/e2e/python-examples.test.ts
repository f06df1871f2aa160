// Every model of examples/python does what its first line says.

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { numbersTensor, PythonModels, textTensor } from './python-models-under-test.ts'

let models: PythonModels
before(async () => {
  models = await PythonModels.open(path.join(import.meta.dirname, '..', '..', 'examples', 'python'))
})
after(() => models.close())

const pair = (shape: number[]): ReturnType<typeof numbersTensor>[] => [
  numbersTensor('INPUT0', 'FP32', shape, [1, 2, 3, 4]),
  numbersTensor('INPUT1', 'FP32', shape, [10, 20, 30, 40]),
]
const expected = { OUTPUT0: [11, 22, 33, 44], OUTPUT1: [-9, -18, -27, -36] }

test('all examples load', () => {
  assert.deepEqual(models.engine.failures, [])
})

test('add_sub and auto_complete answer sum and difference', async () => {
  assert.deepEqual((await models.infer('add_sub', pair([4])))[0]?.outputs, expected)
  assert.deepEqual((await models.infer('auto_complete', pair([1, 4])))[0]?.outputs, expected)
})

test('bls_sync calls the model it is told to, and passes its errors on', async () => {
  const call = (name: string): ReturnType<PythonModels['infer']> =>
    models.infer('bls_sync', [textTensor('MODEL_NAME', [name]), ...pair([4])])
  assert.deepEqual((await call('add_sub'))[0]?.outputs, expected)
  assert.match((await call('nobody'))[0]?.error?.message ?? '', /Model 'nobody' is not ready/)
})

test('bls_async calls add_sub in both directions', async () => {
  const [answer] = await models.infer('bls_async', pair([4]))
  assert.deepEqual(answer?.outputs, { OUTPUT0: [11, 22, 33, 44], OUTPUT1: [9, 18, 27, 36] })
})

test('square answers n times, bls_decoupled adds the answers up', async () => {
  const input = numbersTensor('IN', 'INT32', [1], [7])
  const answers = await models.infer('square', [input])
  assert.deepEqual(
    answers.map((answer) => answer.outputs['OUT']?.[0]),
    [7, 7, 7, 7, 7, 7, 7, undefined],
  )
  assert.deepEqual((await models.infer('bls_decoupled', [input]))[0]?.outputs, { SUM: [49] })
})

test('repeat answers once per element', async () => {
  const inputs = [numbersTensor('IN', 'INT32', [3], [5, 6, 7]), numbersTensor('DELAY', 'UINT32', [3], [0, 1, 0])]
  const answers = await models.infer('repeat', inputs)
  assert.deepEqual(
    answers.slice(0, -1).map((answer) => [answer.outputs['IDX']?.[0], answer.outputs['OUT']?.[0]]),
    [
      [0, 5],
      [1, 6],
      [2, 7],
    ],
  )
})

test('custom_metrics counts on the metrics of the server', async () => {
  const ask = (): ReturnType<PythonModels['infer']> =>
    models.infer('custom_metrics', [numbersTensor('X', 'FP32', [3], [1, 2, 3])])
  await ask()
  assert.deepEqual((await ask())[0]?.outputs, { REQUESTS: [2] })
  const families = new Map(
    [...models.metrics.families()].map((family) => [family.name, [...family.series.values()][0]]),
  )
  assert.equal(families.get('example_requests')?.value, 2)
  assert.equal(families.get('example_largest_input')?.value, 3)
  assert.deepEqual(families.get('example_input_elements')?.counts, [0, 2, 0, 0, 0])
})

test('instance_kind knows where it runs', async () => {
  const [answer] = await models.infer('instance_kind', [numbersTensor('X', 'FP32', [1], [1])])
  assert.match(String(answer?.outputs['PLACE']?.[0]), /^instance_kind_0_[01] on cpu$/)
})

test('preprocessing turns words into ids and a mask', async () => {
  const [answer] = await models.infer('preprocessing', [textTensor('TEXT', ['Hello hello', 'x'], [2, 1])])
  assert.deepEqual(answer?.outputs['ATTENTION_MASK'], [1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
  const ids = answer?.outputs['INPUT_IDS'] ?? []
  assert.equal(ids[0], ids[1])
})
