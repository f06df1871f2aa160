// What an answer says, in one word: the class for feedback and drift.

import type { DriftRule } from './judge/metric-rule.ts'
import type { FeedbackPolicy } from './rollout-plan.ts'
import { bf16Value, fp16Value } from '../tensor/half-float.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { numbersOf, stringsOf } from '../tensor/typed-values.ts'

/** The answer in the form of a label. Null where one label does not describe it: several values, or none. */
export function predictionOf(output: Tensor, policy: FeedbackPolicy): string | null {
  if (output.dataType === 'BYTES') {
    const [text, ...more] = stringsOf(output)
    return policy.kind === 'exact' && text !== undefined && more.length === 0 ? text : null
  }
  const numbers = numbersOf(output)
  if (policy.kind === 'top1') return hasOneRow(output) && numbers.length > 0 ? String(highest(output)) : null
  if (numbers.length !== 1) return null
  const value = valueAt(output, 0)
  // A label of `true` or `false` is compared with the words, 1 and 0 with the numbers.
  if (policy.kind === 'threshold') return value >= policy.threshold ? '1' : '0'
  return output.dataType === 'BOOL' ? String(value !== 0) : String(numbers[0])
}

const hasOneRow = ({ shape }: Tensor): boolean => shape.slice(0, -1).every((dimension) => dimension === 1)

/** The class or bin of an answer for the drift of its output; -1: it has none. */
export function driftClassOf(output: Tensor, rule: DriftRule): number {
  if (output.dataType === 'BYTES' || output.bytes.length === 0) return -1
  if (rule.bins === null) return hasOneRow(output) ? highest(output) : -1
  const value = valueAt(output, 0)
  const bin = rule.bins.findIndex((bound) => value <= bound)
  return bin === -1 ? rule.bins.length : bin
}

function valueAt(output: Tensor, index: number): number {
  const value = Number(numbersOf(output)[index] ?? NaN)
  if (output.dataType === 'FP16') return fp16Value(value)
  return output.dataType === 'BF16' ? bf16Value(value) : value
}

function highest(output: Tensor): number {
  const count = numbersOf(output).length
  let best = 0
  for (let i = 1; i < count; i++) if (valueAt(output, i) > valueAt(output, best)) best = i
  return best
}
