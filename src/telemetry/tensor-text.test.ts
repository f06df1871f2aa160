import assert from 'node:assert/strict'
import test from 'node:test'
import { Tensor } from '../tensor/tensor.ts'
import { tensorOfNumbers, tensorOfStrings } from '../tensor/typed-values.ts'
import { tensorText } from './tensor-text.ts'

test('numbers are written with six digits, integers whole', () => {
  assert.equal(
    tensorText(tensorOfNumbers('x', 'FP32', [3], new Float32Array([0.1, 1 / 3, 1e20]))),
    '0.1,0.333333,100000000000000000000',
  )
  assert.equal(
    tensorText(tensorOfNumbers('x', 'INT64', [1], new BigInt64Array([-(2n ** 63n)]))),
    '-9223372036854775808',
  )
})

test('a large tensor is cut after its first values', () => {
  const text = tensorText(tensorOfNumbers('x', 'INT8', [5000], new Int8Array(5000)))
  assert.equal(text.split(',').length, 1025)
  assert.ok(text.endsWith(',...'))
  assert.equal(tensorText(tensorOfStrings('x', [1], ['y'.repeat(300)])), `"${'y'.repeat(256)}..."`)
})

test('the time and memory of a text do not follow the size of its tensor', () => {
  const strings = new Tensor('x', 'BYTES', [4_000_000], new Uint8Array(16_000_000))
  // A view that is not aligned for its type must be copied before it is read.
  const numbers = new Tensor('x', 'FP32', [15_000_000], new Uint8Array(60_000_001).subarray(1))
  const heapBefore = process.memoryUsage().heapUsed
  const startMs = performance.now()
  assert.ok(tensorText(strings).endsWith(',...'))
  assert.ok(tensorText(numbers).endsWith(',...'))
  assert.ok(performance.now() - startMs < 50, 'no more than the first elements are looked at')
  assert.ok(process.memoryUsage().heapUsed - heapBefore < 16e6, 'no more than the first elements are kept')
})

test('what cannot be written as values is left empty', () => {
  assert.equal(tensorText(new Tensor('x', 'FP16', [1], new Uint8Array(2))), '')
  assert.equal(tensorText(new Tensor('x', 'BYTES', [1], new Uint8Array([255, 0, 0, 0]))), '')
})
