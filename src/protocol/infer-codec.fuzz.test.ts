// Requests generated from the grammar, whole and damaged: whatever comes in, the answer is a request or a ServerError.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { everyType, signatureOf } from '../../test/fixtures/signature-of.ts'
import { ServerError } from '../base/server-error.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { encodeBytesElements } from '../tensor/bytes-elements.ts'
import { dataTypes, elementBytes, type DataType } from '../tensor/data-type.ts'
import { elementCount } from '../tensor/shape.ts'
import { Tensor } from '../tensor/tensor.ts'
import { readInferRequest } from './infer-request-reader.ts'
import type { ParsedInfer } from './parsed-infer.ts'
import { writeInferResponse } from './infer-response-writer.ts'
import { defaultRequestLimits } from '../../test/fixtures/request-limits.ts'

const signature = signatureOf('echo', 0, everyType('IN', [-1]), everyType('OUT', [-1]))

const read = (body: Uint8Array, headerLength: number | null): ParsedInfer =>
  readInferRequest(body, { headerLength, signature, limits: defaultRequestLimits })

const tensor = fc
  .tuple(
    fc.constantFrom(...dataTypes),
    fc.array(fc.nat({ max: 4 }), { minLength: 1, maxLength: 3 }),
    fc.uint8Array({ minLength: 64, maxLength: 600 }),
  )
  .map(([dataType, shape, noise]) => {
    const count = elementCount(shape)
    let used = 0
    const next = (): number => noise[used++ % noise.length]!
    if (dataType === 'BYTES') {
      const texts = Array.from({ length: count }, () => '"\\\n/é'.slice(next() % 5) + String.fromCharCode(next() + 1))
      return new Tensor('X', dataType, shape, encodeBytesElements(texts))
    }
    const bytes = Uint8Array.from({ length: count * elementBytes[dataType] }, next)
    if (dataType === 'BOOL') bytes.forEach((byte, i) => (bytes[i] = byte & 1))
    return new Tensor('X', dataType, shape, bytes)
  })

/** A response is nearly a request: outputs carry what inputs carry. */
function asRequest(
  tensors: readonly Tensor[],
  isBinary: (tensor: Tensor, index: number) => boolean,
): { body: Buffer; jsonLength: number } {
  const named = tensors.map((each, i) => new Tensor(`T${i}`, each.dataType, each.shape, each.bytes))
  const { head, parts } = writeInferResponse(InferenceResponse.of(named), {
    modelName: 'echo',
    modelVersion: '1',
    id: 'the id "\n',
    signature,
    outputs: named.map(({ name }, i) => ({
      name,
      isBinary: isBinary(named[i]!, i),
      classificationCount: 0,
      sharedMemory: null,
    })),
    binaryOutputDefault: false,
  })
  const json = Buffer.from(head.toString('latin1').replace('"outputs":[', '"inputs":['), 'latin1')
  return { body: Buffer.concat([json, ...parts]), jsonLength: json.length }
}

/** NaNs have many patterns in binary and one in JSON. */
function withoutNaN(each: Tensor): boolean {
  const bytes = Uint8Array.from(each.bytes).buffer
  if (each.dataType === 'FP32') return !new Float32Array(bytes).some(Number.isNaN)
  return each.dataType !== 'FP64' || !new Float64Array(bytes).some(Number.isNaN)
}

const isJsonType = (dataType: DataType): boolean => dataType !== 'FP16' && dataType !== 'BF16'

test('tensors of every type survive writing and reading, in JSON, in binary and mixed', () => {
  const tensors = fc.array(tensor.filter(withoutNaN), { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(tensors, fc.nat(), (sent, mask) => {
      const { body, jsonLength } = asRequest(sent, (each, i) => !isJsonType(each.dataType) || ((mask >> i) & 1) === 1)
      const request = read(body, jsonLength)
      assert.equal(request.id, 'the id "\n')
      assert.deepEqual(
        request.inputs.map(({ dataType, shape, bytes }) => [dataType, shape, Buffer.from(bytes).toString('hex')]),
        sent.map(({ dataType, shape, bytes }) => [dataType, shape, Buffer.from(bytes).toString('hex')]),
      )
    }),
    { numRuns: 1000 },
  )
})

const scalar = fc.constantFrom(
  '1',
  '-1',
  '0',
  '1.5',
  '1e3',
  '-0',
  'NaN',
  '"x"',
  '"\\u0041"',
  'null',
  'true',
  'false',
  '[]',
  '{}',
  '[1]',
  '18446744073709551615',
  '18446744073709551616',
  '-9223372036854775809',
  '1e400',
  '99999999999999999999',
)
const array = (element: fc.Arbitrary<string>, maxLength: number): fc.Arbitrary<string> =>
  fc.array(element, { maxLength }).map((elements) => `[${elements.join(',')}]`)
const member = (name: string, value: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  value.map((text) => `"${name}":${text}`)
const object = (...members: fc.Arbitrary<string>[]): fc.Arbitrary<string> =>
  fc.tuple(fc.tuple(...members.map((each) => fc.option(each, { freq: 8 }))), fc.nat(9)).map(([texts, turn]) => {
    const present = texts.filter((text) => text !== null)
    const at = turn % (present.length + 1)
    return `{${[...present.slice(at), ...present.slice(0, at)].join(',')}}`
  })
const tensorParameters = object(
  ...['binary_data_size', 'binary_data', 'classification', 'shared_memory_region', 'shared_memory_offset'].map((name) =>
    member(name, scalar),
  ),
)
const inputText = object(
  member('name', fc.oneof(fc.constantFrom('"IN_FP32"', '"IN_INT64"', '"IN_BYTES"', '"NOPE"'), scalar)),
  member('datatype', fc.oneof(fc.constantFrom(...dataTypes.map((each) => `"${each}"`)), scalar)),
  member('shape', fc.oneof(array(fc.constantFrom('0', '1', '2', '3', '1000000000', '-1'), 3), scalar)),
  member('data', fc.oneof(array(scalar, 3), array(array(scalar, 2), 2), scalar)),
)
const inputWithParameters = object(
  member('parameters', tensorParameters),
  inputText.map((text) => text.slice(1, -1) || '"z":1'),
)
const requestText = object(
  member('id', fc.oneof(fc.constant('"id"'), scalar)),
  member(
    'parameters',
    fc.oneof(object(member('sequence_id', scalar), member('priority', scalar), member('custom', scalar)), scalar),
  ),
  member('inputs', fc.oneof(array(fc.oneof(inputText, inputWithParameters, scalar), 3), scalar)),
  member(
    'outputs',
    fc.oneof(
      array(fc.oneof(object(member('name', scalar), member('parameters', tensorParameters)), scalar), 2),
      scalar,
    ),
  ),
)
const wholeRequest = fc.array(tensor, { maxLength: 3 }).map((tensors) =>
  asRequest(
    tensors.filter(({ dataType }) => isJsonType(dataType)),
    () => false,
  ).body.toString('latin1'),
)
const damage = fc.array(
  fc.tuple(
    fc.nat(),
    fc.constantFrom(...Array.from('"\\,:[]{}0-.eN \0\xff')),
    fc.constantFrom('insert', 'delete', 'replace'),
  ),
  { maxLength: 3 },
)

function damaged(text: string, wounds: readonly (readonly [number, string, string])[]): Buffer {
  let bytes = text
  for (const [at, character, kind] of wounds) {
    const position = at % (bytes.length + 1)
    bytes =
      bytes.slice(0, position) +
      (kind === 'delete' ? '' : character) +
      bytes.slice(position + (kind === 'insert' ? 0 : 1))
  }
  return Buffer.from(bytes, 'latin1')
}

/** Whether a body is a request; what is none is refused with a ServerError. */
function isRequest(body: Uint8Array, headerLength: number | null): boolean {
  try {
    read(body, headerLength)
    return true
  } catch (reason) {
    assert(reason instanceof ServerError, String((reason as Error).stack))
    return false
  }
}

test('20,000 generated bodies are read or refused with a ServerError', () => {
  const seed = Number(process.env['GALATEA_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
  let requests = 0
  fc.assert(
    fc.property(
      fc.oneof(requestText, wholeRequest),
      damage,
      fc.option(fc.nat({ max: 400 })),
      (text, wounds, header) => {
        const body = damaged(text, wounds)
        const headerLength = header === null || header > body.length ? null : header
        if (isRequest(body, headerLength)) requests++
      },
    ),
    { numRuns: 20_000, seed },
  )
  console.log(`fuzz: seed ${seed}, ${requests} of 20000 bodies were requests`)
  assert(requests > 1000, 'the generator makes whole requests too')
})

// Time that grew with the square of the bytes would be hours. What a turn of the loop may take is measured by turn-fuzz.test.ts.
test('hostile bodies of a megabyte are read or refused, and come to an end', () => {
  const megabyte = 2 ** 20
  const fill = (head: string, piece: string, tail: string): Buffer =>
    Buffer.from(head + piece.repeat(Math.floor((megabyte - head.length - tail.length) / piece.length)) + tail)
  const input = '{"inputs":[{"name":"IN_FP32","shape":[1000000],"datatype":"FP32","data":['
  for (const body of [
    fill('', '[', ''),
    fill('', '{"a":', ''),
    fill('', '{},', ''),
    fill('{"id":"', '\\u0000', '"}'),
    fill('{"id":', '9', '}'),
    fill(`${input}0.`, '1', ']}]}'),
    fill(`${input}1e`, '0', ']}]}'),
    fill(input, '[],', '1]}]}'),
    fill(input, '1,', '1]}]}'),
    fill(`{"inputs":[${'{"name":"A","shape":[9],"datatype":"INT8","data":[1]},'.repeat(200)}`, ' ', ''),
    fill('{"parameters":{', '"a":{},', '"a":1},"inputs":[]}'),
  ]) {
    isRequest(body, null)
  }
})

test('random bytes are refused, never anything else', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 200 }), (bytes) => {
      assert.throws(() => read(bytes, null), ServerError)
    }),
    { numRuns: 2000 },
  )
})
