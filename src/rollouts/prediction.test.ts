import assert from 'node:assert/strict'
import test from 'node:test'
import { Tensor } from '../tensor/tensor.ts'
import { tensorOfStrings } from '../tensor/typed-values.ts'
import type { DriftRule } from './judge/metric-rule.ts'
import { driftClassOf, predictionOf } from './prediction.ts'
import type { FeedbackPolicy } from './rollout-plan.ts'

const top1 = { bins: null } as DriftRule
const policy = (kind: FeedbackPolicy['kind']): FeedbackPolicy => ({ kind, output: 'OUT', threshold: 0.5 })

test('the class of an answer is found in one look at each element', () => {
  // A view that is not aligned for its type is copied before it is read: to copy it for each element would take an hour.
  const bytes = new Uint8Array(4 * 1_000_000 + 1).subarray(1)
  new DataView(bytes.buffer).setFloat32(1 + 4 * 70_000, 1, true)
  assert.equal(driftClassOf(new Tensor('OUT', 'FP32', [1, 1_000_000], bytes), top1), 70_000)
  assert.equal(predictionOf(new Tensor('OUT', 'FP32', [1, 1_000_000], bytes), policy('top1')), '70000')
})

test('an answer of more classes than are compared, or of several texts, has no class', () => {
  const large = new Tensor('OUT', 'INT8', [1, 2_000_000], new Uint8Array(2_000_000))
  assert.equal(driftClassOf(large, top1), -1)
  assert.equal(predictionOf(large, policy('top1')), null)
  // The third text is cut short, and nobody looks at it.
  const texts = new Tensor('OUT', 'BYTES', [3], new Uint8Array(10))
  assert.equal(predictionOf(texts, policy('exact')), null)
  assert.equal(predictionOf(tensorOfStrings('OUT', [1], ['dög']), policy('exact')), 'dög')
})
