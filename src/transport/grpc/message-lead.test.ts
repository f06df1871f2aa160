import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { leadOf } from './message-lead.ts'
import { MessageAssembler } from './message-assembler.ts'

const field = (number: number, bytes: Uint8Array): Buffer => {
  const length = [bytes.length & 0x7f]
  for (let left = bytes.length >>> 7; left > 0; left >>>= 7) {
    length.push(left & 0x7f)
    length[length.length - 2] = (length.at(-2) as number) | 0x80
  }
  return Buffer.concat([Buffer.of((number << 3) | 2, ...length), bytes])
}
const number = Buffer.of(0x08, 0x96, 0x01)
const fixed = Buffer.concat([Buffer.of(0x11), Buffer.alloc(8), Buffer.of(0x1d), Buffer.alloc(4)])

test('the tensor of a large message lies where models can read it, however its bytes arrive', () => {
  const tensor = Buffer.alloc(150_000, 7)
  fc.assert(
    fc.property(fc.string({ maxLength: 80 }), fc.integer({ min: 400, max: 70_000 }), (name, cut) => {
      const head = Buffer.concat([field(1, Buffer.from(name)), number, fixed])
      const message = Buffer.concat([head, field(7, tensor)])
      const body = Buffer.concat([Buffer.alloc(5), message])
      body.writeUInt32BE(message.length, 1)
      const assembler = new MessageAssembler(message.length)
      let whole: Buffer | null = null
      for (let at = 0; at < body.length; at += cut) {
        assembler.push(body.subarray(at, at + cut))
        whole = assembler.next()?.bytes ?? null
      }
      assert.ok(whole?.equals(message) === true)
      assert.equal((whole.byteOffset + message.length - tensor.length) % 64, 0)
    }),
  )
})

test('bytes that are no message of Protocol Buffers have no lead, and end', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => leadOf(Buffer.from(bytes)) < 64))
  for (const bytes of [[], [0x3a], [0x3a, 0x80], [0x0b, 1, 2], Array<number>(40).fill(0xff)])
    assert.equal(leadOf(Buffer.from(bytes)), 0)
})

test('a message of very many small fields is looked at only where it begins', () => {
  const many = Buffer.alloc(4096, Buffer.of(0x08, 0))
  assert.equal(leadOf(Buffer.concat([many, Buffer.of(0x3a, 0xff, 0xff, 0x03)])), 0)
  assert.equal(leadOf(Buffer.concat([many.subarray(8), Buffer.of(0x3a, 0xff, 0xff, 0x03)])), 4)
})
