import assert from 'node:assert/strict'
import { test } from 'node:test'
import { wireRequestOf } from './infer-request.ts'
import { InferenceError } from './inference-error.ts'
import { OutputTensor } from './output-tensor.ts'
import { encodeTensorData, type TensorData } from './tensor-data.ts'
import type { DataType } from '../tensor/data-type.ts'

const outputOf = (data: TensorData, dataType?: DataType): OutputTensor => {
  const encoded = encodeTensorData('X', data, dataType)
  return new OutputTensor('X', encoded.dataType, [encoded.elementCount], encoded.bytes)
}

test('the kind of an array says its type', () => {
  const cases: [TensorData, DataType][] = [
    [Uint8Array.of(1), 'UINT8'],
    [Buffer.from('a'), 'UINT8'],
    [Uint16Array.of(1), 'UINT16'],
    [Uint32Array.of(1), 'UINT32'],
    [BigUint64Array.of(1n), 'UINT64'],
    [Int8Array.of(1), 'INT8'],
    [Int16Array.of(1), 'INT16'],
    [Int32Array.of(1), 'INT32'],
    [BigInt64Array.of(1n), 'INT64'],
    [Float32Array.of(1), 'FP32'],
    [Float64Array.of(1), 'FP64'],
    [Float16Array.of(1) as unknown as Float32Array, 'FP16'],
    [['a'], 'BYTES'],
    [[Uint8Array.of(1)], 'BYTES'],
    [[true], 'BOOL'],
    [[1n], 'INT64'],
  ]
  for (const [data, dataType] of cases) assert.equal(encodeTensorData('X', data).dataType, dataType)
})

test('a typed array of the tensor type is used in place, at its own offset', () => {
  const values = new Float32Array([0, 1, 2, 3]).subarray(2)
  const { bytes } = encodeTensorData('X', values)
  assert.equal(bytes.buffer, values.buffer)
  assert.deepEqual([bytes.byteOffset, bytes.length], [8, 8])
})

test('numbers become FP16, BF16 and BOOL when that is asked for', () => {
  assert.deepEqual([...outputOf([0.5, -2], 'FP16').float32()], [0.5, -2])
  assert.deepEqual([...outputOf(Float32Array.of(1, 3.140625), 'BF16').float32()], [1, 3.140625])
  assert.deepEqual(outputOf([1, 0], 'BOOL').booleans(), [true, false])
  assert.deepEqual([...outputOf(Uint16Array.of(0x3c00), 'FP16').float32()], [1])
  assert.deepEqual(outputOf([1, 2n ** 53n + 1n] as readonly bigint[], 'INT64').as('INT64')[1], 2n ** 53n + 1n)
})

test('strings come back as they went, views out of line included', () => {
  assert.deepEqual(outputOf(['héllo', '', '\u{1f600}']).strings(), ['héllo', '', '\u{1f600}'])
  const { bytes } = encodeTensorData('X', Float64Array.of(1, 2))
  const shifted = Buffer.concat([Buffer.from('x'), bytes]).subarray(1)
  assert.deepEqual([...new OutputTensor('X', 'FP64', [2], shifted).as('FP64')], [1, 2])
})

test('what does not say its type, or holds another, is refused with what to do', () => {
  const refused: [() => unknown, RegExp][] = [
    [
      () => encodeTensorData('X', [1, 2]),
      /an array of numbers does not say its type; give a typed array or a dataType/,
    ],
    [() => encodeTensorData('X', []), /is an empty array: say its dataType/],
    [() => encodeTensorData('X', Int32Array.of(1), 'FP32'), /a Int32Array does not hold FP32; give a Float32Array/],
    [() => encodeTensorData('X', Uint8Array.of(1), 'BYTES'), /BYTES needs an array of strings or Uint8Arrays/],
    [() => encodeTensorData('X', ['a'], 'INT32'), /a \(a string\) is not an element of INT32/],
    [() => encodeTensorData('X', [1.5], 'INT64'), /1.5 \(a number\) is not an element of INT64/],
    [() => encodeTensorData('X', [2], 'BOOL'), /is not an element of BOOL/],
    [() => outputOf([1], 'FP32').as('INT32'), /output 'X' is of type FP32, not INT32/],
    [() => outputOf(['a']).numbers(), /is of type BYTES: read it with strings\(\)/],
    [() => outputOf([2n ** 60n]).numbers(), /does not fit a number, use as\('INT64'\)/],
    [
      () => wireRequestOf('M', { X: { data: Int32Array.of(1), shape: [2] } }, {}),
      /of shape \[2\] needs 2 elements, got 1/,
    ],
    [
      () => wireRequestOf('M', { X: { bytes: new Uint8Array(3), shape: [1], dataType: 'INT32' } }, {}),
      /of type INT32 and shape \[1\] needs 4 bytes, got 3/,
    ],
    [() => wireRequestOf('M', {}, { parameters: { sequence_id: 1 } }), /use the option 'sequence'/],
  ]
  for (const [attempt, message] of refused) {
    assert.throws(attempt, (reason) => {
      assert.ok(reason instanceof InferenceError)
      assert.equal(reason.code, 'INVALID_ARG')
      assert.match(reason.message, message)
      return true
    })
  }
})

test('inputs may be a record or a list, and an output of one answer is an input of the next', () => {
  const pixels = outputOf(Float32Array.of(1, 2))
  const byName = wireRequestOf('M', { a: Int8Array.of(1), b: pixels }, {})
  const listed = wireRequestOf(
    'M',
    [
      { name: 'a', data: Int8Array.of(1) },
      { name: 'b', bytes: pixels.bytes, shape: [2], dataType: 'FP32' },
    ],
    {},
  )
  assert.deepEqual(byName, listed)
})

test('classes in a shape that has no rows of them are refused', () => {
  const bytes = encodeTensorData('X', ['1:2']).bytes
  for (const shape of [
    [1, 0],
    [1, -1],
  ]) {
    assert.throws(() => new OutputTensor('X', 'BYTES', shape, bytes).classes(), { code: 'PROTOCOL' })
  }
})

test('classes are one list per row, labels with colons kept whole', () => {
  const { bytes } = encodeTensorData('X', ['0.9:1:a:b', '0.1:0', '0.8:0:cat', '0.2:1:dog'])
  assert.deepEqual(new OutputTensor('X', 'BYTES', [2, 2], bytes).classes(), [
    [
      { value: 0.9, index: 1, label: 'a:b' },
      { value: 0.1, index: 0, label: null },
    ],
    [
      { value: 0.8, index: 0, label: 'cat' },
      { value: 0.2, index: 1, label: 'dog' },
    ],
  ])
})
