import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultMaxBatchSizeIn, threadSettings } from './backend-settings.ts'

const settings = (given: Readonly<Record<string, string>>) => new Map(Object.entries(given))

test('one pool of threads for all models is switched on with any of Triton’s words for truth', () => {
  for (const word of ['1', 'true', 'ON']) {
    const given = { 'enable-global-threadpool': word, intra_op_thread_count: '3', inter_op_thread_count: '-1' }
    assert.deepEqual(threadSettings(settings(given)).globalThreads, { intraOp: 3, interOp: 0 })
  }
  for (const word of ['0', 'False', 'off']) {
    assert.equal(threadSettings(settings({ 'enable-global-threadpool': word })).globalThreads, null)
  }
})

test('numbers of threads without such a pool have no effect, and a line says so', () => {
  const { warnings, globalThreads } = threadSettings(settings({ intra_op_thread_count: '3' }))
  assert.equal(globalThreads, null)
  assert.match(warnings.join(), /intra_op_thread_count has no effect without .*enable-global-threadpool=1/)
  assert.deepEqual(threadSettings(settings({ 'max-threads': '3' })), {
    maxThreads: 3,
    globalThreads: null,
    warnings: [],
  })
})

test('a value that cannot be read is refused with its key', () => {
  for (const [key, value] of [
    ['enable-global-threadpool', 'maybe'],
    ['intra_op_thread_count', 'many'],
    ['inter_op_thread_count', '1.5'],
    ['max-threads', ''],
  ] as const) {
    assert.throws(
      () => threadSettings(settings({ [key]: value })),
      (error: Error) =>
        error.message.startsWith(`--backend-config=onnxruntime,${key} must be`) && error.message.includes(`'${value}'`),
    )
  }
  assert.throws(
    () => defaultMaxBatchSizeIn(settings({ 'default-max-batch-size': 'big' })),
    /must be a whole number, got 'big'/,
  )
})

test('without a word a model that can take batches takes 4', () => {
  assert.equal(defaultMaxBatchSizeIn(settings({})), 4)
  assert.equal(defaultMaxBatchSizeIn(settings({ 'default-max-batch-size': '0' })), 0)
})
