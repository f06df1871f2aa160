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

test('no more than the first values of a tensor are looked at', () => {
  // The last text is cut short. To look at all of them makes an object of each, and there can be millions.
  const strings = new Tensor('x', 'BYTES', [2000], new Uint8Array(4 * 2000 - 1))
  assert.equal(tensorText(strings).split(',').length, 1025)
  // A view that is not aligned for its type is copied before it is read.
  const numbers = new Tensor('x', 'FP32', [2000], new Uint8Array(8001).subarray(1))
  assert.equal(tensorText(numbers), `${'0,'.repeat(1024)}...`)
})

test('what cannot be written as values is left empty', () => {
  assert.equal(tensorText(new Tensor('x', 'FP16', [1], new Uint8Array(2))), '')
  assert.equal(tensorText(new Tensor('x', 'BYTES', [1], new Uint8Array([255, 0, 0, 0]))), '')
})
