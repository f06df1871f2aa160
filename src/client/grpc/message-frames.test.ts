import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { frameOf, messagesOf } from './message-frames.ts'

async function* cut(bytes: Uint8Array, step: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += step) yield bytes.subarray(at, at + step)
}

test('messages are the same wherever the network cuts them, packed or not', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.uint8Array({ maxLength: 30 }), { maxLength: 5 }),
      fc.integer({ min: 1, max: 40 }),
      fc.constantFrom('none', 'gzip', 'deflate'),
      async (messages, step, packing) => {
        const frames = await Promise.all(messages.map((message) => frameOf([message], packing)))
        const read = await Array.fromAsync(messagesOf(cut(Buffer.concat(frames), step), () => packing, 1000))
        assert.deepEqual(
          read.map((message) => [...message]),
          messages.map((message) => [...message]),
        )
      },
    ),
  )
})

test('a message over the limit is refused by its head alone, packed ones by what they become', async () => {
  const head = Uint8Array.of(0, 0xff, 0xff, 0xff, 0xff)
  await assert.rejects(Array.fromAsync(messagesOf(cut(head, 5), () => '', 1000)), /has 4294967295 bytes/)
  const bomb = await frameOf([new Uint8Array(100_000)], 'gzip')
  await assert.rejects(Array.fromAsync(messagesOf(cut(bomb, 5), () => 'gzip', 1000)), { code: 'PROTOCOL' })
  bomb.fill(1, 5)
  await assert.rejects(Array.fromAsync(messagesOf(cut(bomb, 5), () => 'gzip', 1000)), { code: 'PROTOCOL' })
})

test('a message that breaks off is an error, and so is a packing nobody asked for', async () => {
  const frame = await frameOf([Uint8Array.of(1, 2, 3)], 'none')
  await assert.rejects(Array.fromAsync(messagesOf(cut(frame.subarray(0, 6), 9), () => '', 10)), { code: 'UNREACHABLE' })
  frame[0] = 1
  await assert.rejects(Array.fromAsync(messagesOf(cut(frame, 9), () => 'br', 10)), { code: 'PROTOCOL' })
})
