import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { DataType } from '../tensor/data-type.ts'
import { bf16Bits, fp16Bits } from '../tensor/half-float.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { tensorOfNumbers, tensorOfStrings } from '../tensor/typed-values.ts'
import { compareOutputs, type OutputComparison, type PairResult } from './compare-outputs.ts'
import { ShadowRecord } from './shadow-record.ts'

const fp32 = (values: readonly number[], shape: readonly number[] = [values.length], name = 'OUT'): Tensor =>
  tensorOfNumbers(name, 'FP32', shape, Float32Array.from(values))

const compare = (stable: Tensor, candidate: Tensor, rule?: OutputComparison): PairResult =>
  compareOutputs([stable], [candidate], rule === undefined ? {} : { OUT: rule })

describe('without a rule', () => {
  test('numbers with a point are close, by their type', () => {
    assert.ok(compare(fp32([1, 100]), fp32([1.0009, 100.09])).isEqual)
    assert.ok(!compare(fp32([1, 100]), fp32([1.0009, 100.2])).isEqual)
    const fp64 = (value: number): Tensor => tensorOfNumbers('OUT', 'FP64', [1], Float64Array.of(value))
    assert.ok(!compare(fp64(1), fp64(1.00001)).isEqual)
    const half = (type: DataType, bits: number): Tensor => tensorOfNumbers('OUT', type, [1], Uint16Array.of(bits))
    assert.ok(compare(half('FP16', fp16Bits(1)), half('FP16', fp16Bits(1.009))).isEqual)
    assert.ok(!compare(half('BF16', bf16Bits(1)), half('BF16', bf16Bits(1.1))).isEqual)
  })

  test('NaN equals NaN, infinities equal themselves, and nothing else equals either', () => {
    assert.ok(compare(fp32([NaN, Infinity, -Infinity]), fp32([NaN, Infinity, -Infinity])).isEqual)
    assert.ok(!compare(fp32([NaN]), fp32([1])).isEqual)
    assert.ok(!compare(fp32([1]), fp32([NaN])).isEqual)
    assert.ok(!compare(fp32([Infinity]), fp32([-Infinity])).isEqual)
    assert.ok(!compare(fp32([Infinity]), fp32([1])).isEqual)
  })

  test('whole numbers and BYTES are exact', () => {
    const int64 = (value: bigint): Tensor => tensorOfNumbers('OUT', 'INT64', [1], BigInt64Array.of(value))
    assert.ok(compare(int64(2n ** 62n), int64(2n ** 62n)).isEqual)
    assert.ok(!compare(int64(2n ** 62n), int64(2n ** 62n + 1n)).isEqual)
    const text = (...values: string[]): Tensor => tensorOfStrings('OUT', [values.length], values)
    assert.ok(compare(text('a', 'b'), text('a', 'b')).isEqual)
    assert.equal(compare(text('a', 'b'), text('a', 'c')).distance, 0.5)
  })

  test('another type, another shape, a missing and a new output are differences', () => {
    const why = (result: PairResult): string => result.outputs.map((output) => output.why).join()
    assert.match(why(compare(fp32([1]), tensorOfNumbers('OUT', 'INT32', [1], Int32Array.of(1)))), /type is INT32/)
    assert.match(why(compare(fp32([1, 2], [2]), fp32([1, 2], [1, 2]))), /shape is \[1,2\], that of stable is \[2\]/)
    assert.match(why(compareOutputs([fp32([1])], [], {})), /the candidate did not answer with it/)
    assert.match(why(compareOutputs([], [fp32([1])], {})), /stable did not answer with it/)
    assert.ok(compareOutputs([fp32([1])], [fp32([1], [1], 'NEW')], { OUT: { how: 'ignore' }, NEW: { how: 'ignore' } }).isEqual) // prettier-ignore
  })
})

describe('by rule', () => {
  test('top1 and topk: the same classes in every row', () => {
    const stable = fp32([0.1, 0.9, 0, 0.8, 0.1, 0.1], [2, 3])
    assert.ok(compare(stable, fp32([0.4, 0.5, 0, 9, 1, 1], [2, 3]), { how: 'topk', k: 1 }).isEqual)
    assert.equal(compare(stable, fp32([0.9, 0.1, 0, 9, 1, 1], [2, 3]), { how: 'topk', k: 1 }).distance, 0.5)
    assert.ok(compare(fp32([3, 2, 1]), fp32([2, 3, 1]), { how: 'topk', k: 2 }).isEqual)
    assert.ok(!compare(fp32([3, 2, 1]), fp32([3, 1, 2]), { how: 'topk', k: 2 }).isEqual)
  })

  test('cosine: the row that differs most', () => {
    const rule = { how: 'cosine', threshold: 0.99 } as const
    assert.ok(compare(fp32([1, 0, 0, 1], [2, 2]), fp32([2, 0, 0, 5], [2, 2]), rule).isEqual)
    assert.ok(!compare(fp32([1, 0, 0, 1], [2, 2]), fp32([2, 0, 1, 1], [2, 2]), rule).isEqual)
    assert.ok(compare(fp32([0, 0]), fp32([0, 0]), rule).isEqual)
    assert.ok(!compare(fp32([0, 0]), fp32([1, 0]), rule).isEqual)
    assert.ok(!compare(fp32([1, 0]), fp32([NaN, 0]), rule).isEqual)
  })

  test('max_abs', () => {
    assert.ok(compare(fp32([1, 2]), fp32([1.5, 2]), { how: 'max_abs', threshold: 0.5 }).isEqual)
    assert.ok(!compare(fp32([1, 2]), fp32([1.75, 2]), { how: 'max_abs', threshold: 0.5 }).isEqual)
  })

  test('iou: boxes in any order, and masks', () => {
    const rule = { how: 'iou', threshold: 0.5 } as const
    const boxes = fp32([0, 0, 10, 10, 20, 20, 30, 30], [2, 4])
    assert.ok(compare(boxes, fp32([20, 20, 30, 29, 0, 0, 10, 9], [2, 4]), rule).isEqual)
    assert.ok(!compare(boxes, fp32([20, 20, 30, 29, 6, 6, 16, 16], [2, 4]), rule).isEqual)
    assert.ok(compare(fp32([0, 0, 0, 0], [1, 4]), fp32([0, 0, 0, 0], [1, 4]), rule).isEqual)
    const mask = (...bits: number[]): Tensor => tensorOfNumbers('OUT', 'BOOL', [bits.length], Uint8Array.from(bits))
    assert.ok(compare(mask(1, 1, 0, 0, 0), mask(1, 0, 0, 0, 0), rule).isEqual)
    assert.ok(!compare(mask(1, 1, 1, 0, 0), mask(0, 0, 1, 1, 0), rule).isEqual)
  })

  test('text: edits in proportion to the length; huge texts are equal or not', () => {
    const rule = { how: 'text', threshold: 0.9 } as const
    const text = (value: string): Tensor => tensorOfStrings('OUT', [1], [value])
    assert.ok(compare(text('a good answer'), text('a good answers'), rule).isEqual)
    assert.ok(compare(text('0123456789'), text('012345678x'), rule).isEqual)
    assert.ok(!compare(text('a good answer'), text('a bad answer'), rule).isEqual)
    const huge = 'x'.repeat(1_000_000)
    assert.ok(compare(text(huge), text(huge), rule).isEqual)
    assert.equal(compare(text(huge), text(`${huge}y`), rule).distance, 1)
  })

  test('a rule that does not fit the type is a difference that says so', () => {
    const { outputs } = compare(fp32([1]), fp32([1]), { how: 'text', threshold: 0.9 })
    assert.match(outputs[0]?.why ?? '', /outputs of type FP32 cannot be compared by 'text'/)
  })
})

test('the record keeps the hundred worst pairs', () => {
  const record = new ShadowRecord()
  for (let i = 0; i < 300; i++) record.addPair(`r${i}`, compare(fp32([0]), fp32([(i * 7) % 300])))
  record.addDropped('pressure')
  record.addDropped('pressure')
  record.addCost(3, 0.5)
  const { compared, disagreed, worst, dropped, executions } = record.figures()
  assert.deepEqual([compared, disagreed, worst.length, dropped['pressure'], executions], [300, 299, 100, 2, 3])
  assert.ok(worst.every((pair, i) => i === 0 || pair.distance <= (worst[i - 1]?.distance ?? 0)))
  assert.match(worst[0]?.why[0] ?? '', /^OUT: close: the distance is/)
})
