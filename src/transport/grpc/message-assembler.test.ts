import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { MessageAssembler, MessageTooLarge } from './message-assembler.ts'

const framed = (bytes: Uint8Array, flag = 0): Buffer => {
  const prefix = Buffer.alloc(5)
  prefix[0] = flag
  prefix.writeUInt32BE(bytes.length, 1)
  return Buffer.concat([prefix, bytes])
}

test('messages are the same however their bytes arrive', () => {
  const message = fc.tuple(fc.uint8Array({ maxLength: 300 }), fc.boolean())
  fc.assert(
    fc.property(fc.array(message, { maxLength: 6 }), fc.array(fc.integer({ min: 1, max: 70 })), (messages, cuts) => {
      const body = Buffer.concat(messages.map(([bytes, isCompressed]) => framed(bytes, isCompressed ? 1 : 0)))
      const assembler = new MessageAssembler(1000)
      const got: [string, boolean][] = []
      for (let at = 0, i = 0; at < body.length; i++) {
        const size = cuts.length === 0 ? body.length : (cuts[i % cuts.length] as number)
        assembler.push(body.subarray(at, at + size))
        at += size
        for (let next = assembler.next(); next !== null; next = assembler.next()) {
          got.push([next.bytes.toString('hex'), next.isCompressed])
        }
      }
      assert.deepEqual(
        got,
        messages.map(([bytes, isCompressed]) => [Buffer.from(bytes).toString('hex'), isCompressed]),
      )
      assert.ok(assembler.isBetweenMessages)
    }),
  )
})

test('a message is a copy of lent bytes, and so is what is kept of them', () => {
  const chunk = Buffer.concat([framed(Buffer.from('abc')), framed(Buffer.from('de'))])
  const assembler = new MessageAssembler(10)
  assembler.push(chunk)
  const first = assembler.next()
  assembler.keepRest()
  chunk.fill(0)
  assert.deepEqual([first?.bytes.toString(), assembler.next()?.bytes.toString()], ['abc', 'de'])
})

test('bytes of a large message are read straight to their place, and never beyond the end of their frame', () => {
  const bytes = Buffer.from(Uint8Array.from({ length: 300_000 }, (_, i) => i % 251))
  const body = framed(bytes)
  const assembler = new MessageAssembler(bytes.length)
  assembler.push(body.subarray(0, 70_000))
  assert.ok(assembler.isShort && !assembler.hasItsMemory)
  assert.equal(assembler.next(), null)
  assert.equal(assembler.target(1000), null)
  const target = assembler.target(100_000) as Buffer
  assert.equal(target.length, 100_000)
  body.copy(target, 0, 70_000, 170_000)
  assembler.push(target)
  assert.ok(assembler.isShort && assembler.hasItsMemory)
  assert.equal(assembler.next(), null)
  assembler.push(body.subarray(170_000))
  assert.ok(!assembler.isShort, 'with this the message is whole')
  assert.ok(assembler.next()?.bytes.equals(bytes))
  assert.equal(assembler.target(100_000), null)
})

test('a prefix that announces much and brings little costs little', () => {
  const before = process.memoryUsage().arrayBuffers
  const kept = Array.from({ length: 50 }, () => {
    const assembler = new MessageAssembler(2 ** 31 - 1)
    assembler.push(Buffer.of(0, 0x7f, 0xff, 0xff, 0xff, 1))
    assert.equal(assembler.next(), null)
    return assembler
  })
  assert.ok(process.memoryUsage().arrayBuffers - before < 50 * 128 * 1024)
  assert.equal(kept.length, 50)
})

test('a message over the limit is refused at its prefix', () => {
  const assembler = new MessageAssembler(10)
  assembler.push(Buffer.of(0, 0, 0, 0, 11))
  assert.throws(
    () => assembler.next(),
    (reason) => reason instanceof MessageTooLarge && reason.messageBytes === 11,
  )
})
