import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { QuantileWindow } from './quantile-window.ts'

test('a quantile is within 1.6 % of the exact one', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 2 ** 31 }), { minLength: 1, maxLength: 300 }),
      fc.double({ min: 0.01, max: 0.999, noNaN: true }),
      (values, quantile) => {
        const window = new QuantileWindow()
        for (const value of values) window.add(value, 1)
        const exact = values.toSorted((a, b) => a - b)[Math.ceil(quantile * values.length) - 1] as number
        const [found] = window.quantiles([quantile], 1) as [number]
        assert.ok(Math.abs(found - exact) <= exact * 0.016, `${found} instead of ${exact}`)
      },
    ),
  )
})

test('what is older than a minute is forgotten', () => {
  const window = new QuantileWindow()
  window.add(7, 0)
  window.add(9, 30e9)
  assert.deepEqual(window.quantiles([0.5, 1], 35e9), [7, 9])
  assert.deepEqual(window.quantiles([0.5], 70e9), [9])
  assert.deepEqual(window.quantiles([0.5], 100e9), [NaN])
  window.add(3, 1000e9)
  assert.deepEqual(window.quantiles([0.5], 1000e9), [3])
})

test('a value beyond the last bucket counts in it', () => {
  const window = new QuantileWindow()
  window.add(2 ** 50, 0)
  assert.ok((window.quantiles([0.5], 0)[0] as number) > 2 ** 39)
})
