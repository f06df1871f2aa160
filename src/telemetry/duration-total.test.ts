import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { DurationTotal } from './duration-total.ts'

test('a sum far above 2^53 nanoseconds is exact', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 2 ** 52 }), { maxLength: 200 }), (durations) => {
      const total = new DurationTotal()
      for (const ns of durations) total.add(ns)
      assert.equal(
        total.ns,
        durations.reduce((sum, ns) => sum + BigInt(ns), 0n),
      )
      assert.equal(total.count, durations.length)
    }),
  )
})

test('a duration that is not positive counts and adds nothing', () => {
  const total = new DurationTotal()
  for (const ns of [-5, 0, NaN]) total.add(ns)
  assert.deepEqual(total.snapshot(), { count: 3, ns: 0n })
})

test('fractions of a nanosecond are rounded away', () => {
  const total = new DurationTotal()
  total.add(1.4)
  total.add(1.6)
  assert.equal(total.ns, 3n)
})
