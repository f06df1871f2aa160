import assert from 'node:assert/strict'
import test from 'node:test'
import { InferenceRequest } from '../model/inference-request.ts'
import type { InputSpec, ModelSignature } from '../model/model-signature.ts'
import { Tensor } from '../tensor/tensor.ts'
import { joinRule } from './join-rule.ts'

const input = (name: string, dims: number[], traits: Partial<InputSpec> = {}): Partial<InputSpec> => ({
  name,
  dims,
  isOptional: false,
  allowsRagged: false,
  ...traits,
})

const rule = (inputs: readonly Partial<InputSpec>[], acceptsRagged = true) =>
  joinRule({ inputs } as unknown as ModelSignature, { acceptsRagged })

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

test('a ragged input may differ, where the backend takes it', () => {
  const ragged = [input('A', [-1], { allowsRagged: true })]
  assert.equal(rule(ragged), null)
  assert.ok(!rule(ragged, false)?.(request({ A: [1, 5] }), request({ A: [1, 6] })))
})

test('requests of one batch have the same optional inputs, in any order', () => {
  const canJoin = rule([input('A', [1]), input('B', [1], { isOptional: true }), input('C', [1], { isOptional: true })])
  assert.ok(canJoin?.(request({ A: [1, 1], B: [1, 1] }), request({ B: [1, 1], A: [1, 1] })))
  assert.ok(!canJoin?.(request({ A: [1, 1] }), request({ A: [1, 1], B: [1, 1] })))
  assert.ok(!canJoin?.(request({ A: [1, 1], C: [1, 1] }), request({ A: [1, 1], B: [1, 1] })))
})
