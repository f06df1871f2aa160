import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { HpackDecoder } from './hpack-decoder.ts'
import { encodeHeaderBlock, HpackEncoder, okTrailers, plainHead } from './hpack-encoder.ts'

const read = (decoder: HpackDecoder, block: Buffer): string[] => decoder.decode(block, 0, block.length, 1_000_000)
const head = [':status', '200', 'content-type', 'application/grpc']

test('a block says what was meant, whatever is in it', () => {
  const text = fc.string({ unit: 'binary-ascii', maxLength: 300 })
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.oneof(text, fc.constantFrom(':status', 'content-type')), text)), (fields) => {
      const decoder = new HpackDecoder()
      assert.deepEqual(read(decoder, encodeHeaderBlock(fields)), fields.flat())
      assert.equal(decoder.tableVersion, 0)
    }),
  )
})

test('repeated answers take three bytes, in whatever order heads, trailers and others come', () => {
  const error = encodeHeaderBlock([['grpc-status', '5']])
  fc.assert(
    fc.property(fc.array(fc.constantFrom(plainHead, okTrailers, error), { maxLength: 30 }), (blocks) => {
      const encoder = new HpackEncoder()
      const decoder = new HpackDecoder()
      for (const block of blocks)
        assert.deepEqual(read(decoder, encoder.encode(block)), read(new HpackDecoder(), block))
    }),
  )
  const encoder = new HpackEncoder()
  for (const block of [plainHead, okTrailers]) encoder.encode(block)
  assert.deepEqual([encoder.encode(plainHead).length, encoder.encode(okTrailers).length], [2, 1])
})

test('a client that wants a smaller table is told that none is used, once', () => {
  const encoder = new HpackEncoder()
  const decoder = new HpackDecoder()
  read(decoder, encoder.encode(plainHead))
  encoder.limitTable(4096)
  assert.equal(encoder.encode(plainHead).length, 2)
  encoder.limitTable(100)
  const next = encoder.encode(plainHead)
  assert.equal(next[0], 0x20)
  assert.deepEqual(read(decoder, next), head)
  assert.equal(encoder.encode(plainHead), plainHead)
  assert.equal(encoder.encode(okTrailers), okTrailers)
})
