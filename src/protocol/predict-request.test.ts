import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { defaultRequestLimits } from '../../test/fixtures/request-limits.ts'
import { everyType, signatureOf } from '../../test/fixtures/signature-of.ts'
import type { ModelSignature } from '../config/model-signature.ts'
import { splitBytesElements } from '../tensor/bytes-elements.ts'
import { elementsOf, type DataType, type FixedSizeType } from '../tensor/data-type.ts'
import { readPredictRequest } from './predict-request.ts'
import type { RequestLimits } from './request-limits.ts'

const one = (dataType: DataType, dims: number[], maxBatchSize = 8): ModelSignature =>
  signatureOf('m', maxBatchSize, [['x', dataType, dims]], [])
const two = signatureOf(
  'm',
  8,
  [
    ['a', 'FP32', [2]],
    ['b', 'BYTES', [1]],
  ],
  [],
)

/** Name, shape and elements of each input. */
function read(body: string, signature: ModelSignature, limits: Partial<RequestLimits> = {}): unknown[] {
  const { inputs } = readPredictRequest(Buffer.from(body), signature, { ...defaultRequestLimits, ...limits })
  return inputs.map(({ name, dataType, shape, bytes }) => [
    name,
    shape,
    dataType === 'BYTES'
      ? splitBytesElements(bytes, () => new Error('cut short')).map((text) => Buffer.from(text).toString('latin1'))
      : Array.from(elementsOf<FixedSizeType>(dataType, bytes), Number),
  ])
}

const refusal = (body: string, signature: ModelSignature, limits: Partial<RequestLimits> = {}): string => {
  let text = ''
  assert.throws(
    () => read(body, signature, limits),
    (reason: { code: string; message: string }) => {
      text = reason.message
      return reason.code === 'INVALID_ARG'
    },
  )
  return text
}

describe('rows', () => {
  test('of a model with one input are plain values, lists, or objects', () => {
    const vectors = one('FP32', [2])
    assert.deepEqual(read('{"instances":[[1,2.5],[3,-4e1]]}', vectors), [['x', [2, 2], [1, 2.5, 3, -40]]])
    assert.deepEqual(read('{"instances":[{"x":[1,2]}, [3,4]]}', vectors), [['x', [2, 2], [1, 2, 3, 4]]])
    assert.deepEqual(read('{"instances":[[[1],[2]]]}', one('INT8', [2, 1])), [['x', [1, 2, 1], [1, 2]]])
    assert.deepEqual(read('{ "signature_name" : "s" , "instances" : [ true , false ] }', one('BOOL', [1])), [
      ['x', [2, 1], [1, 0]],
    ])
  })

  test('of a model with several inputs are objects, their members in any order', () => {
    assert.deepEqual(read('{"instances":[{"a":[1,2],"b":"s"},{"b":"t","a":[3,4]}]}', two), [
      ['a', [2, 2], [1, 2, 3, 4]],
      ['b', [2, 1], ['s', 't']],
    ])
  })

  test('may be single values where a row has one element, whatever its dimensions', () => {
    assert.deepEqual(read('{"instances":[7,8]}', one('INT64', [1, -1])), [['x', [2, 1, 1], [7, 8]]])
    assert.deepEqual(read('{"instances":[7,8]}', one('INT64', [3])), [['x', [2], [7, 8]]])
    assert.deepEqual(read('{"instances":[[7],[8]]}', one('INT64', [1])), [['x', [2, 1], [7, 8]]])
  })

  test('are the first dimension of a model that does not batch, where it has room for them', () => {
    assert.deepEqual(read('{"instances":[7,8]}', one('INT32', [-1], 0)), [['x', [2], [7, 8]]])
    assert.deepEqual(read('{"instances":[[7],[8]]}', one('INT32', [2, 1], 0)), [['x', [2, 1], [7, 8]]])
    assert.equal(
      refusal('{"instances":[7,8]}', one('INT32', [3], 0)),
      "model 'm' does not batch, and its input 'x' of shape [3] cannot take 2 as first dimension",
    )
  })

  test('of strings may hold bytes as base64', () => {
    const words = '{"instances":["a\\u00e9",{"b64":"/wA="},"","\\"", {"b64":""}]}'
    assert.deepEqual(read(words, one('BYTES', [1])), [['x', [5, 1], ['a\xc3\xa9', '\xff\0', '', '"', '']]])
    assert.deepEqual(read('{"instances":[[{"b64":"_-8"}]]}', one('BYTES', [1])), [['x', [1, 1], ['\xff\xef']]])
  })

  test('reach the model as columns too', () => {
    const { isColumnar } = readPredictRequest(Buffer.from('{"inputs":[1]}'), one('FP32', [1]), defaultRequestLimits)
    assert.equal(isColumnar, true)
    assert.deepEqual(read('{"inputs":[[1,2],[3,4]]}', one('FP32', [2])), [['x', [2, 2], [1, 2, 3, 4]]])
    assert.deepEqual(read('{"inputs":{"b":["s","t"],"a":[[1,2],[3,4]]}}', two), [
      ['a', [2, 2], [1, 2, 3, 4]],
      ['b', [2, 1], ['s', 't']],
    ])
  })

  test('may leave out an input in all rows: the Engine knows whether it is optional', () => {
    assert.deepEqual(read('{"instances":[{"b":"s"}]}', two), [['b', [1, 1], ['s']]])
    assert.deepEqual(read('{"instances":[{}]}', two), [])
  })

  test('may be empty lists', () => {
    assert.deepEqual(read('{"instances":[[],[]]}', one('FP32', [-1])), [['x', [2, 0], []]])
  })
})

describe('refusals name the input and the row', () => {
  test('of rows that differ in shape', () => {
    const text = (row: number): string =>
      `row ${row} of input 'x' is ragged: all rows must have one shape, and all lists of one depth one length`
    const cases: [string, number][] = [
      ['[[1,2],[3]]', 1],
      ['[[1,2],3]', 1],
      ['[1,[2]]', 1],
      ['[[[1],[]]]', 0],
      ['[[[],1]]', 0],
      ['[[],[1]]', 1],
      ['[[1],[2],[[3]]]', 2],
    ]
    for (const [rows, row] of cases) assert.equal(refusal(`{"instances":${rows}}`, one('FP32', [-1])), text(row), rows)
  })

  test('of elements of another type', () => {
    const cases: [DataType, string][] = [
      ['FP32', '"1"'],
      ['FP32', 'null'],
      ['FP32', 'true'],
      ['FP64', '{"b64":"AA=="}'],
      ['INT32', '1.5'],
      ['INT32', '2147483648'],
      ['INT8', '-129'],
      ['UINT8', '-1'],
      ['UINT8', '256'],
      ['UINT64', '-1'],
      ['INT64', '9223372036854775808'],
      ['UINT64', '18446744073709551616'],
      ['BOOL', '1'],
      ['BOOL', 'null'],
      ['BYTES', '1'],
      ['BYTES', '{"b64":1}'],
      ['BYTES', '{"b64":"&"}'],
      ['BYTES', '{"b64":"AA==","c":1}'],
    ]
    for (const [dataType, value] of cases) {
      const good = dataType === 'BYTES' ? '"s"' : dataType === 'BOOL' ? 'true' : '1'
      assert.equal(
        refusal(`{"instances":[[${good}],[${value}]]}`, one(dataType, [1])),
        `row 1 of input 'x' holds ${value}, which is no ${dataType}`,
      )
    }
    assert.match(
      refusal('{"instances":[1]}', one('FP16', [1])),
      /^input 'x' is FP16, which JSON cannot hold: use \/v2$/,
    )
  })

  test('of inputs that are missing, unknown, or there twice', () => {
    const rows = (...list: string[]): string => `{"instances":[${list.join()}]}`
    const [both, onlyA] = ['{"a":[1,2],"b":"s"}', '{"a":[1,2]}']
    assert.equal(refusal(rows(both, onlyA), two), "input 'b' is missing in row 1")
    assert.equal(refusal(rows(onlyA, both), two), "input 'b' is missing in row 0")
    assert.equal(refusal(rows(both, '{"a":[1,2],"c":1}'), two), "unexpected input 'c' in row 1, the model has 'a', 'b'")
    assert.equal(refusal(rows('{"b":"s","b":"s"}'), two), "input 'b' is given twice in row 0")
    assert.equal(refusal('{"inputs":{"b":["s"],"b":["s"]}}', two), "input 'b' is given twice in row 0")
    assert.equal(refusal(rows(both, '[1,2]'), two), "row 1 must be an object with the inputs 'a', 'b'")
    assert.equal(refusal('{"inputs":[1]}', two), "'inputs' must be an object with the inputs 'a', 'b'")
    assert.equal(refusal('{"inputs":{"c":[1]}}', two), "unexpected input 'c' in 'inputs', the model has 'a', 'b'")
  })

  test('and say what a body without rows lacks', () => {
    const signature = one('FP32', [1])
    assert.equal(refusal('{"instances":[]}', signature), '"instances" must have at least one row')
    assert.equal(refusal('{"instances":1}', signature), 'Expected "instances" to be a list')
    assert.equal(refusal('{"inputs":{"x":[]}}', signature), "input 'x' must have at least one row")
    assert.equal(refusal('{"instance":[1]}', signature), "the request has neither 'instances' nor 'inputs'")
    assert.equal(refusal('[1]', signature), 'the request must be a JSON object')
    assert.equal(
      refusal('{"instances":[1],"inputs":[1]}', signature),
      "the request must have 'instances' or 'inputs', and only once",
    )
    assert.match(
      refusal('{"instances":[1', signature),
      /^Unrecognized request format: the request body is not valid JSON: Missing a comma/,
    )
    assert.match(
      refusal('', signature),
      /^Unrecognized request format: the request body is not valid JSON: The document is empty/,
    )
  })

  test('and the limits', () => {
    const limit = { maxInputBytes: 8 }
    assert.match(
      refusal('{"instances":[1,2,3]}', one('FP32', [1]), limit),
      /^JSON input 'x' has a byte_size \(12 bytes/,
    )
    assert.match(refusal('{"instances":["123456","789"]}', one('BYTES', [1]), limit), /^JSON input 'x' has a byte_size/)
    const deep = `{"instances":[${'['.repeat(17)}${']'.repeat(17)}]}`
    assert.match(refusal(deep, one('FP32', [1])), /too many dimensions, the maximum is 16/)
  })
})

test('every prefix of a body is refused with a text', () => {
  const body = '{"instances":[{"a":[1,-2.5e3],"b":{"b64":"AA=="}},{"a":[1,2],"b":"s\\n"}]}'
  for (let end = 0; end < body.length; end++) assert.notEqual(refusal(body.slice(0, end), two), '')
  assert.equal(read(body, two).length, 2)
})

test('every type that JSON can hold is read', () => {
  for (const [name, dataType] of everyType('x', [1])) {
    if (dataType === 'FP16' || dataType === 'BF16') continue
    const value = dataType === 'BYTES' ? '"1"' : dataType === 'BOOL' ? 'true' : '1'
    const signature = signatureOf('m', 8, [[name, dataType, [1]]], [])
    assert.deepEqual(read(`{"instances":[${value}]}`, signature), [[name, [1, 1], [dataType === 'BYTES' ? '1' : 1]]])
  }
})
