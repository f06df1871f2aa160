import assert from 'node:assert/strict'
import { test } from 'node:test'

import fc from 'fast-check'

import { BodyCollector } from './body-collector.ts'

const collect = (collector: BodyCollector, pieces: readonly Buffer[]): Buffer => {
  for (const piece of pieces) collector.add(piece)
  return collector.finish()
}

test('a body that arrives in one piece is used as it is', () => {
  const piece = Buffer.from('whole')
  const body = collect(new BodyCollector(piece.length, 1000), [piece])
  assert.equal(body.buffer, piece.buffer)
  assert.equal(body.toString(), 'whole')
})

test('pieces come out in order as one buffer, announced or chunked', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ minLength: 1, maxLength: 40_000 }), { maxLength: 12 }), (parts) => {
      const pieces = parts.map((part) => Buffer.from(part))
      const whole = Buffer.concat(pieces)
      for (const announced of [whole.length, -1]) {
        const collector = new BodyCollector(announced, 1_000_000)
        assert.ok(collect(collector, pieces).equals(whole))
        assert.equal(collector.state, 'complete')
      }
    }),
    { numRuns: 200 },
  )
})

test('what is set aside stays below sixteen times what has arrived, whatever was announced', () => {
  const collector = new BodyCollector(64 * 1024 * 1024, 64 * 1024 * 1024)
  const before = process.memoryUsage().arrayBuffers
  collector.add(Buffer.alloc(1024))
  collector.add(Buffer.alloc(1024))
  assert.ok(process.memoryUsage().arrayBuffers - before < 64 * 1024)
  assert.equal(collector.finish().length, 2048)
})

test('a body for which there is no memory is refused', () => {
  const collector = new BodyCollector(1000, 1000, {
    allocate: () => {
      throw new RangeError('Array buffer allocation failed')
    },
  })
  collector.add(Buffer.alloc(10))
  assert.equal(collector.state, 'receiving')
  collector.add(Buffer.alloc(10))
  assert.equal(collector.state, 'no-memory')
  assert.equal(collector.isBeyondPatience, true)
})

test('an announced body over the limit is refused before its first byte', () => {
  const collector = new BodyCollector(1001, 1000)
  assert.equal(collector.state, 'too-large')
  assert.equal(collector.bodyBytes, 1001)
  assert.equal(collector.isBeyondPatience, false)
})

test('a body over the limit is heard out up to sixteen times the limit', () => {
  const collector = new BodyCollector(-1, 100)
  collector.add(Buffer.alloc(101))
  assert.equal(collector.state, 'too-large')
  collector.add(Buffer.alloc(1499))
  assert.equal(collector.isBeyondPatience, false)
  collector.add(Buffer.alloc(1))
  assert.equal(collector.isBeyondPatience, true)
  assert.equal(collector.finish().length, 0)
})

test('a chunked body of more than 65536 pieces is refused', () => {
  const collector = new BodyCollector(-1, 1_000_000)
  const piece = Buffer.from('x')
  for (let i = 0; i < 65536; i++) collector.add(piece)
  assert.equal(collector.state, 'receiving')
  collector.add(piece)
  assert.equal(collector.state, 'too-many-chunks')
  assert.equal(collector.isBeyondPatience, true)
})

test('memory that is there already goes back where the body is refused or nobody wants it, and only once', () => {
  const mib = 1024 * 1024
  const given: Buffer[] = []
  const kept = Buffer.alloc(4 * mib)
  let left = 2 * mib
  const begin = (): BodyCollector =>
    new BodyCollector(4 * mib, 4 * mib, {
      kept: () => kept,
      giveBack: (memory) => given.push(memory),
      reserve: (bytes) => (left -= bytes) >= 0,
    })
  const refused = begin()
  for (const bytes of [mib, mib]) refused.add(Buffer.alloc(bytes))
  assert.equal(given.length, 0)
  refused.add(Buffer.alloc(mib))
  assert.equal(refused.state, 'over-budget')
  assert.deepEqual([given.length, given[0]?.buffer === kept.buffer], [1, true])
  refused.drop()
  assert.equal(given.length, 1)

  left = 4 * mib
  const abandoned = begin()
  for (const bytes of [mib, mib]) abandoned.add(Buffer.alloc(bytes))
  abandoned.drop()
  assert.equal(given.length, 2)

  left = 4 * mib
  const whole = begin()
  for (let i = 0; i < 4; i++) whole.add(Buffer.alloc(mib))
  assert.equal(whole.finish().buffer, kept.buffer)
  whole.drop()
  assert.equal(given.length, 2)
})
