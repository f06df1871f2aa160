import assert from 'node:assert/strict'
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { addSubModel, buildOnnx, bytesField, floats, intField, loopModel } from '../../test/fixtures/onnx/build-onnx.ts'
import { ServerError } from '../base/server-error.ts'
import { workFollowsValues } from './value-driven-work.ts'
import { readOnnxFile, type OnnxFile } from './onnx-file.ts'
import { readOnnxSignature } from './onnx-signature.ts'

let folder: string
before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'galatea-onnx-file-'))
})
after(() => rm(folder, { recursive: true, force: true }))

let count = 0
async function read(bytes: Uint8Array): Promise<OnnxFile> {
  const file = path.join(folder, `${count++}.onnx`)
  await writeFile(file, bytes)
  return readOnnxFile(file)
}

test('names, types, shapes, operator sets, producer and metadata are read', async () => {
  const model = await read(
    buildOnnx({
      ...addSubModel('batch', 'FP16', null),
      opset: 15,
      extraOpsets: [{ domain: 'com.example', version: 3 }],
      metadata: { task: 'sums', author: 'ö' },
      producer: 'pytorch',
    }),
  )
  assert.deepEqual(model.inputs, [
    { name: 'INPUT0', dataType: 'FP16', typeText: 'FP16', shape: ['batch', null] },
    { name: 'INPUT1', dataType: 'FP16', typeText: 'FP16', shape: ['batch', null] },
  ])
  assert.deepEqual(
    model.outputs.map(({ name }) => name),
    ['OUTPUT0', 'OUTPUT1'],
  )
  assert.deepEqual(model.opsets, [
    { domain: 'ai.onnx', version: 15 },
    { domain: 'com.example', version: 3 },
  ])
  assert.deepEqual(Object.fromEntries(model.metadata), { task: 'sums', author: 'ö' })
  assert.deepEqual([model.irVersion, model.producerName, model.graphName, model.nodeCount], [8, 'pytorch', 'simple', 2])
  assert.equal(
    workFollowsValues(
      model.nodes,
      model.inputs.map(({ name }) => name),
    ),
    false,
  )
})

test('inputs with an initializer are optional, and weights are counted without being read', async () => {
  const model = await read(
    buildOnnx({
      nodes: [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }],
      inputs: [
        { name: 'x', type: 'FP32', shape: [2] },
        { name: 'w', type: 'FP32', shape: [2] },
      ],
      outputs: [{ name: 'y', type: 'FP32', shape: null }],
      initializers: [
        { name: 'w', type: 'FP32', dims: [2], raw: floats(1, 2) },
        { name: 'far', type: 'FP32', dims: [1000], external: { location: 'weights.bin', offset: 0, length: 4000 } },
      ],
    }),
  )
  assert.deepEqual(
    model.inputs.map(({ name }) => name),
    ['x'],
  )
  assert.deepEqual(
    model.optionalInputs.map(({ name }) => name),
    ['w'],
  )
  assert.equal(model.outputs[0]?.shape, null)
  assert.deepEqual([model.initializerCount, model.initializerBytes], [2, 4008])
  assert.deepEqual(model.externalFiles, ['weights.bin'])
})

test('loops are found, and operators in their bodies are counted', async () => {
  const model = await read(buildOnnx(loopModel(4)))
  assert.equal(workFollowsValues(model.nodes, []), true)
  assert.deepEqual(Object.fromEntries(model.operators), { Loop: 1, Identity: 1, MatMul: 1 })
})

test('weights of gigabytes are skipped, not read', async () => {
  // A graph whose one initializer claims 3 GB of raw data; the file is as long, but empty on disk.
  const rawBytes = 3 * 1024 ** 3
  const varint = intField(1, rawBytes).subarray(1)
  const tensorHead = Buffer.concat([
    intField(1, rawBytes),
    intField(2, 2),
    bytesField(8, 'w'),
    Buffer.from([(9 << 3) | 2]),
    varint,
  ])
  const tensorBytes = tensorHead.length + rawBytes
  const initializerHead = Buffer.concat([Buffer.from([(5 << 3) | 2]), intField(1, tensorBytes).subarray(1)])
  const rest = bytesField(12, bytesField(1, 'y'))
  const graphBytes = initializerHead.length + tensorBytes + rest.length
  const head = Buffer.concat([
    intField(1, 8),
    Buffer.from([(7 << 3) | 2]),
    intField(1, graphBytes).subarray(1),
    initializerHead,
    tensorHead,
  ])
  const file = path.join(folder, 'large.onnx')
  const handle = await open(file, 'w')
  await handle.write(head, 0, head.length, 0)
  await handle.write(rest, 0, rest.length, head.length + rawBytes)
  await handle.close()
  const model = await readOnnxFile(file)
  assert.equal(model.initializerBytes, rawBytes)
  assert.deepEqual(
    model.outputs.map(({ name }) => name),
    ['y'],
  )
})

test('a file that is cut off anywhere is either read or refused, never misread beyond its end', async () => {
  const whole = buildOnnx(addSubModel())
  for (let length = 0; length < whole.length; length += 7) {
    const outcome = await read(whole.subarray(0, length)).then(
      () => 'read',
      (error: unknown) => error,
    )
    assert.ok(outcome === 'read' || outcome instanceof ServerError, String(outcome))
    if (outcome instanceof ServerError) assert.match(outcome.message, /is not a readable ONNX file: at byte \d+, /)
  }
})

test('any bytes at all give a model or a ServerError', async () => {
  const whole = buildOnnx({ ...loopModel(2), metadata: { a: 'b' } })
  const damaged = fc
    .array(fc.tuple(fc.nat(whole.length - 1), fc.nat(255)), { minLength: 1, maxLength: 8 })
    .map((changes) => {
      const bytes = Buffer.from(whole)
      for (const [at, value] of changes) bytes[at] = value
      return bytes
    })
  await fc.assert(
    fc.asyncProperty(fc.oneof(damaged, fc.uint8Array({ maxLength: 300 })), async (bytes) => {
      await read(bytes).catch((error: unknown) => assert.ok(error instanceof ServerError, String(error)))
    }),
    { numRuns: 1000 },
  )
})

test('nesting without end is refused', async () => {
  let graph: Uint8Array = Buffer.alloc(0)
  for (let i = 0; i < 60; i++) graph = bytesField(1, bytesField(5, bytesField(6, graph)))
  await assert.rejects(read(bytesField(7, graph)), /nested too deeply/)
})

test('an overlong text is refused, not read', async () => {
  await assert.rejects(read(bytesField(7, bytesField(2, Buffer.alloc(100_000, 0x61)))), /longer than 65536 bytes/)
})

test('the signature for checking a configuration has -1 for open dimensions, and is null where shapes are missing', async () => {
  const file = path.join(folder, 'signature.onnx')
  await writeFile(file, buildOnnx(addSubModel()))
  assert.deepEqual((await readOnnxSignature(file))?.inputs[0], {
    name: 'INPUT0',
    dataType: 'TYPE_INT32',
    shape: [-1, 16],
  })
  await writeFile(file, buildOnnx({ ...addSubModel(), outputs: [{ name: 'OUTPUT0', type: 'INT32', shape: null }] }))
  assert.equal(await readOnnxSignature(file), null)
  assert.equal(await readOnnxSignature(path.join(folder, 'model.pt')), null)
})
