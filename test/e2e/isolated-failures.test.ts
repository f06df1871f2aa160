// One client's bad request in a batch with the requests of others, over every kind of backend: only the bad one fails.

import assert from 'node:assert/strict'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import test, { type TestContext } from 'node:test'
import { createEngine, type EmbeddedEngine } from '../../src/embedded-engine.ts'
import { buildOnnx, int64s, type OnnxModel } from '../fixtures/onnx/build-onnx.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'

const python = process.env['GALATEA_TEST_PYTHON'] ?? 'python3'

async function engineOf(
  context: TestContext,
  files: Record<string, string>,
  onnx: Record<string, OnnxModel> = {},
): Promise<EmbeddedEngine> {
  const { root, remove } = await temporaryRepository(files)
  for (const [name, model] of Object.entries(onnx)) {
    await mkdir(path.join(root, name, '1'), { recursive: true })
    await writeFile(path.join(root, name, '1/model.onnx'), buildOnnx(model))
  }
  const engine = await createEngine({
    modelRepository: root,
    backendConfig: new Map([['python', new Map([['interpreter', python]])]]),
  })
  context.after(async () => {
    await engine.close()
    await remove()
  })
  for (const { reason } of engine.index()) assert.equal(reason, '')
  return engine
}

const configOf = (backend: string, more = ''): string => `
  backend: "${backend}" max_batch_size: 8
  input { name: "X" data_type: TYPE_INT64 dims: 1 }
  output { name: "Y" data_type: TYPE_INT64 dims: 1 }
  dynamic_batching { preferred_batch_size: 8 max_queue_delay_microseconds: 5000000 }
  instance_group { count: 1 }
  ${more}`

const parameter = (key: string, value: string): string =>
  `parameters { key: "${key}" value { string_value: "${value}" } }`

/** What each of eight requests that run together gets: the number of Y, or the text of its error. */
async function together(
  engine: EmbeddedEngine,
  model: string,
  values: readonly bigint[],
): Promise<(number | string)[]> {
  const results = await Promise.allSettled(
    values.map((value) => engine.infer(model, { X: { shape: [1, 1], data: BigInt64Array.of(value) } })),
  )
  return results.map((result) =>
    result.status === 'rejected'
      ? (result.reason as Error).message
      : Number((result.value.outputs['Y'] as { data: BigInt64Array }).data[0]),
  )
}

const sizesOf = (engine: EmbeddedEngine, model: string): Record<number, number> => {
  const [statistics] = engine.engine.statistics(model, '')
  const entries = (statistics?.batchStats ?? []).map(({ batchSize, computeInfer }) => [batchSize, computeInfer.count]) // prettier-ignore
  return Object.fromEntries(entries) as Record<number, number>
}

/** 10, 20, 30 by the index X. */
const gather: OnnxModel = {
  inputs: [{ name: 'X', type: 'INT64', shape: ['batch', 1] }],
  outputs: [{ name: 'Y', type: 'INT64', shape: ['batch', 1] }],
  initializers: [{ name: 'table', type: 'INT64', dims: [3], raw: int64s(10, 20, 30) }],
  nodes: [{ op: 'Gather', inputs: ['table', 'X'], outputs: ['Y'] }],
}

const script = `
  import { tensor } from 'galatea/model'
  const table = [10n, 20n, 30n]
  export const execute = (requests) =>
    requests.map((request) => {
      const value = table[Number(request.input('X').asBigInt64()[0])]
      if (value === undefined) throw new Error('no such index')
      return [tensor('Y', 'INT64', [1, 1], [value])]
    })`

const code = `
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        table = [10, 20, 30]
        values = [table[pb_utils.get_input_tensor_by_name(r, "X").as_numpy()[0, 0]] for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([[v]], dtype=np.int64))]) for v in values]
`

const kinds: Readonly<Record<string, { readonly files: Record<string, string>; readonly onnx?: OnnxModel }>> = {
  'ONNX on the main thread': {
    files: { 'm/config.pbtxt': configOf('onnxruntime', parameter('execution', 'inline')) },
    onnx: gather,
  },
  'ONNX on a thread': {
    files: { 'm/config.pbtxt': configOf('onnxruntime', parameter('execution', 'offloaded')) },
    onnx: gather,
  },
  TypeScript: { files: { 'm/config.pbtxt': configOf('typescript'), 'm/1/model.ts': script } },
  Python: { files: { 'm/config.pbtxt': configOf('python'), 'm/1/model.py': code } },
}

for (const [kind, { files, onnx }] of Object.entries(kinds)) {
  test(`a request that breaks its batch fails alone: ${kind}`, async (context) => {
    const engine = await engineOf(context, files, onnx === undefined ? {} : { m: onnx })
    const answers = await together(engine, 'm', [0n, 1n, 2n, 99n, 0n, 1n, 98n, 2n])
    assert.deepEqual(answers.map((answer) => (typeof answer === 'string' ? 'error' : answer)), [10, 20, 30, 'error', 10, 20, 'error', 30]) // prettier-ignore
    // The execution that failed counts as one, and so does each of the lone ones.
    assert.deepEqual(sizesOf(engine, 'm'), { 1: 8, 8: 1 })
    const [statistics] = engine.engine.statistics('m', '')
    assert.equal(statistics?.inferenceCount, 6)
    assert.equal(statistics.inferenceStats.success.count, 6)
    assert.equal(statistics.inferenceStats.fail.count, 2)
    assert.deepEqual(await together(engine, 'm', [0n, 1n, 2n, 2n, 0n, 1n, 0n, 2n]), [10, 20, 30, 30, 10, 20, 10, 30])
    assert.deepEqual(sizesOf(engine, 'm'), { 1: 8, 8: 2 })
  })
}

test('outputs that do not fit the rows of a batch are made again for each request', async (context) => {
  // One row for each number that is not 0.
  const onnx: OnnxModel = {
    inputs: [{ name: 'X', type: 'INT64', shape: ['batch', 1] }],
    outputs: [{ name: 'Y', type: 'INT64', shape: ['found', 2] }],
    nodes: [
      { op: 'NonZero', inputs: ['X'], outputs: ['places'] },
      { op: 'Transpose', inputs: ['places'], outputs: ['Y'] },
    ],
  }
  for (const place of ['inline', 'offloaded']) {
    const config = configOf('onnxruntime', parameter('execution', place)).replace('TYPE_INT64 dims: 1 }\n  dynamic', 'TYPE_INT64 dims: 2 }\n  dynamic') // prettier-ignore
    const engine = await engineOf(context, { 'm/config.pbtxt': config }, { m: onnx })
    const answers = await together(engine, 'm', [5n, 5n, 5n, 0n, 5n, 5n, 5n, 5n])
    assert.deepEqual(answers.map((answer) => typeof answer), Array(8).fill('number')) // prettier-ignore
  }
})

test('a TypeScript model that refuses requests one by one is not asked twice', async (context) => {
  const model = `
    import { InferenceError, tensor } from 'galatea/model'
    export const execute = (requests) => requests.map(() => new InferenceError('not today'))`
  const files = { 'm/config.pbtxt': configOf('typescript'), 'm/1/model.ts': model }
  const engine = await engineOf(context, files)
  const answers = await together(engine, 'm', Array<bigint>(8).fill(0n))
  assert.ok(answers.every((answer) => String(answer).includes('not today')))
  assert.deepEqual(sizesOf(engine, 'm'), { 8: 1 })
})

test('a model can say that its requests run once at most', async (context) => {
  const config = configOf('typescript', parameter('run_failed_batches_alone', 'false'))
  const engine = await engineOf(context, { 'm/config.pbtxt': config, 'm/1/model.ts': script })
  const answers = await together(engine, 'm', [0n, 1n, 2n, 99n, 0n, 1n, 2n, 2n])
  assert.ok(answers.every((answer) => String(answer).includes('no such index')))
  assert.deepEqual(sizesOf(engine, 'm'), { 8: 1 })
})
