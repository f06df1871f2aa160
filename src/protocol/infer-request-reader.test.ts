import assert from 'node:assert/strict'
import { test } from 'node:test'
import { everyType, signatureOf } from '../../test/fixtures/signature-of.ts'
import { ServerError, type ErrorCode } from '../base/server-error.ts'
import type { ModelSignature } from '../config/model-signature.ts'
import { defaultRequestLimits } from '../../test/fixtures/request-limits.ts'
import { readInferRequest } from './infer-request-reader.ts'
import type { ParsedInfer } from './parsed-infer.ts'
import type { RequestLimits } from './request-limits.ts'

const echo = signatureOf('echo', 0, everyType('IN', [-1]), everyType('OUT', [-1]))

type Settings = { headerLength?: number | null; signature?: ModelSignature; limits?: Partial<RequestLimits> }

function read(body: string | Uint8Array, settings: Settings = {}): ParsedInfer {
  return readInferRequest(typeof body === 'string' ? Buffer.from(body) : body, {
    headerLength: settings.headerLength ?? null,
    signature: settings.signature ?? echo,
    limits: { ...defaultRequestLimits, ...settings.limits },
  })
}

function refuses(body: string | Uint8Array, code: ErrorCode, message: string, settings: Settings = {}): void {
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

const input = (members: string): string => `{"inputs":[{${members}}]}`
const whole = '"name":"IN_FP32","shape":[2],"datatype":"FP32","data":[1,2]'
const output = (parameters: string): string =>
  `{"inputs":[],"outputs":[{"name":"OUT_FP32","parameters":{${parameters}}}]}`

test('members of an input come in any order', () => {
  const members = whole.match(/"\w+":(?:"\w+"|\[[^\]]*\])/g)!
  for (let i = 0; i < members.length; i++) {
    const rotated = [...members.slice(i), ...members.slice(0, i)]
    const [tensor] = read(input(rotated.join(','))).inputs
    assert.deepEqual([tensor!.name, tensor!.dataType, tensor!.shape], ['IN_FP32', 'FP32', [2]])
    assert.deepEqual([...new Float32Array(Uint8Array.from(tensor!.bytes).buffer)], [1, 2])
  }
})

test('of two members of one name the first counts', () => {
  const request = read(
    `{"id":"a","id":5,"parameters":{"p":1,"p":[]},"parameters":3,${input(`${whole},"data":"x","shape":[9],"name":7`).slice(1, -1)},"inputs":null}`,
  )
  assert.equal(request.id, 'a')
  assert.deepEqual([...request.parameters], [['p', 1n]])
  assert.deepEqual(request.inputs[0]!.shape, [2])
})

test('names may be written with escapes', () => {
  assert.equal(
    read(`{"\\u0069nputs":[{"n\\u0061me":"IN\\u005fFP32","shape":[0],"datatype":"FP32","data":[]}]}`).inputs[0]!.name,
    'IN_FP32',
  )
})

test('malformed JSON wins over a wrong value before it', () => {
  const body = `{"id":5,"inputs":[{${whole.replace('[1,2]', '["x"]')}}] `
  refuses(
    body,
    'INTERNAL',
    `failed to parse the request JSON buffer: Missing a comma or '}' after an object member. at ${body.length}`,
  )
})

test('checks come in the order id, parameters, inputs, left-over bytes, outputs', () => {
  const broken = (...parts: string[]): string => `{${parts.join(',')}}`
  const badOutputs = '"outputs":5'
  const badInputs = '"inputs":5'
  const badParameters = '"parameters":5'
  refuses(
    broken(badOutputs, badInputs, badParameters, '"id":5'),
    'INTERNAL',
    "Unable to parse 'id': attempt to access JSON non-string as string",
  )
  refuses(
    broken(badOutputs, badInputs, badParameters),
    'INTERNAL',
    'failed to get request params.: attempt to get members for non-object',
  )
  refuses(
    broken(badOutputs, badInputs),
    'INTERNAL',
    "Unable to parse 'inputs': attempt to access JSON non-array as array",
  )
  const text = `{"inputs":[],${badOutputs}}`
  refuses(`${text}++`, 'INVALID_ARG', "unexpected additional input data for model 'echo'", {
    headerLength: text.length,
  })
  refuses(text, 'INTERNAL', "Unable to parse 'outputs': attempt to access JSON non-array as array")
})

test('an input says its content in exactly one way', () => {
  const text = (set: string): string =>
    `Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But ${set}`
  refuses(input('"name":"X"'), 'INVALID_ARG', text('no field is set'))
  refuses(
    input('"data":[],"parameters":{"binary_data_size":1,"shared_memory_region":"r"}'),
    'INVALID_ARG',
    text("set 'data' 'binary_data_size' 'shared_memory_region'"),
  )
})

test('the same input twice is refused', () => {
  refuses(
    `{"id":"i","inputs":[{${whole}},{${whole}}]}`,
    'INVALID_ARG',
    "[request id: i] input 'IN_FP32' already exists in request",
  )
})

test('binary inputs are views on the body, in the order of inputs', () => {
  const json =
    '{"inputs":[{"name":"IN_UINT8","shape":[2],"datatype":"UINT8","parameters":{"binary_data_size":2}},' +
    '{"name":"IN_INT8","shape":[1],"datatype":"INT8","parameters":{"binary_data_size":1}}]}'
  const body = Buffer.from(`${json}abc`)
  const [first, second] = read(body, { headerLength: json.length }).inputs
  assert.equal(first!.bytes.buffer, body.buffer)
  assert.equal(Buffer.from(first!.bytes).toString(), 'ab')
  assert.equal(Buffer.from(second!.bytes).toString(), 'c')
  refuses(
    body.subarray(0, -2),
    'INVALID_ARG',
    "unexpected size for input 'IN_UINT8', expecting 1 additional bytes for model 'echo'",
    {
      headerLength: json.length,
    },
  )
  refuses(`${json}abcd`, 'INVALID_ARG', "unexpected additional input data for model 'echo'", {
    headerLength: json.length,
  })
})

test('a size beyond all memory is only a number', () => {
  refuses(
    input('"name":"IN_UINT8","shape":[2],"datatype":"UINT8","parameters":{"binary_data_size":18446744073709551615}'),
    'INVALID_ARG',
    "unexpected size for input 'IN_UINT8', expecting 18446744073709551615 additional bytes for model 'echo'",
  )
})

test('dimensions that cannot be counted are refused where Triton would end', () => {
  refuses(
    input('"name":"IN_FP32","shape":[9223372036854775807],"datatype":"FP32","data":[1]'),
    'INVALID_ARG',
    "invalid shape for input 'IN_FP32': shape [9223372036854775807] contains one or more invalid dimensions",
  )
  const square = signatureOf('m', 0, [['X', 'FP32', [-1, -1]]], [])
  refuses(
    input('"name":"X","shape":[4294967296,4294967296],"datatype":"FP32","data":[1]'),
    'INVALID_ARG',
    "invalid shape for input 'X': shape [4294967296,4294967296] causes total element count to exceed maximum size of 9223372036854775807",
    { signature: square },
  )
})

test('a shape that the text cannot fill costs no memory', () => {
  const before = process.memoryUsage().arrayBuffers
  const limits = { maxInputBytes: 2 ** 40 }
  const inputs = Array.from(
    { length: 200 },
    (_, i) => `{"name":"I${i}","shape":[${1e9 + i}],"datatype":"FP64","data":[1,2]}`,
  )
  refuses(
    `{"inputs":[${inputs.join(',')}]}`,
    'INTERNAL',
    "Unable to parse 'data': Shape does not match true shape of 'data' field",
    { limits },
  )
  const grown = process.memoryUsage().arrayBuffers - before
  assert(grown < 2 ** 20, `${grown} bytes`)
})

test('request parameters are kept as what they are', () => {
  const request = read(
    '{"parameters":{"s":"x","i":-5,"u":18446744073709551615,"b":true,"d":1.5,"sequence_id":7,"sequence_start":true,' +
      '"sequence_end":false,"priority":2,"timeout":9,"binary_data_output":true},"inputs":[]}',
  )
  assert.deepEqual(
    [...request.parameters],
    [
      ['s', 'x'],
      ['i', -5n],
      ['u', 18446744073709552000],
      ['b', true],
      ['d', 1.5],
    ],
  )
  assert.deepEqual(
    [
      request.correlationId,
      request.isSequenceStart,
      request.isSequenceEnd,
      request.priority,
      request.timeoutUs,
      request.binaryOutputDefault,
    ],
    [7n, true, false, 2n, 9n, true],
  )
})

test('an output is read with what is asked of it, the first of two of one name', () => {
  const { outputs } = read(
    '{"inputs":[],"outputs":[{"name":"A","parameters":{"binary_data":true}},{"name":"A"},{"name":"B","parameters":{"classification":3}},' +
      '{"name":"C","parameters":{"shared_memory_region":"r","shared_memory_offset":4,"shared_memory_byte_size":8,"binary_data":false}}]}',
  )
  assert.deepEqual(outputs, [
    { name: 'A', isBinary: true, classificationCount: 0, sharedMemory: null },
    { name: 'B', isBinary: false, classificationCount: 3, sharedMemory: null },
    { name: 'C', isBinary: false, classificationCount: 0, sharedMemory: { region: 'r', offset: 4n, byteSize: 8n } },
  ])
})

test('a number of classes keeps 32 bits, as in Triton: 2^32 classes are none', () => {
  const counts = [2 ** 32, 2 ** 32 + 3].map((count) => {
    const { outputs } = read(`{"inputs":[],"outputs":[{"name":"A","parameters":{"classification":${count}}}]}`)
    return outputs[0]?.classificationCount
  })
  assert.deepEqual(counts, [0, 3])
})

test('an output in shared memory is neither binary nor classified', () => {
  refuses(
    output('"shared_memory_region":"r","classification":0'),
    'INVALID_ARG',
    "Output can't set both 'shared_memory_region' and 'classification'",
  )
  refuses(
    output('"shared_memory_region":"r","binary_data":true'),
    'INVALID_ARG',
    "Output can't set both 'shared_memory_region' and 'binary_data'",
  )
})

test('an input in shared memory stands without bytes and names its place', () => {
  const request = read(
    input(
      '"name":"IN_FP32","shape":[2],"datatype":"FP32","parameters":{"shared_memory_region":"r","shared_memory_byte_size":8}',
    ),
  )
  assert.deepEqual([...request.sharedMemoryInputs], [[0, { region: 'r', offset: 0n, byteSize: 8n }]])
  assert.equal(request.inputs[0]!.bytes.length, 0)
})

const single = (dataType: 'FP32' | 'BYTES', dims: number[], maxBatchSize = 0): ModelSignature =>
  signatureOf('m', maxBatchSize, [['X', dataType, dims]], [])

test('a raw request is the one input, its open dimension worked out from the bytes', () => {
  const body = Buffer.alloc(24)
  const request = read(body, { headerLength: 0, signature: single('FP32', [-1, 2], 4) })
  assert.deepEqual(request.inputs[0]!.shape, [1, 3, 2])
  assert.equal(request.inputs[0]!.bytes, body)
  assert.equal(request.binaryOutputDefault, true)
})

test('a raw BYTES request gets its length prefix', () => {
  const [tensor] = read(Buffer.from('hey'), { headerLength: 0, signature: single('BYTES', [1], 4) }).inputs
  assert.deepEqual([...tensor!.bytes], [3, 0, 0, 0, 0x68, 0x65, 0x79])
  assert.deepEqual(tensor!.shape, [1, 1])
})

test('a raw request that cannot be deduced says why', () => {
  const raw = (message: string, signature: ModelSignature, limits: Partial<RequestLimits> = {}): void =>
    refuses(Buffer.alloc(6), 'INVALID_ARG', message, { headerLength: 0, signature, limits })
  raw(
    "[request id: <id_unknown>] Raw request must only have 1 input (found 1) to be deduced but got 14 inputs in 'echo' model configuration",
    echo,
  )
  raw(
    "[request id: <id_unknown>] The shape of the raw input 'X' can not be deduced because there are more than one variable-sized dimension",
    single('FP32', [-1, -1]),
  )
  raw(
    "[request id: <id_unknown>] For BYTE datatype raw input 'X', the model must have input shape [1]",
    single('BYTES', [2]),
  )
  raw(
    "[request id: <id_unknown>] input byte size mismatch for input 'raw_input' for model 'm'. Expected 4, got 6",
    single('FP32', [-1]),
  )
  raw(
    'Raw input has a byte_size (6 bytes) that exceeds the maximum allowed value of 5 bytes. Use --http-max-input-size to increase the limit.',
    single('FP32', [-1]),
    { maxInputBytes: 5 },
  )
})

test('each limit refuses what is over it, names itself and its flag, and lets through what is at it', () => {
  const limits = { maxTensors: 2, maxRank: 2, maxParameters: 2, maxIdBytes: 4 }
  const empty = (name: string): string => `{"name":"${name}","shape":[0],"datatype":"FP32","data":[]}`
  read(
    `{"id":"abcd","parameters":{"a":1,"b":2},"inputs":[${empty('a')},${empty('b')}],"outputs":[{"name":"x"},{"name":"y"}]}`,
    { limits },
  )
  const over = (body: string, message: string): void =>
    refuses(body, 'INVALID_ARG', `${message} to increase the limit.`, { limits })
  over(
    `{"inputs":[${empty('a')},${empty('b')},5]}`,
    'the request has too many inputs, the maximum is 2. Use --max-request-tensors',
  )
  over(
    '{"inputs":[],"outputs":[{},{},{}]}',
    'the request has too many outputs, the maximum is 2. Use --max-request-tensors',
  )
  over(
    '{"inputs":[{"shape":[1,1,1]}]}',
    "the 'shape' of an input has too many dimensions, the maximum is 2. Use --max-tensor-rank",
  )
  over(
    '{"parameters":{"a":1,"b":2,"c":3},"inputs":[]}',
    'the request has too many parameters, the maximum is 2. Use --max-request-parameters',
  )
  over('{"id":"aбв","inputs":[]}', 'the request id has 5 bytes, the maximum is 4. Use --max-request-id-bytes')
  refuses(
    '{"inputs":[]}',
    'INVALID_ARG',
    'request JSON size of 13 bytes exceeds the maximum allowed input size of 12 bytes. Use --http-max-input-size to increase the limit.',
    { limits: { maxInputBytes: 12 } },
  )
})

test('a string correlation id has at most 128 bytes', () => {
  assert.equal(read(`{"parameters":{"sequence_id":"${'s'.repeat(128)}"},"inputs":[]}`).correlationId, 's'.repeat(128))
  refuses(
    `{"parameters":{"sequence_id":"${'s'.repeat(129)}"},"inputs":[]}`,
    'UNSUPPORTED',
    'string correlation ID cannot be longer than 128 characters',
  )
})
