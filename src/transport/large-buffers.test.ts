import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LargeBuffers, leastLargeBytes, mostKeptBytes } from './large-buffers.ts'

const mib = 1024 * 1024
const body = (bytes: number): Buffer => Buffer.allocUnsafeSlow(bytes)

test('memory of an answered body is taken for the next one that is about as long, once', () => {
  const buffers = new LargeBuffers(mostKeptBytes)
  const given = body(4 * mib)
  // The body is the last part of its memory, as where a head came before it.
  buffers.give(given.subarray(100))
  assert.equal(buffers.keptBytes, 4 * mib)
  assert.equal(buffers.take(5 * mib), null)
  assert.equal(buffers.take(3 * mib), null)
  const taken = buffers.take(4 * mib - 100)
  assert.deepEqual([taken?.buffer === given.buffer, taken?.length], [true, 4 * mib])
  assert.equal(buffers.take(4 * mib), null)
  assert.equal(buffers.keptBytes, 0)
})

test('small bodies, and bodies whose memory went to a thread, are not kept', () => {
  const buffers = new LargeBuffers(mostKeptBytes)
  buffers.give(body(leastLargeBytes - 1))
  const moved = body(leastLargeBytes)
  structuredClone(moved.buffer, { transfer: [moved.buffer as ArrayBuffer] })
  buffers.give(moved)
  assert.equal(buffers.keptBytes, 0)
  assert.equal(buffers.take(leastLargeBytes - 1), null)
})

test('what is kept has a bound, and the oldest goes first', () => {
  const buffers = new LargeBuffers(8 * mib)
  const first = body(3 * mib)
  for (const each of [first, body(4 * mib), body(4 * mib)]) buffers.give(each)
  assert.equal(buffers.keptBytes, 8 * mib)
  assert.equal(buffers.take(3 * mib), null)
  buffers.give(body(9 * mib))
  assert.equal(buffers.keptBytes, 0)
})

test('what nobody takes for ten seconds goes back to the system', () => {
  const buffers = new LargeBuffers(mostKeptBytes)
  assert.equal(buffers.take(2 * mib), null)
  buffers.give(body(2 * mib))
  buffers.sweep(1e9)
  buffers.sweep(10e9)
  assert.equal(buffers.keptBytes, 2 * mib)
  buffers.sweep(11.1e9)
  assert.equal(buffers.keptBytes, 0)
})

test('pinned memory comes first, in steps of 64 KiB, and goes back where it came from', () => {
  const pinned = body(2 * mib)
  const asked: number[] = []
  const free = [pinned]
  const buffers = new LargeBuffers(mostKeptBytes, {
    limitBytes: 2 * mib,
    usedBytes: 0,
    take: (bytes) => {
      asked.push(bytes)
      return free.pop() ?? null
    },
    giveBack: (memory) => memory === pinned.buffer && free.push(pinned) > 0,
  })
  const taken = buffers.take(2 * mib - 5)
  assert.equal(taken, pinned)
  assert.equal(buffers.take(2 * mib), null)
  buffers.give(pinned.subarray(0, 2 * mib - 5))
  buffers.give(body(2 * mib))
  assert.deepEqual([asked, free.length, buffers.keptBytes], [[2 * mib, 2 * mib], 1, 2 * mib])
})
