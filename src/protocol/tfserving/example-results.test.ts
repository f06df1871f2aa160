import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InferenceResponse } from '../../model/inference-response.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { signatureOf } from '../../../test/fixtures/signature-of.ts'
import { classesOf, regressionsOf } from './example-results.ts'

const signature = signatureOf('m', 8, [], [['scores', 'FP32', [-1]]])
const scores = (shape: number[], name = 'scores'): InferenceResponse =>
  InferenceResponse.of([new Tensor(name, 'FP32', shape, new Uint8Array(shape.reduce((a, b) => a * b, 4)))])

test('outputs that are none of a classifier or a regressor are refused as TensorFlow Serving refuses them', () => {
  assert.throws(() => classesOf(scores([2]), signature, 2), /\[batch_size num_classes\] but got \[2\]/)
  assert.throws(() => classesOf(scores([3, 2]), signature, 2), /Expected scores output batch size of 2. Got: 3/)
  assert.throws(() => regressionsOf(scores([2, 2]), 2), /either \[batch_size\] or \[batch_size, 1\] but got \[2,2\]/)
  assert.throws(() => regressionsOf(scores([3]), 2), /Input batch size did not match output batch size: 2 vs. 3/)
  assert.deepEqual([...regressionsOf(scores([2, 1]), 2)], [0, 0])
})

test('a million classes are the most', () => {
  assert.equal(classesOf(scores([1, 1_000_000]), signature, 1).classes, 1_000_000)
  assert.throws(() => classesOf(scores([1, 1_000_001]), signature, 1), /1000001 classes, at most 1000000/)
})
