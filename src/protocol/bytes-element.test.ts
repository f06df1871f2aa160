import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lastOf } from '../base/run-in-slices.ts'
import { bytesElementsInSteps } from './bytes-element.ts'

test('large elements are copied a few megabytes at a time, small ones at once', () => {
  const parts = [Buffer.from('ab'), Buffer.from(''), Buffer.from('c')]
  assert.equal(lastOf(bytesElementsInSteps([parts, []])).toString('latin1'), '\x03\0\0\0abc\0\0\0\0')
  assert.equal(bytesElementsInSteps([parts]).next().done, true)
  const large = Buffer.alloc(9 * 1024 * 1024, 'x')
  let steps = 0
  const copied = bytesElementsInSteps([[large], parts])
  let { done, value } = copied.next()
  for (; done !== true; { done, value } = copied.next()) steps++
  assert.equal(steps, 4)
  const bytes = value as Buffer
  assert.ok(bytes.subarray(4, 4 + large.length).equals(large))
  assert.equal(bytes.toString('latin1', 4 + large.length), '\x03\0\0\0abc')
})
