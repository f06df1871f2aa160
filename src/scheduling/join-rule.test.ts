import assert from 'node:assert/strict'
import test from 'node:test'
import type { BatchPadding } from '../config/batch-padding.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import type { InputSpec, ModelSignature } from '../config/model-signature.ts'
import { Tensor } from '../tensor/tensor.ts'
import { joinRule } from './join-rule.ts'

const input = (name: string, dims: number[], traits: Partial<InputSpec> = {}): Partial<InputSpec> => ({
  name,
  dims,
  isOptional: false,
  allowsRagged: false,
  ...traits,
})

const rule = (inputs: readonly Partial<InputSpec>[], padding: BatchPadding | null = null) =>
  joinRule({ inputs } as unknown as ModelSignature, { padding })

const request = (shapes: Record<string, number[]>): InferenceRequest => {
  const inputs = Object.entries(shapes).map(([name, shape]) => new Tensor(name, 'FP32', shape, new Uint8Array(0)))
  return new InferenceRequest({ modelName: 'm', inputs, sink: () => undefined })
}

test('a model whose inputs are all of fixed shape and required needs no comparing', () => {
  assert.equal(rule([input('A', [3]), input('B', [2, 2])]), null)
})

test('inputs with an open dimension must agree beyond the batch dimension', () => {
  const canJoin = rule([input('A', [-1])])
  assert.ok(canJoin?.(request({ A: [1, 5] }), request({ A: [3, 5] })))
  assert.ok(!canJoin?.(request({ A: [1, 5] }), request({ A: [1, 6] })))
})

test('a ragged input may differ, another one may not', () => {
  assert.equal(rule([input('A', [-1], { allowsRagged: true })]), null)
  const canJoin = rule([input('A', [-1], { allowsRagged: true }), input('B', [-1])])
  assert.ok(canJoin?.(request({ A: [1, 5], B: [1, 2] }), request({ A: [1, 6], B: [1, 2] })))
  assert.ok(!canJoin?.(request({ A: [1, 5], B: [1, 2] }), request({ A: [1, 5], B: [1, 3] })))
})

test('a padded input may differ in length within a bucket, and in nothing else', () => {
  const padded = (buckets: number[]): BatchPadding => ({
    inputs: [{ name: 'A', dataType: 'FP32', axis: 1, fill: new Uint8Array(4), buckets }],
    outputs: [],
  })
  const canJoin = rule([input('A', [-1, 3])], padded([4, 8]))
  assert.ok(canJoin?.(request({ A: [1, 5, 3] }), request({ A: [2, 8, 3] })))
  assert.ok(!canJoin?.(request({ A: [1, 4, 3] }), request({ A: [1, 5, 3] })))
  assert.ok(!canJoin?.(request({ A: [1, 9, 3] }), request({ A: [1, 10, 3] })), 'beyond the last edge only equals join')
  assert.ok(canJoin?.(request({ A: [1, 9, 3] }), request({ A: [1, 9, 3] })))
  const free = rule([input('A', [-1, 3])], padded([]))
  assert.ok(free?.(request({ A: [1, 1, 3] }), request({ A: [1, 16, 3] })))
  assert.ok(free?.(request({ A: [1, 600, 3] }), request({ A: [1, 1024, 3] })))
  assert.ok(
    !free?.(request({ A: [1, 1, 3] }), request({ A: [1, 900, 3] })),
    'a long one would make the short ones dear',
  )
})

test('requests of one batch have the same optional inputs, in any order', () => {
  const canJoin = rule([input('A', [1]), input('B', [1], { isOptional: true }), input('C', [1], { isOptional: true })])
  assert.ok(canJoin?.(request({ A: [1, 1], B: [1, 1] }), request({ B: [1, 1], A: [1, 1] })))
  assert.ok(!canJoin?.(request({ A: [1, 1] }), request({ A: [1, 1], B: [1, 1] })))
  assert.ok(!canJoin?.(request({ A: [1, 1], C: [1, 1] }), request({ A: [1, 1], B: [1, 1] })))
})
