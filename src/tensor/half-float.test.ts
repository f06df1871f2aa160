import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { bf16Bits, bf16Value, fp16Bits, fp16Value } from './half-float.ts'

const float = fc.float({ noDefaultInfinity: false, noNaN: false })

test('FP16 converts as Float16Array does, both ways', () => {
  const halves = new Float16Array(1)
  const bits = new Uint16Array(halves.buffer)
  for (let pattern = 0; pattern < 65_536; pattern++) {
    bits[0] = pattern
    assert.equal(fp16Value(pattern), halves[0], `bits ${pattern}`)
  }
  fc.assert(
    fc.property(fc.oneof(float, fc.double({ min: -70_000, max: 70_000 }).map(Math.fround)), (value) => {
      halves[0] = value
      if (Number.isNaN(value)) assert.ok(Number.isNaN(fp16Value(fp16Bits(value))))
      else assert.equal(fp16Bits(value), bits[0], `value ${value}`)
    }),
    { numRuns: 5000 },
  )
})

test('BF16 is the nearest number that has its lower half zero', () => {
  fc.assert(
    fc.property(float, (value) => {
      const rounded = bf16Value(bf16Bits(value))
      if (Number.isNaN(value)) {
        assert.ok(Number.isNaN(rounded))
        return
      }
      const below = bf16Value(bf16Bits(value) - 1)
      const above = bf16Value(bf16Bits(value) + 1)
      if (!Number.isFinite(rounded)) return
      for (const neighbour of [below, above]) {
        if (!Number.isFinite(neighbour)) continue
        assert.ok(Math.abs(rounded - value) <= Math.abs(neighbour - value), `${value} became ${rounded}`)
      }
    }),
  )
  assert.equal(bf16Value(bf16Bits(3.140625)), 3.140625)
})
