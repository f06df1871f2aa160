import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { cutAxis, padInto, resized } from './pad.ts'
import { elementCount } from './shape.ts'

const fill = Uint8Array.of(0xff, 0xfe)

test('each row is filled up at its end', () => {
  const target = new Uint8Array(1 + 12)
  const bytes = Uint8Array.of(1, 0, 2, 0, 3, 0, 4, 0)
  const written = padInto(target, 1, bytes, [2, 2], 'INT16', { axis: 1, size: 3, fill })
  assert.equal(written, 12)
  assert.deepEqual([...target.subarray(1)], [1, 0, 2, 0, 0xff, 0xfe, 3, 0, 4, 0, 0xff, 0xfe])
})

test('a single row is cut back without a copy', () => {
  const bytes = new Uint8Array(8)
  const cut = cutAxis(bytes, [1, 4], 'INT16', 1, 3)
  assert.equal(cut.buffer, bytes.buffer)
  assert.equal(cut.byteLength, 6)
})

test('what was filled up and is cut back is what it was', () => {
  const shapes = fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(shapes, fc.nat(3), fc.nat(5), (shape, at, more) => {
      const axis = at % shape.length
      const bytes = Uint8Array.from({ length: elementCount(shape) * 2 }, (_, i) => i & 0xff)
      const size = (shape[axis] as number) + more
      const longer = resized(shape, axis, size)
      const target = new Uint8Array(elementCount(longer) * 2)
      assert.equal(padInto(target, 0, bytes, shape, 'INT16', { axis, size, fill }), target.length)
      assert.deepEqual([...cutAxis(target, longer, 'INT16', axis, shape[axis] as number)], [...bytes])
    }),
  )
})
