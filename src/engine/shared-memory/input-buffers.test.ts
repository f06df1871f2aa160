import assert from 'node:assert/strict'
import test from 'node:test'

import { InputBuffers } from './input-buffers.ts'

const mib = 1024 * 1024

test('a large buffer that was given back is used again for its size only', () => {
  const buffers = new InputBuffers()
  const buffer = buffers.take(mib)
  buffers.give(buffer)
  assert.equal(buffers.keptBytes, mib)
  assert.notEqual(buffers.take(mib + 1), buffer)
  assert.equal(buffers.take(mib), buffer)
  assert.equal(buffers.keptBytes, 0)
  assert.notEqual(buffers.take(mib), buffer)
})

test('small buffers, and those whose bytes went to a thread, are not kept', () => {
  const buffers = new InputBuffers()
  buffers.give(buffers.take(100))
  const gone = buffers.take(mib)
  structuredClone(gone.buffer, { transfer: [gone.buffer as ArrayBuffer] })
  buffers.give(gone)
  assert.equal(buffers.keptBytes, 0)
})

test('what is kept is bounded', () => {
  const buffers = new InputBuffers()
  const all = Array.from({ length: 40 }, () => buffers.take(4 * mib))
  for (const buffer of all) buffers.give(buffer)
  assert.ok(buffers.keptBytes <= 128 * mib && buffers.keptBytes > 0)
  buffers.give(buffers.take(129 * mib))
  assert.ok(buffers.keptBytes <= 128 * mib)
  buffers.clear()
  assert.equal(buffers.keptBytes, 0)
})
