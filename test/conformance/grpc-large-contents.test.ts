// Typed contents of megabytes: read in steps, in order, not for those who have gone, and awaited by a server that exits.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { encodeContents, encodeContentsInSteps } from '../../src/protocol/grpc/infer-contents.ts'
import type { Tensor } from '../../src/tensor/tensor.ts'
import { decode, encode, GrpcFixture, service, type Message } from './grpc-fixture.ts'

const config =
  'input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] } output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }'

/** Protobuf of an InferTensorContents whose packed field holds `payload`. */
function packed(field: number, payload: Buffer): Buffer {
  const length: number[] = []
  for (let left = payload.length; ; left = Math.floor(left / 128)) {
    length.push(left < 128 ? left : (left % 128) | 128)
    if (left < 128) break
  }
  return Buffer.concat([Buffer.from([field * 8 + 2, ...length]), payload])
}

const count = 1_000_000
const request = (id: string, elements = count): Message => ({
  model_name: 'sum',
  id,
  inputs: [
    {
      name: 'IN',
      datatype: 'INT32',
      shape: [elements],
      contents: { int_contents: Array.from({ length: elements }, (_, i) => i % 100) },
    },
  ],
})
const large = encode('ModelInferRequest', request('large'))
const small = encode('ModelInferRequest', request('small', 3))

/** A model that adds its numbers up, and who asked it. */
async function startSums(): Promise<{ fixture: GrpcFixture; asked: string[] }> {
  const asked: string[] = []
  const run = (inference: InferenceRequest): void => {
    asked.push(inference.id)
    const { bytes } = inference.inputs[0] as Tensor
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
    let sum = 0
    for (let at = 0; at < bytes.length; at += 4) sum += view.getInt32(at, true)
    const answer = { name: 'OUT', dataType: 'INT32', shape: [1], bytes: new Uint8Array(Int32Array.of(sum).buffer) }
    inference.respond(InferenceResponse.of([answer as unknown as Tensor]))
  }
  return { fixture: await GrpcFixture.start({}, { sum: { config, run } }), asked }
}

const sumOf = (message: Message): number =>
  Buffer.from((message['raw_output_contents'] as Uint8Array[])[0] as Uint8Array).readInt32LE()

/** Resolves when the server has begun to read a request in steps. */
function reading({ engine }: GrpcFixture): Promise<void> {
  const expect = engine.expectRequest.bind(engine)
  return new Promise((resolve) => {
    engine.expectRequest = () => {
      resolve()
      return expect()
    }
  })
}

test('steps give the same bytes as one go, and there are many of them', () => {
  const varints = Buffer.from(Array.from({ length: 3 * 200_000 }, (_, i) => (i % 3 < 2 ? 0x80 | (i % 128) : i % 128)))
  const floats = Buffer.from(Float32Array.from({ length: 2_000_000 }, (_, i) => i).buffer)
  const texts = Buffer.concat(Array.from({ length: 100_000 }, (_, i) => packed(8, Buffer.from(String(i)))))
  const cases = [
    { contents: [packed(2, varints)], dataType: 'INT32', leastSteps: 20, bytes: 800_000 },
    { contents: [packed(5, varints), packed(5, varints)], dataType: 'UINT64', leastSteps: 40, bytes: 3_200_000 },
    { contents: [packed(6, floats)], dataType: 'FP32', leastSteps: 7, bytes: floats.length },
    { contents: [texts], dataType: 'BYTES', leastSteps: 6, bytes: 888_890 },
  ]
  for (const { contents, dataType, leastSteps, bytes } of cases) {
    const steps = encodeContentsInSteps(contents, dataType, 'x')
    let taken = 0
    let step = steps.next()
    for (; step.done !== true; step = steps.next()) taken++
    assert.ok(taken >= leastSteps, `${taken} steps for ${dataType}`)
    assert.equal(step.value.length, bytes)
    assert.ok(Buffer.from(step.value).equals(encodeContents(contents, dataType, 'x')))
  }
  assert.ok(Buffer.from(encodeContents([packed(6, floats)], 'FP32', 'x')).equals(floats))
})

test('a large request is answered like a small one', async () => {
  const { fixture } = await startSums()
  await using _ = fixture
  const { code, details, bytes } = await fixture.raw(`${service}ModelInfer`, large)
  assert.equal(code, 'OK', details)
  assert.equal(sumOf(decode('ModelInferResponse', bytes as Buffer)), (count / 100) * 4950)
})

test('a large request that is refused gets the words of a small one', async () => {
  const { fixture } = await startSums()
  await using _ = fixture
  for (const elements of [1, count]) {
    const wrong = request('wrong', elements)
    ;(wrong['inputs'] as Message[])[0] = { ...(wrong['inputs'] as Message[])[0], datatype: 'FP32' }
    const { code, details } = await fixture.call('ModelInfer', wrong)
    assert.equal(code, 'INVALID_ARGUMENT')
    assert.equal(
      details,
      "unexpected explicit tensor data for input tensor 'IN' for model 'sum' of type 'INT32', expected datatype 'FP32'",
    )
  }
})

test('requests of a stream reach the model in their order, whatever their size', async () => {
  const { fixture, asked } = await startSums()
  await using _ = fixture
  const stream = fixture.stream()
  const answers: string[] = []
  stream.on('data', (bytes: Buffer) => {
    const { infer_response: answer } = decode('ModelStreamInferResponse', bytes) as { infer_response: { id: string } }
    answers.push(answer.id)
  })
  for (const message of [small, large, small, large, small]) stream.write(message)
  stream.end()
  await once(stream, 'end')
  const order = ['small', 'large', 'small', 'large', 'small']
  assert.deepEqual(asked, order)
  assert.deepEqual(answers, order)
})

test('a request whose client gives up while it is read never reaches the model', async () => {
  const { fixture, asked } = await startSums()
  await using _ = fixture
  const begun = reading(fixture)
  const stream = fixture.stream()
  // Long enough that the news arrive many steps before the last one.
  stream.write(encode('ModelInferRequest', request('largest', 8 * count)))
  await begun
  const ended = new Promise((resolve) => stream.once('error', resolve))
  stream.cancel()
  await ended
  const { code } = await fixture.raw(`${service}ModelInfer`, small)
  assert.equal(code, 'OK')
  assert.deepEqual(asked, ['small'])
})

test('a server that exits waits for a request that it is still reading', async () => {
  const { fixture } = await startSums()
  await using _ = fixture
  const begun = reading(fixture)
  const answer = fixture.raw(`${service}ModelInfer`, large)
  await begun
  const closed = fixture.engine.close(30_000)
  const { code, details } = await answer
  assert.equal(code, 'OK', details)
  await closed
})
