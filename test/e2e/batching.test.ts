// Batches over real backends, in this process: the examples of the guides, ragged, padded and optional inputs.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import test, { type TestContext } from 'node:test'
import { createEngine, type EmbeddedEngine } from '../../src/embedded-engine.ts'
import type { InferResult } from '../../src/embedded-exchange.ts'
import { buildOnnx, floats, int64s, type OnnxModel } from '../fixtures/onnx/build-onnx.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'

/** The files that a guide shows: each block begins with a comment that names one. */
function filesOf(guide: string): Record<string, string> {
  const text = readFileSync(path.join(import.meta.dirname, '../../docs/guide', guide), 'utf8')
  const blocks = [...text.matchAll(/```\w+\n(?:#|\/\/) models\/(\S+)[^\n]*\n([\s\S]*?)```/g)]
  assert.ok(blocks.length > 0)
  return Object.fromEntries(blocks.map(([, file = '', content = '']) => [file, content]))
}

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
  const engine = await createEngine({ modelRepository: root })
  context.after(async () => {
    await engine.close()
    await remove()
  })
  assert.deepEqual(engine.index().map(({ reason }) => reason).join(), engine.index().map(() => '').join()) // prettier-ignore
  return engine
}

const numbers = (result: InferResult | undefined, output: string): number[] =>
  Array.from((result?.outputs[output]?.data ?? []) as ArrayLike<number>, Number)

const rows = (values: readonly number[]) => ({ shape: [1, values.length], data: Float32Array.from(values) })

const batchSizes = (engine: EmbeddedEngine, model: string): number[] =>
  engine.engine.statistics(model, '').flatMap(({ batchStats }) => batchStats.map(({ batchSize }) => batchSize))

test('the requests of the guide run together, and their padded inputs come back as long as they were', async (context) => {
  const engine = await engineOf(context, filesOf('batching.md'))
  const together = await Promise.all(Array.from({ length: 8 }, () => engine.infer('together', { X: rows([1]) })))
  for (const result of together) assert.deepEqual(numbers(result, 'ROWS'), [8])
  const lengths = [[1, 2, 3], [4], [1, 2], [1, 2, 3, 4], [5, 6, 7, 8, 9], [7, 7], [1, 2], [3]]
  const doubled = await Promise.all(lengths.map((values) => engine.infer('doubled', { X: rows(values) })))
  for (const [i, result] of doubled.entries()) {
    const own = lengths[i] as number[]
    assert.deepEqual(numbers(result, 'Y'), own.map((value) => value * 2)) // prettier-ignore
    assert.deepEqual(result.outputs['Y']?.shape, [1, own.length])
    assert.deepEqual(numbers(result, 'LENGTH'), [own.length <= 4 ? 4 : 16])
  }
})

const ragged: OnnxModel = {
  inputs: [
    { name: 'X', type: 'FP32', shape: ['elements'] },
    { name: 'COUNTS', type: 'FP32', shape: ['requests'] },
  ],
  outputs: [
    { name: 'Y', type: 'FP32', shape: ['elements'] },
    { name: 'COUNT', type: 'FP32', shape: ['requests', 1] },
  ],
  initializers: [
    { name: 'two', type: 'FP32', dims: [1], raw: floats(2) },
    { name: 'one', type: 'INT64', dims: [1], raw: int64s(1) },
  ],
  nodes: [
    { op: 'Mul', inputs: ['X', 'two'], outputs: ['Y'] },
    { op: 'Unsqueeze', inputs: ['COUNTS', 'one'], outputs: ['COUNT'] },
  ],
}

const raggedConfig = `
  backend: "onnxruntime" max_batch_size: 8
  input { name: "X" data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true }
  output { name: "Y" data_type: TYPE_FP32 dims: -1 }
  output { name: "COUNT" data_type: TYPE_FP32 dims: 1 }
  batch_input { kind: BATCH_ELEMENT_COUNT target_name: "COUNTS" data_type: TYPE_FP32 source_input: "X" }
  batch_output { target_name: "Y" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "X" }
  dynamic_batching { max_queue_delay_microseconds: 50000 }
  instance_group { count: 1 }`

test('a ragged ONNX model runs requests of different length in one execution', async (context) => {
  const engine = await engineOf(context, { 'ragged/config.pbtxt': raggedConfig }, { ragged })
  const lengths = [1, 5, 2, 3, 1, 4, 2, 6]
  const results = await Promise.all(
    lengths.map((length, i) => engine.infer('ragged', { X: rows(Array.from({ length }, (_, at) => 10 * i + at)) })),
  )
  for (const [i, result] of results.entries()) {
    const length = lengths[i] as number
    assert.deepEqual(result.outputs['Y']?.shape, [1, length])
    assert.deepEqual(numbers(result, 'Y'), Array.from({ length }, (_, at) => 2 * (10 * i + at))) // prettier-ignore
    assert.deepEqual(numbers(result, 'COUNT'), [length])
  }
  assert.deepEqual(batchSizes(engine, 'ragged'), [8])
})

test('a padded ONNX model runs them as rows of one length, and reads no filling into the answers', async (context) => {
  const value = (name: string) => ({ name, type: 'FP32', shape: ['batch', 'n'] }) as const
  const onnx: OnnxModel = {
    inputs: [value('X')],
    outputs: [value('Y')],
    initializers: [{ name: 'two', type: 'FP32', dims: [1], raw: floats(2) }],
    nodes: [{ op: 'Mul', inputs: ['X', 'two'], outputs: ['Y'] }],
  }
  const parameter = (key: string, text: string): string =>
    `parameters { key: "${key}" value { string_value: "${text}" } }`
  const config = `
    backend: "onnxruntime" max_batch_size: 8
    input { name: "X" data_type: TYPE_FP32 dims: -1 }
    output { name: "Y" data_type: TYPE_FP32 dims: -1 }
    dynamic_batching { max_queue_delay_microseconds: 50000 }
    instance_group { count: 1 }
    ${parameter('pad_inputs', 'X')} ${parameter('pad_value', '-7')}`
  const engine = await engineOf(context, { 'padded/config.pbtxt': config }, { padded: onnx })
  const lengths = [3, 1, 2, 6, 5, 4, 1, 1]
  const results = await Promise.all(lengths.map((length, i) => engine.infer('padded', { X: rows(Array(length).fill(i)) }))) // prettier-ignore
  for (const [i, result] of results.entries()) {
    assert.deepEqual(result.outputs['Y']?.shape, [1, lengths[i]])
    assert.deepEqual(numbers(result, 'Y'), Array(lengths[i]).fill(2 * i)) // prettier-ignore
  }
  assert.deepEqual(batchSizes(engine, 'padded'), [8])
})

test('requests with different optional inputs never share an execution', async (context) => {
  const config = `
    backend: "typescript" max_batch_size: 8
    input { name: "X" data_type: TYPE_FP32 dims: 1 }
    input { name: "MORE" data_type: TYPE_FP32 dims: 1 optional: true }
    output { name: "SETS" data_type: TYPE_INT32 dims: 1 }
    dynamic_batching { max_queue_delay_microseconds: 50000 }`
  const model = `
    import { tensor } from 'galatea/model'
    export const execute = (requests) => {
      const sets = new Set(requests.map((request) => [...request.inputs.keys()].sort().join()))
      return requests.map(() => [tensor('SETS', 'INT32', [1, 1], [sets.size])])
    }`
  const engine = await engineOf(context, { 'pick/config.pbtxt': config, 'pick/1/model.ts': model })
  const results = await Promise.all(
    [0, 1, 1, 0, 0, 1, 1, 1].map((more) =>
      engine.infer('pick', more === 0 ? { X: rows([1]) } : { X: rows([1]), MORE: rows([2]) }),
    ),
  )
  for (const result of results) assert.deepEqual(numbers(result, 'SETS'), [1])
  assert.ok(Math.max(...batchSizes(engine, 'pick')) > 1)
})

test('of six requests at once to the model of the overload guide one runs, two wait and three are refused', async (context) => {
  const engine = await engineOf(context, filesOf('overload.md'))
  const outcomes = await Promise.allSettled(Array.from({ length: 6 }, () => engine.infer('slow', { X: rows([1]) })))
  const refusals = outcomes.filter((outcome) => outcome.status === 'rejected').map(({ reason }) => String(reason))
  assert.equal(refusals.length, 3)
  for (const refusal of refusals) assert.match(refusal, /Exceeds maximum queue size/)
})

test('a request that is given up in the queue ends while the model is still busy, and never runs', async (context) => {
  const engine = await engineOf(context, filesOf('overload.md'))
  const running = engine.infer('slow', { X: rows([1]) })
  const order: string[] = []
  const abort = new AbortController()
  const waiting = engine.infer('slow', { X: rows([2]) }, { signal: abort.signal }).catch(() => order.push('cancelled'))
  abort.abort()
  await waiting
  await running.then(() => order.push('answered'))
  assert.deepEqual(order, ['cancelled', 'answered'])
  assert.deepEqual(batchSizes(engine, 'slow'), [1])
  const [statistics] = engine.engine.statistics('slow', '')
  assert.equal(Number(statistics?.executionCount), 1)
})
