import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signatureOf } from '../../../test/fixtures/signature-of.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { inGivenRank, inModelShapes } from './input-ranks.ts'

const signature = signatureOf('m', 8, [['x', 'INT8', [1]], ['y', 'INT8', [1]], ['z', 'INT8', [2]]], []) // prettier-ignore
const tensor = (name: string, ...shape: number[]): Tensor => new Tensor(name, 'INT8', shape, Buffer.alloc(4))
const shapes = (tensors: readonly Tensor[]): (readonly number[])[] => tensors.map(({ shape }) => shape)

test('inputs get the ones that they left out, and outputs of their rank lose them again', () => {
  const { inputs, ranks } = inModelShapes([tensor('x', 4), tensor('y', 4)], signature)
  assert.deepEqual(shapes(inputs), [[4, 1], [4, 1]]) // prettier-ignore
  const outputs = [tensor('a', 4, 1), tensor('b', 4), tensor('c', 2, 2), tensor('d', 4, 1, 1)]
  assert.deepEqual(shapes(inGivenRank(outputs, ranks)), [[4], [4], [2, 2], [4, 1, 1]]) // prettier-ignore
})

test('outputs stay as they are where inputs came whole, or not all alike', () => {
  assert.equal(inModelShapes([tensor('x', 4, 1)], signature).ranks, null)
  assert.equal(inModelShapes([tensor('x', 4), tensor('y', 4, 1)], signature).ranks, null)
  assert.equal(inModelShapes([tensor('z', 4)], signature).ranks, null)
  assert.equal(inModelShapes([], signature).ranks, null)
})
