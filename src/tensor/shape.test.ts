import assert from 'node:assert/strict'
import test from 'node:test'
import { shapeText } from './shape.ts'

test('a shape is told with every digit, and no dimension beyond int64', () => {
  assert.equal(shapeText([-1, 16]), '[-1,16]')
  assert.equal(shapeText([2 ** 62]), '[4611686018427387904]')
  assert.equal(shapeText([2 ** 63]), '[9223372036854775807]')
})
