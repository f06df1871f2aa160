import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { HeldPieces } from './held-pieces.ts'

test('pieces come out as they went in, however they were cut', () => {
  const step = fc.oneof(fc.integer({ min: 0, max: 40_000 }), fc.constant('take' as const))
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const held = new HeldPieces()
      const given: Buffer[] = []
      const taken: Buffer[] = []
      let next = 0
      for (const each of steps) {
        if (each === 'take') {
          if (!held.isEmpty) taken.push(held.take())
          continue
        }
        const piece = Buffer.alloc(each, next++)
        given.push(piece)
        held.add(piece)
      }
      while (!held.isEmpty) taken.push(held.take())
      assert.ok(Buffer.concat(taken).equals(Buffer.concat(given)))
    }),
    { numRuns: 200 },
  )
})

test('a small piece does not hold on to what arrived with it', () => {
  const chunk = Buffer.alloc(64 * 1024)
  const held = new HeldPieces()
  for (let i = 0; i < 100; i++) held.add(chunk.subarray(i, i + 1))
  const piece = held.take()
  assert.equal(piece.length, 100)
  assert.notEqual(piece.buffer, chunk.buffer)
  assert.equal(held.isEmpty, true)
})
