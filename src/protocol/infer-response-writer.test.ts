import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signatureOf } from '../../test/fixtures/signature-of.ts'
import { ServerError } from '../base/server-error.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { encodeBytesElements } from '../tensor/bytes-elements.ts'
import { Tensor } from '../tensor/tensor.ts'
import { encodeErrorBody } from './error-body.ts'
import type { OutputSelection } from './parsed-infer.ts'
import { writeInferResponse, type InferResponseContext } from './infer-response-writer.ts'

const context: InferResponseContext = {
  modelName: 'm',
  modelVersion: '3',
  id: '',
  signature: signatureOf('m', 0, [], [['A', 'UINT8', [-1]]], { A: ['cat'] }),
  outputs: [],
  binaryOutputDefault: false,
}
const select = (name: string, changes: Partial<OutputSelection> = {}): OutputSelection => ({
  name,
  isBinary: false,
  classificationCount: 0,
  sharedMemory: null,
  ...changes,
})
const bytesOf = (name: string, ...values: number[]): Tensor =>
  new Tensor(name, 'UINT8', [values.length], Uint8Array.from(values))

test('an id and parameters stand where Triton puts them', () => {
  const parameters = new Map<string, string | bigint | boolean | number>([
    ['s', 'a"b'],
    ['i', 2n ** 63n],
    ['b', false],
    ['d', 1],
  ])
  const { head, isBinary } = writeInferResponse(InferenceResponse.of([], { parameters }), { ...context, id: 'ü\n' })
  assert.equal(
    head.toString(),
    '{"id":"ü\\n","model_name":"m","model_version":"3","parameters":{"s":"a\\"b","i":9223372036854775808,"b":false,"d":1.0},"outputs":[]}',
  )
  assert.equal(isBinary, false)
})

test('outputs keep the order of the model, binary ones leave as the same bytes', () => {
  const response = InferenceResponse.of([bytesOf('A', 1, 2), bytesOf('B', 3), bytesOf('C', 4)])
  const { head, parts, isBinary } = writeInferResponse(response, {
    ...context,
    outputs: [select('C', { isBinary: true }), select('B'), select('A', { isBinary: true })],
  })
  assert.equal(
    head.toString(),
    '{"model_name":"m","model_version":"3","outputs":[{"name":"A","datatype":"UINT8","shape":[2],"parameters":{"binary_data_size":2}},' +
      '{"name":"B","datatype":"UINT8","shape":[1],"data":[3]},{"name":"C","datatype":"UINT8","shape":[1],"parameters":{"binary_data_size":1}}]}',
  )
  assert.equal(isBinary, true)
  assert.equal(parts[0], response.outputs[0]!.bytes)
  assert.equal(parts[1], response.outputs[2]!.bytes)
})

test('an output that was not asked for stays here', () => {
  const { head } = writeInferResponse(InferenceResponse.of([bytesOf('A', 1), bytesOf('B', 2)]), {
    ...context,
    outputs: [select('B')],
  })
  assert.deepEqual(
    JSON.parse(head.toString()).outputs.map((each: { name: string }) => each.name),
    ['B'],
  )
})

test('binary outputs without a byte do not make the body binary', () => {
  const { isBinary } = writeInferResponse(InferenceResponse.of([bytesOf('A')]), {
    ...context,
    binaryOutputDefault: true,
  })
  assert.equal(isBinary, false)
})

test('an output in shared memory carries neither data nor a size', () => {
  const { head, parts } = writeInferResponse(InferenceResponse.of([bytesOf('A', 1)]), {
    ...context,
    outputs: [select('A', { sharedMemory: { region: 'r', offset: 0n, byteSize: 1n } })],
  })
  assert.equal(
    head.toString(),
    '{"model_name":"m","model_version":"3","outputs":[{"name":"A","datatype":"UINT8","shape":[1]}]}',
  )
  assert.equal(parts.length, 0)
})

test('classes replace the output and know their labels', () => {
  const { head } = writeInferResponse(InferenceResponse.of([bytesOf('A', 9, 4)]), {
    ...context,
    outputs: [select('A', { classificationCount: 1 })],
  })
  assert.equal(
    head.toString(),
    '{"model_name":"m","model_version":"3","outputs":[{"name":"A","datatype":"BYTES","shape":[1],"data":["9:0:cat"]}]}',
  )
})

test('bytes that do not fill the shape are an error of the model, in every type', () => {
  const message = "output tensor shape does not match size of output for 'A'"
  for (const tensor of [
    new Tensor('A', 'FP32', [2], new Uint8Array(4)),
    new Tensor('A', 'BOOL', [2], new Uint8Array(1)),
    new Tensor('A', 'BYTES', [2], encodeBytesElements(['x'])),
    new Tensor('A', 'BYTES', [1], Uint8Array.of(9, 0, 0, 0, 65)),
  ]) {
    assert.throws(
      () => writeInferResponse(InferenceResponse.of([tensor]), context),
      new ServerError('INTERNAL', message),
    )
  }
})

test('half-precision floats do not go out in JSON', () => {
  for (const dataType of ['FP16', 'BF16'] as const) {
    assert.throws(
      () => writeInferResponse(InferenceResponse.of([new Tensor('A', dataType, [1], new Uint8Array(2))]), context),
      new ServerError(
        'INVALID_ARG',
        `sending ${dataType} data via JSON is not supported. Please use the binary data format for output`,
      ),
    )
  }
})

test('the error of a response is thrown', () => {
  const error = new ServerError('UNAVAILABLE', 'gone')
  assert.throws(() => writeInferResponse(InferenceResponse.failure(error), context), error)
})

test('an error body escapes its message', () => {
  assert.equal(encodeErrorBody('a "b"\\\u0001é').toString(), '{"error":"a \\"b\\"\\\\\\u0001é"}')
  const long = `${'x'.repeat(5000)}\n`
  assert.deepEqual(JSON.parse(encodeErrorBody(long).toString()), { error: long })
})

test('large outputs are written whole', () => {
  const values = Float32Array.from({ length: 100_000 }, (_, i) => i / 7)
  const tensor = new Tensor('A', 'FP32', [values.length], new Uint8Array(values.buffer))
  const { head } = writeInferResponse(InferenceResponse.of([tensor]), context)
  const { outputs } = JSON.parse(head.toString()) as { outputs: { data: number[] }[] }
  assert.deepEqual(Float32Array.from(outputs[0]!.data), values)
})
