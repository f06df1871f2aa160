import assert from 'node:assert/strict'
import { test } from 'node:test'

import { keepWithOwner, transferableBytes } from './transferable-bytes.ts'

const large = 1024 * 1024

test('bytes with a buffer of their own are handed over without a copy, also where the buffer is longer', () => {
  const body = Buffer.from(new ArrayBuffer(large), 0, large - 100)
  const bytes = transferableBytes(body)
  assert.equal(bytes.buffer, body.buffer)
  assert.equal(bytes.length, large - 100)
})

test('bytes that may share their buffer are copied', () => {
  for (const body of [Buffer.alloc(large).subarray(8), Buffer.from(new ArrayBuffer(large), 0, 100)]) {
    body.fill(7)
    const bytes = transferableBytes(body)
    assert.notEqual(bytes.buffer, body.buffer)
    assert.ok(body.equals(bytes))
  }
})

test('memory that must stay with its owner is copied, and remains readable after the copy was handed over', () => {
  const memory = new ArrayBuffer(large)
  keepWithOwner(memory)
  const body = Buffer.from(memory).fill(7)
  const bytes = transferableBytes(body)
  structuredClone(bytes, { transfer: [bytes.buffer] })
  assert.equal(body.length, large)
  assert.equal(body.at(-1), 7)
})
