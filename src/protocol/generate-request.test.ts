import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { everyType, signatureOf } from '../../test/fixtures/signature-of.ts'
import { ServerError, type ErrorCode } from '../base/server-error.ts'
import type { ModelSignature } from '../config/model-signature.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { readGenerateRequest, type ParsedGenerate } from './generate-request.ts'
import { defaultRequestLimits } from '../../test/fixtures/request-limits.ts'
import type { RequestLimits } from './request-limits.ts'

const echo = signatureOf('echo', 0, everyType('IN', [-1]), everyType('OUT', [-1]))
const ofInt32 = (dims: number[], maxBatchSize = 0): ModelSignature =>
  signatureOf('m', maxBatchSize, [['X', 'INT32', dims]], [])

type Settings = { signature?: ModelSignature; limits?: Partial<RequestLimits> }

const read = (body: string, { signature = echo, limits = {} }: Settings = {}): ParsedGenerate =>
  readGenerateRequest(Buffer.from(body), signature, { ...defaultRequestLimits, ...limits })

function refuses(body: string, code: ErrorCode, message: string, settings: Settings = {}): void {
  assert.throws(
    () => read(body, settings),
    (reason) => {
      assert(reason instanceof ServerError)
      assert.equal(reason.message, message)
      assert.equal(reason.code, code)
      return true
    },
  )
}

const int32s = ({ bytes }: Tensor): number[] => [...new Int32Array(Uint8Array.from(bytes).buffer)]

test('a key that names an input is a tensor, every other key a parameter', () => {
  const { id, inputs, parameters } = read('{"IN_INT32":[1,2],"a":"b","n":3,"d":0.5,"t":true,"id":"q"}')
  assert.equal(id, 'q')
  assert.deepEqual(
    inputs.map(({ name, dataType, shape }) => [name, dataType, shape]),
    [['IN_INT32', 'INT32', [2]]],
  )
  assert.deepEqual(int32s(inputs[0] as Tensor), [1, 2])
  assert.deepEqual(
    [...parameters],
    [
      ['a', 'b'],
      ['n', 3n],
      ['d', 0.5],
      ['t', true],
      ['id', 'q'],
    ],
  )
})

test("keys inside 'parameters' count like those outside, and their errors say where they were", () => {
  const { inputs, parameters } = read('{"parameters":{"IN_BYTES":"hi","k":1}}')
  assert.deepEqual(inputs[0]?.bytes, Buffer.from('\x02\0\0\0hi'))
  assert.deepEqual([...parameters], [['k', 1n]])
  const where = "Converting keyword: 'parameters': "
  const wrongType = "has invalid type. It should be either 'int', 'bool', or 'string'."
  refuses('{"parameters":{"parameters":{"a":1}}}', 'INVALID_ARG', `${where}parameter 'parameters' ${wrongType}`)
  refuses('{"parameters":{"o":null}}', 'INVALID_ARG', `${where}parameter 'o' ${wrongType}`)
  refuses(
    '{"parameters":7}',
    'INTERNAL',
    "Expected JSON object for keyword: 'parameters': attempt to access JSON non-object as object",
  )
})

test("of a parameter beside 'parameters' and one inside, the later one counts", () => {
  const bodies: [body: string, x: bigint][] = [
    ['{"x":2,"parameters":{"x":1}}', 1n],
    ['{"parameters":{"x":1},"x":2}', 2n],
    ['{"x":1,"parameters":{"x":2},"x":3}', 1n],
    ['{"parameters":{"x":1},"parameters":{"x":2}}', 1n],
  ]
  for (const [body, x] of bodies) assert.deepEqual([...read(body).parameters], [['x', x]], body)
})

test("a model with an input called 'parameters' cannot be asked this way", () => {
  const signature = signatureOf('m', 0, [['parameters', 'INT32', [1]]], [])
  refuses('{"parameters":1}', 'INVALID_ARG', "Keyword 'parameters' for nested schema also given as input tensor name", {
    signature,
  })
})

test('fixed dimensions take their share, the innermost open one the rest, other open ones are 1', () => {
  const shapeOf = (dims: number[], data: string, batch = 0): readonly number[] | undefined =>
    read(`{"X":${data}}`, { signature: ofInt32(dims, batch) }).inputs[0]?.shape
  assert.deepEqual(shapeOf([-1, 2], '[1,2,3,4]'), [2, 2])
  assert.deepEqual(shapeOf([-1, 2, -1], '[1,2,3,4]'), [1, 2, 2])
  assert.deepEqual(shapeOf([1], '5'), [1])
  assert.deepEqual(shapeOf([2], '[1,2,3,4]', 8), [2, 2])
  assert.deepEqual(shapeOf([-1], '[]'), [0])
  const text = "The schema can not convert input 'X' to tensor with proper shape"
  for (const [dims, data] of [
    [[-1, 2], '[1,2,3]'],
    [[2], '[1,2,3,4]'],
    [[1], '[]'],
    [[2], '7'],
  ] as const) {
    refuses(`{"X":${data}}`, 'INVALID_ARG', text, { signature: ofInt32([...dims]) })
  }
})

test('what is in an array is counted by its outer length and must then fit', () => {
  const text = "Unable to parse 'data': Shape does not match true shape of 'data' field"
  refuses('{"X":[[1,2],[3,4]]}', 'INTERNAL', text, { signature: ofInt32([-1, 2]) })
  assert.deepEqual(int32s(read('{"X":[[5]]}', { signature: ofInt32([1]) }).inputs[0] as Tensor), [5])
})

test('a lone value is read like an array of one, with the errors of one', () => {
  assert.deepEqual(int32s(read('{"IN_INT32": -7 }').inputs[0] as Tensor), [-7])
  const text = "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"
  for (const value of ['"x"', '1.5', 'null', '{"a":1}']) refuses(`{"IN_INT32":${value}}`, 'INTERNAL', text)
  const strings = 'Unable to parse JSON bytes array: attempt to access JSON non-string as string'
  for (const value of ['5', '["a",1]', '{}']) refuses(`{"IN_BYTES":${value}}`, 'INTERNAL', strings)
})

test('malformed JSON wins over everything the text says', () => {
  refuses('', 'INTERNAL', 'failed to parse the request JSON buffer: The document is empty. at 0')
  refuses(
    '{"IN_INT32":"x",',
    'INTERNAL',
    'failed to parse the request JSON buffer: Missing a name for object member. at 16',
  )
  for (const body of ['[1]', 'null', '"x"']) refuses(body, 'INTERNAL', 'attempt to get members for non-object')
})

test('an id is text, types without JSON form are refused, an input comes once', () => {
  refuses('{"id":4}', 'INTERNAL', "Unable to parse 'id': attempt to access JSON non-string as string")
  for (const type of ['FP16', 'BF16']) {
    refuses(
      `{"IN_${type}":[]}`,
      'INVALID_ARG',
      `receiving ${type} data via JSON is not supported. Please use the binary data format for input IN_${type}`,
    )
  }
  refuses(
    '{"IN_INT32":1,"IN_INT32":2}',
    'INVALID_ARG',
    "[request id: <id_unknown>] input 'IN_INT32' already exists in request",
  )
  assert.deepEqual([...read('{"x":1,"x":"two"}').parameters], [['x', 1n]])
})

test('every limit is held, and its refusal names the flag', () => {
  const many = JSON.stringify(Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`p${i}`, i])))
  assert.throws(() => read(many, { limits: { maxParameters: 10 } }), /--max-request-parameters/)
  assert.throws(() => read(many, { limits: { maxParameters: 2, maxTensors: 2 } }), /--max-request-parameters/)
  assert.throws(() => read('{"id":"12345"}', { limits: { maxIdBytes: 4 } }), /--max-request-id-bytes/)
  assert.throws(() => read('{"IN_INT32":1,"IN_INT8":1}', { limits: { maxTensors: 1 } }), /--max-request-tensors/)
  refuses(
    '{"IN_INT32":[1,2],"IN_INT64":[1]}',
    'INVALID_ARG',
    "request size of 16 bytes with input 'IN_INT64' of size 8 bytes exceeds the maximum allowed input size of 12. " +
      'Use --http-max-input-size to increase the limit.',
    { limits: { maxInputBytes: 12 } },
  )
})

test('whatever bytes come, they are read or refused with a ServerError', () => {
  const pieces = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"IN_INT32"',
    '"IN_BYTES"',
    '"parameters"',
    '"id"',
    '1',
    '"a"',
    'null',
    ' ',
  )
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 24 }), (parts) => {
      try {
        read(parts.join(''))
      } catch (reason) {
        assert(reason instanceof ServerError, String(reason))
      }
    }),
    { numRuns: 3000 },
  )
})
