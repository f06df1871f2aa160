import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { DataType } from '../../tensor/data-type.ts'
import { bf16Bits, bf16Value } from '../../tensor/half-float.ts'
import { splitByteElements } from './element-arrays.ts'
import { fromBytes, fromStrings, tensor } from './model-tensor.ts'

const values: Partial<Record<DataType, fc.Arbitrary<number | bigint | boolean | string>>> = {
  BOOL: fc.boolean(),
  UINT8: fc.integer({ min: 0, max: 0xff }),
  UINT16: fc.integer({ min: 0, max: 0xffff }),
  UINT32: fc.integer({ min: 0, max: 0xffffffff }),
  UINT64: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  INT8: fc.integer({ min: -0x80, max: 0x7f }),
  INT16: fc.integer({ min: -0x8000, max: 0x7fff }),
  INT32: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
  INT64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  FP16: fc.double().map((value) => Math.f16round(value)),
  FP32: fc.float(),
  FP64: fc.double(),
  BYTES: fc.string({ unit: 'binary' }),
}

for (const [dataType, value] of Object.entries(values) as [
  DataType,
  fc.Arbitrary<number | bigint | boolean | string>,
][]) {
  test(`${dataType} values come back as they went in`, () => {
    fc.assert(
      fc.property(fc.array(value, { maxLength: 20 }), (list) => {
        const made = tensor('T', dataType, [list.length], list as number[])
        assert.deepEqual(made.toArray(), list)
        assert.deepEqual(fromBytes('T', dataType, [list.length], made.bytes).toArray(), list)
      }),
    )
  })
}

test('BF16 rounds to the nearest, ties to even, and keeps what fits exactly', () => {
  fc.assert(
    fc.property(fc.float({ noNaN: true }), (value) => {
      const back = bf16Value(bf16Bits(value))
      // Seven bits of fraction: half a unit in the last place is 2^-8 of the value; below, the subnormals' step.
      const isClose = Math.abs(back - value) <= Math.max(Math.abs(value) * 2 ** -8, 2 ** -134)
      assert.ok(back === value || isClose || Math.abs(value) > 3.39e38)
    }),
  )
  assert.equal(bf16Bits(1), 0x3f80)
  assert.equal(bf16Bits(1 + 2 ** -8), 0x3f80, 'a tie goes to the even one')
  assert.equal(bf16Bits(1 + 3 * 2 ** -8), 0x3f82)
  assert.equal(bf16Bits(-Infinity), 0xff80)
  assert.ok(Number.isNaN(bf16Value(bf16Bits(NaN))))
})

test('a typed array of the right type is used in place, any other is converted', () => {
  const floats = Float32Array.of(1, 2)
  assert.equal(tensor('T', 'FP32', [2], floats).bytes.buffer, floats.buffer)
  assert.deepEqual(tensor('T', 'FP32', [2], Float64Array.of(1, 2)).asFloat32(), floats)
  assert.deepEqual(tensor('T', 'FP16', [1], Uint16Array.of(0x3c00)).asFloat32(), Float32Array.of(1))
  assert.deepEqual(tensor('T', 'INT64', [1], [3]).asBigInt64(), BigInt64Array.of(3n))
})

test('an accessor gives a view on aligned bytes and a copy of others', () => {
  const memory = new Uint8Array(12)
  const aligned = fromBytes('T', 'INT32', [2], memory.subarray(4)).asInt32()
  assert.equal(aligned.buffer, memory.buffer)
  const unaligned = fromBytes('T', 'INT32', [2], memory.subarray(1, 9)).asInt32()
  assert.notEqual(unaligned.buffer, memory.buffer)
})

test('reading a tensor as another type says how to read it', () => {
  assert.throws(
    () => fromStrings('T', [1], ['a']).asFloat32(),
    /tensor 'T' is BYTES: read it with asStrings\(\), not asFloat32\(\)/,
  )
})

const refusals: readonly (readonly [DataType, readonly unknown[], RegExp])[] = [
  ['UINT8', [256], /value 256 at index 0 does not fit UINT8/],
  ['INT8', [1.5], /value 1\.5 at index 0 does not fit INT8/],
  ['UINT64', [-1n], /value -1 at index 0 does not fit UINT64/],
  ['INT64', [2 ** 60], /INT64 takes bigints or safe integers, got a number at index 0/],
  ['FP32', ['1'], /FP32 takes numbers, got a string at index 0/],
  ['BOOL', [2], /BOOL takes true and false, got a number at index 0/],
  ['BYTES', [1], /BYTES takes strings and Uint8Arrays, got a number at index 0/],
]
for (const [dataType, list, message] of refusals) {
  test(`${dataType} refuses ${String(list)}`, () => {
    assert.throws(() => tensor('T', dataType, [1], list as number[]), message)
  })
}

test('byte elements whose frames reach past the end are refused, whatever the bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      try {
        const total = splitByteElements(bytes).reduce((sum, element) => sum + 4 + element.byteLength, 0)
        assert.equal(total, bytes.byteLength)
      } catch (reason) {
        assert.ok(reason instanceof RangeError)
      }
    }),
  )
})

test('wrong names, types and shapes are refused', () => {
  assert.throws(() => tensor('', 'FP32', [1], [1]), /Tensor name cannot be an empty string\./)
  assert.throws(() => tensor('T', 'FP8' as DataType, [1], [1]), /unknown data type 'FP8', expected one of BOOL, /)
  assert.throws(() => tensor('T', 'FP32', [-1], [1]), /shape must be an array of sizes of 0 or more, got \[-1\]/)
})
