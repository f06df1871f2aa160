// What an answer says, in one word: the class for feedback and drift.

import type { DriftRule } from './judge/metric-rule.ts'
import type { FeedbackPolicy } from './rollout-plan.ts'
import type { DataType } from '../tensor/data-type.ts'
import { bf16Value, fp16Value } from '../tensor/half-float.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { bytesElementsOf, numbersOf, type TypedValues } from '../tensor/typed-values.ts'

/** Classes of one answer that are compared, as many as the classification extension ranks. An answer with more has no class. */
const mostClasses = 1_000_000

/** The answer in the form of a label. Null where one label does not describe it: several values, or none. */
export function predictionOf(output: Tensor, policy: FeedbackPolicy): string | null {
  if (output.dataType === 'BYTES') {
    // Whether there is a second one: a client may have made the model answer with millions.
    const [text, second] = bytesElementsOf(output, 2)
    return policy.kind === 'exact' && text !== undefined && second === undefined ? Buffer.from(text).toString() : null
  }
  const numbers = numbersOf(output)
  if (policy.kind === 'top1') {
    const best = hasOneRow(output) ? highest(output.dataType, numbers) : -1
    return best < 0 ? null : String(best)
  }
  if (numbers.length !== 1) return null
  const value = valueAt(output.dataType, numbers, 0)
  // A label of `true` or `false` is compared with the words, 1 and 0 with the numbers.
  if (policy.kind === 'threshold') return value >= policy.threshold ? '1' : '0'
  return output.dataType === 'BOOL' ? String(value !== 0) : String(numbers[0])
}

const hasOneRow = ({ shape }: Tensor): boolean => shape.slice(0, -1).every((dimension) => dimension === 1)

/** The class or bin of an answer for the drift of its output; -1: it has none. */
export function driftClassOf(output: Tensor, rule: DriftRule): number {
  if (output.dataType === 'BYTES' || output.bytes.length === 0) return -1
  const numbers = numbersOf(output)
  if (rule.bins === null) return hasOneRow(output) ? highest(output.dataType, numbers) : -1
  const value = valueAt(output.dataType, numbers, 0)
  const bin = rule.bins.findIndex((bound) => value <= bound)
  return bin === -1 ? rule.bins.length : bin
}

function valueAt(dataType: DataType, numbers: TypedValues, index: number): number {
  const value = Number(numbers[index] ?? NaN)
  if (dataType === 'FP16') return fp16Value(value)
  return dataType === 'BF16' ? bf16Value(value) : value
}

/** -1: there is none, or there are too many to look for it. */
function highest(dataType: DataType, numbers: TypedValues): number {
  if (numbers.length === 0 || numbers.length > mostClasses) return -1
  let best = 0
  let bestValue = valueAt(dataType, numbers, 0)
  for (let i = 1; i < numbers.length; i++) {
    const value = valueAt(dataType, numbers, i)
    if (!(value > bestValue)) continue
    best = i
    bestValue = value
  }
  return best
}
