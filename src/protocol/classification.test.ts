import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ServerError } from '../base/server-error.ts'
import { stringsOf } from '../tensor/typed-values.ts'
import type { DataType } from '../tensor/data-type.ts'
import { Tensor } from '../tensor/tensor.ts'
import { bestIndices, classify, classifyInSteps, sixDecimals } from './classification.ts'

const tensorOf = (dataType: DataType, shape: number[], elements: ArrayBufferView): Tensor =>
  new Tensor('X', dataType, shape, new Uint8Array(elements.buffer))

const texts = (tensor: Tensor): string[] => stringsOf(tensor)

test('each row of a batch has its own best classes', () => {
  const scores = tensorOf('FP32', [2, 3], Float32Array.of(1, 3, 2, 9, 7, 8))
  const result = classify(scores, 2, ['a', 'b'], true)
  assert.equal(result.dataType, 'BYTES')
  assert.deepEqual(result.shape, [2, 2])
  assert.deepEqual(texts(result), ['3.000000:1:b', '2.000000:2', '9.000000:0:a', '8.000000:2'])
})

test('without batching all elements are one row, and no more classes come than there are', () => {
  const result = classify(tensorOf('INT16', [2, 2], Int16Array.of(-5, 300, 7, 7)), 100, [], false)
  assert.deepEqual(result.shape, [4])
  assert.deepEqual(texts(result), ['300:1', '7:2', '7:3', '-5:0'])
})

test('64-bit scores are told apart to the last digit', () => {
  const scores = BigInt64Array.of(2n ** 62n, 2n ** 62n + 1n)
  assert.deepEqual(texts(classify(tensorOf('INT64', [2], scores), 2, [], false)), [
    '4611686018427387905:1',
    '4611686018427387904:0',
  ])
})

test('an empty batch has no classes', () => {
  const result = classify(tensorOf('FP32', [0, 3], new Float32Array(0)), 2, [], true)
  assert.deepEqual([result.shape, result.bytes.length], [[0, 2], 0])
})

test('rows without classes are not looked at, however many there are', () => {
  // To count so many rows would take minutes.
  assert.deepEqual(classify(tensorOf('FP32', [2 ** 31, 0], new Float32Array(0)), 5, [], true).shape, [2 ** 31, 0])
})

test('an empty label is no label', () => {
  assert.deepEqual(texts(classify(tensorOf('UINT8', [1], Uint8Array.of(3)), 1, [''], false)), ['3:0'])
})

for (const dataType of ['BOOL', 'FP16', 'BF16', 'BYTES'] as const) {
  test(`${dataType} has no classes`, () => {
    assert.throws(
      () => classify(new Tensor('X', dataType, [0], new Uint8Array(0)), 1, [], false),
      new ServerError('INVALID_ARG', `class result not available for output due to unsupported type '${dataType}'`),
    )
  })
}

test('more than a million classes are refused', () => {
  assert.throws(
    () => classify(tensorOf('UINT8', [1_000_001], new Uint8Array(1_000_001)), 1, [], false),
    new ServerError('INVALID_ARG', 'classification output tensor too large'),
  )
})

test('the best indices are those of a stable sort, NaN last', () => {
  const score = fc.oneof(fc.integer({ min: -3, max: 3 }), fc.constantFrom(Number.NaN, Infinity, -Infinity, 0.5))
  fc.assert(
    fc.property(fc.array(score, { minLength: 1, maxLength: 60 }), fc.nat({ max: 60 }), (scores, wanted) => {
      const count = Math.min(wanted, scores.length)
      const rank = (value: number): number => (Number.isNaN(value) ? -Infinity : value === -Infinity ? -1e9 : value)
      const sorted = scores.map((_, i) => i).toSorted((a, b) => rank(scores[b]!) - rank(scores[a]!) || 0 || a - b)
      assert.deepEqual([...bestIndices(scores, count)], sorted.slice(0, count))
    }),
    { numRuns: 1000 },
  )
})

test('equal scores come in the order of Triton, and by index up to 16 scores and beside a NaN', () => {
  const orderOf = (scores: number[], count: number): number[] => {
    const bytes = new Uint8Array(Float32Array.from(scores).buffer)
    const classes = classify(new Tensor('Y', 'FP32', [scores.length], bytes), count, [], false)
    return stringsOf(classes).map((text) => Number(text.split(':')[1]))
  }
  // Both orders were recorded from Triton 2.51.
  const recorded = [10, 19, 18, 17, 16, 15, 14, 13, 12, 11, 0, 9, 8, 7, 6, 5, 4, 3, 2, 1]
  assert.deepEqual(orderOf(Array<number>(20).fill(1), 20), recorded)
  const cycle = Array.from({ length: 40 }, (_, i) => (i * 7) % 5)
  assert.deepEqual(orderOf(cycle, 12), [17, 2, 37, 22, 7, 32, 27, 12, 9, 24, 14, 29])
  assert.deepEqual(orderOf(cycle, 1), [17])
  assert.deepEqual(orderOf(Array<number>(16).fill(1), 3), [0, 1, 2])
  assert.deepEqual(orderOf([Number.NaN, ...Array<number>(20).fill(1)], 3), [1, 2, 3])
})

test('scores are printed like %f in C', () => {
  const cases: [value: number, text: string][] = [
    [0, '0.000000'],
    [-0, '-0.000000'],
    [0.1, '0.100000'],
    [-1e-9, '-0.000000'],
    [123456.7890625, '123456.789062'],
    [0.0078125, '0.007812'],
    [0.0234375, '0.023438'],
    [-0.0078125, '-0.007812'],
    [1e20, '100000000000000000000.000000'],
    [1e22, '10000000000000000000000.000000'],
    [-1e300, `-${BigInt(1e300)}.000000`],
    [Infinity, 'inf'],
    [-Infinity, '-inf'],
    [Number.NaN, 'nan'],
  ]
  for (const [value, text] of cases) assert.equal(sixDecimals(value), text)
})

test('ranking a million classes is many short steps, and classes of all rows together have a limit', () => {
  const scores = Float32Array.from({ length: 1_000_000 }, (_, i) => (i * 7919) % 1_000_003)
  const tensor = new Tensor('Y', 'FP32', [1_000_000], new Uint8Array(scores.buffer))
  const steps = classifyInSteps(tensor, 1_000_000, [], false)
  let count = 1
  while (steps.next().done !== true) count++
  // Of 16 × 1024 classes each: 31 to build the heap, 61 to take the classes out of it, 61 to write them.
  assert.ok(count >= 150, String(count))
  const rows = new Tensor('Y', 'FP32', [8, 1000], new Uint8Array(32_000))
  assert.equal(classify(rows, 5, [], true).shape[0], 8)
  const many = new Tensor('Y', 'FP32', [1001, 1000], new Uint8Array(4_004_000))
  assert.throws(() => classify(many, 1000, [], true), { message: 'classification output tensor too large' })
  assert.deepEqual(classify(many, 10, [], true).shape, [1001, 10])
})
