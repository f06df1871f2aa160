// Galatea in the caller's own process: the public API, on the example models.

import assert from 'node:assert/strict'
import path from 'node:path'
import test from 'node:test'
import { createEngine, ServerError } from '../../src/index.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'

const examples = path.join(import.meta.dirname, '../../examples/models')
const counting = Int32Array.from({ length: 16 }, (_, i) => i)
const ones = new Int32Array(16).fill(1)

test('an embedded engine infers with typed arrays in and out, and opens no port', async () => {
  const engine = await createEngine({ modelRepository: examples })
  const { outputs } = await engine.infer('simple', { INPUT0: counting, INPUT1: ones })
  assert.deepEqual(outputs['OUTPUT0'], {
    dataType: 'INT32',
    shape: [1, 16],
    data: counting.map((value) => value + 1),
  })
  assert.deepEqual(
    outputs['OUTPUT1']?.data,
    counting.map((value) => value - 1),
  )
  const listening = process.getActiveResourcesInfo().filter((kind) => kind.includes('Server'))
  assert.deepEqual(listening, [])
  await engine.close()
})

test('rows follow from the number of values, and only the outputs asked for come back', async () => {
  const engine = await createEngine({ modelRepository: examples })
  const twoRows = Int32Array.from([...counting, ...counting])
  const { outputs } = await engine.infer('simple', { INPUT0: twoRows, INPUT1: twoRows }, { outputs: ['OUTPUT0'] })
  assert.deepEqual(Object.keys(outputs), ['OUTPUT0'])
  assert.deepEqual(outputs['OUTPUT0']?.shape, [2, 16])
  await engine.close()
})

test('errors are the ones an HTTP client would get', async () => {
  const engine = await createEngine({ modelRepository: examples })
  await assert.rejects(engine.infer('nobody', {}), {
    code: 'NOT_FOUND',
    message: "Request for unknown model: 'nobody' is not found",
  })
  await assert.rejects(engine.infer('simple', { INPUT0: counting }), /missing 'INPUT1'\. Model 'simple' expects/)
  await assert.rejects(
    engine.infer('simple', { INPUT0: new Float32Array(16), INPUT1: ones }),
    (error: ServerError) =>
      error instanceof ServerError && /needs a Int32Array, got a Float32Array/.test(error.message),
  )
  await engine.close()
  await assert.rejects(engine.infer('simple', { INPUT0: counting, INPUT1: ones }), /Server exiting/)
})

test('a model that did not load gives its reason where it is called; images go in as bytes', async () => {
  const tensors = (type: string): string =>
    `input { name: "IN" data_type: ${type} dims: [ 1 ] } output { name: "OUT" data_type: ${type} dims: [ 1 ] }`
  const repository = await temporaryRepository({
    'echo/config.pbtxt': `backend: "identity" ${tensors('TYPE_STRING')}`,
    'echo/1/': '',
    'both/config.pbtxt': `platform: "ensemble" ${tensors('TYPE_STRING')} ensemble_scheduling { step { model_name: "gone" model_version: -1
      input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } }`,
    'both/1/': '',
  })
  const engine = await createEngine({ modelRepository: repository.root })
  try {
    const { outputs } = await engine.infer('echo', { IN: [Uint8Array.of(0x68, 0x69)] })
    assert.deepEqual(outputs['OUT']?.data, ['hi'])
    const reason = /'both' is not found: .*contains models that are not available or ambiguous: gone/
    await assert.rejects(engine.infer('both', { IN: ['x'] }), reason)
    await assert.rejects(engine.inferStream('both', { IN: ['x'] }).next(), reason)
  } finally {
    await engine.close()
    await repository.remove()
  }
})

test('with explicit control the owner of the process loads and unloads', async () => {
  const engine = await createEngine({ modelRepository: examples, modelControlMode: 'explicit' })
  assert.equal(engine.isModelReady('simple'), false)
  await engine.load('simple')
  assert.equal(engine.isModelReady('simple'), true)
  assert.deepEqual(engine.metadata('simple').versions, ['1'])
  await engine.unload('simple')
  assert.deepEqual(engine.index(), [{ name: 'simple', version: '1', state: 'UNAVAILABLE', reason: 'unloaded' }])
  await engine.close()
})

test('every setting of an Engine counts, the response cache too', async () => {
  const config = `backend: "identity" max_batch_size: 0 response_cache { enable: true }
    input { name: "IN" data_type: TYPE_INT32 dims: [ 16 ] }
    output { name: "OUT" data_type: TYPE_INT32 dims: [ 16 ] }`
  const repository = await temporaryRepository({ 'echo/config.pbtxt': config, 'echo/1/': '' })
  const responseCache = { kind: 'local', maxBytes: 1_000_000 } as const
  const engine = await createEngine({ modelRepository: repository.root, responseCache })
  for (const _ of [1, 2]) {
    const { outputs } = await engine.infer('echo', { IN: counting })
    assert.deepEqual(outputs['OUT']?.data, counting)
  }
  assert.equal(engine.engine.statistics('echo', '')[0]?.inferenceStats.cacheHit.count, 1)
  await engine.close()
  await repository.remove()
})
