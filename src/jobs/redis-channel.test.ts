import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ReadSize, type Entry } from './redis-channel.ts'

const messages = (count: number, bytes: number): Entry[] =>
  Array.from({ length: count }, () => [Buffer.from('1-1'), [Buffer.from('body'), Buffer.alloc(bytes)]])

test('a stream is read a message at a time at first, then by more while they are small', () => {
  const size = new ReadSize()
  const asked: number[] = []
  for (let read = 0; read < 9; read++) {
    const count = size.of(1024)
    asked.push(count)
    size.after(messages(count, 1000))
  }
  assert.deepEqual(asked, [1, 2, 4, 8, 16, 32, 64, 64, 64])
  assert.equal(size.of(10), 10)
  size.after([])
  assert.equal(size.of(1024), 64)
  size.after(messages(64, 4 * 1024 * 1024))
  assert.equal(size.of(1024), 3)
  size.after(messages(1, 64 * 1024 * 1024))
  assert.equal(size.of(1024), 1)
})
