import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { gatherBytes, splitRows } from './gather.ts'

const rows = fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 6 })

test('what was gathered splits into the same parts again', () => {
  fc.assert(
    fc.property(rows, fc.integer({ min: 0, max: 4 }), (counts, width) => {
      const parts = counts.map((count, i) => new Uint8Array(count * width * 4).fill(i + 1))
      const total = counts.reduce((sum, count) => sum + count, 0)
      const split = splitRows(gatherBytes(parts), 'INT32', [total, width], counts)
      assert.deepEqual(
        split?.map((part) => [...part]),
        parts.map((part) => [...part]),
      )
    }),
  )
})

test('strings are split by their frames', () => {
  fc.assert(
    fc.property(fc.array(fc.array(fc.uint8Array({ maxLength: 9 }), { maxLength: 4 }), { minLength: 1 }), (texts) => {
      const frame = (text: Uint8Array): Buffer => {
        const length = Buffer.alloc(4)
        length.writeUInt32LE(text.length)
        return Buffer.concat([length, text])
      }
      const parts = texts.map((list) => Buffer.concat(list.map(frame)))
      const total = texts.reduce((sum, list) => sum + list.length, 0)
      const counts = texts.map((list) => list.length)
      const split = splitRows(gatherBytes(parts), 'BYTES', [total, 1], counts)
      assert.deepEqual(
        split?.map((part) => [...part]),
        parts.map((part) => [...part]),
      )
    }),
  )
})

test('rows that do not add up to the first dimension cannot be split', () => {
  assert.equal(splitRows(new Uint8Array(12), 'INT32', [3, 1], [1, 1]), null)
  assert.equal(splitRows(new Uint8Array(12), 'INT32', [], [1]), null)
  assert.equal(splitRows(new Uint8Array(8), 'INT32', [3, 1], [1, 2]), null)
  assert.equal(splitRows(Uint8Array.of(9, 0, 0, 0), 'BYTES', [1, 1], [1]), null)
})

test('a split is made of views, not of copies', () => {
  const bytes = new Uint8Array(16)
  const split = splitRows(bytes, 'UINT8', [4, 4], [1, 3])
  assert.deepEqual(
    split?.map((part) => part.buffer === bytes.buffer),
    [true, true],
  )
})
