import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { orderWithTies } from './tie-order.ts'

test('every index comes once, larger scores first, however the scores lie', () => {
  const score = fc.integer({ min: 0, max: 5 })
  fc.assert(
    fc.property(fc.array(score, { maxLength: 300 }), (scores) => {
      const order = [...orderWithTies(scores)]
      assert.deepEqual(
        order.map((index) => scores[index]),
        scores.toSorted((a, b) => b - a),
      )
      assert.deepEqual(
        order.toSorted((a, b) => a - b),
        scores.map((_, i) => i),
      )
    }),
  )
})

test('scores that make the median a bad choice every time are sorted, too', () => {
  // Musser's sequence against a sort that takes the median of three.
  const half = 2000
  const scores = new Float64Array(2 * half)
  for (let i = 1; i <= half; i++) {
    if (i % 2 === 1) {
      scores[i - 1] = i
      scores[i] = half + i
    }
    scores[half + i - 1] = 2 * i
  }
  const order = orderWithTies(scores)
  for (let i = 1; i < order.length; i++) assert.ok(scores[order[i - 1]!]! >= scores[order[i]!]!)
})
