import assert from 'node:assert/strict'
import { test } from 'node:test'

import { leadingInteger } from './leading-integer.ts'

test('a text begins with a number, whatever follows it', () => {
  assert.equal(leadingInteger('12'), 12n)
  assert.equal(leadingInteger(' -7 apples'), -7n)
  assert.equal(leadingInteger('+0042'), 42n)
  assert.equal(leadingInteger('000'), 0n)
  assert.equal(leadingInteger(String(2n ** 64n - 1n)), 2n ** 64n - 1n)
  assert.equal(leadingInteger('apples'), null)
  assert.equal(leadingInteger(''), null)
})

test('a million digits are no number of 64 bits, and BigInt(), whose time grows with their square, never sees them', (t) => {
  const text = '9'.repeat(1_000_000)
  const made = t.mock.method(globalThis, 'BigInt')
  assert.ok((leadingInteger(text) as bigint) > 2n ** 64n)
  assert.ok((leadingInteger(`-${text}`) as bigint) < -(2n ** 63n))
  assert.equal(leadingInteger(`${'0'.repeat(1_000_000)}7`), 7n)
  const longest = Math.max(...made.mock.calls.map((call) => String(call.arguments[0]).length))
  assert.equal(longest, 1)
})
