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

test('sixty million digits are no number of 64 bits, and cost no more than a walk over them', () => {
  const text = '9'.repeat(60_000_000)
  const before = process.cpuUsage()
  assert.ok((leadingInteger(text) as bigint) > 2n ** 64n)
  assert.ok((leadingInteger(`-${text}`) as bigint) < -(2n ** 63n))
  // BigInt() of the digits takes 19 seconds.
  assert.ok(process.cpuUsage(before).user < 2e6)
})
