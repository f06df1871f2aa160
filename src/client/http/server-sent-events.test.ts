import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { serverSentEvents } from './server-sent-events.ts'

const streamOf = (chunks: readonly Uint8Array[]): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk)
      controller.close()
    },
  })

test('events are the same wherever the network cuts them, with every kind of line end', async () => {
  const word = fc.string({ unit: 'grapheme', maxLength: 8 }).filter((text) => !/[\r\n]/.test(text))
  await fc.assert(
    fc.asyncProperty(
      fc.array(word),
      fc.constantFrom('\n', '\r\n', '\r'),
      fc.integer({ min: 1, max: 7 }),
      async (words, end, step) => {
        const text = words.map((each) => `: comment${end}data: ${each}${end}${end}`).join('')
        const bytes = Buffer.from(text)
        const chunks = Array.from({ length: Math.ceil(bytes.length / step) }, (_, i) =>
          bytes.subarray(i * step, (i + 1) * step),
        )
        assert.deepEqual(await Array.fromAsync(serverSentEvents(streamOf(chunks))), words)
      },
    ),
  )
})

test('lines of one event are joined, and an event that was cut off is dropped', async () => {
  const events = serverSentEvents(streamOf([Buffer.from('data: a\ndata:b\n\nevent: x\ndata: lost')]))
  assert.deepEqual(await Array.fromAsync(events), ['a\nb'])
})

test('a reader that stops early cancels the stream', async () => {
  let isCancelled = false
  const stream = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(Buffer.from('data: again\n\n')),
    cancel: () => void (isCancelled = true),
  })
  for await (const event of serverSentEvents(stream)) {
    assert.equal(event, 'again')
    break
  }
  assert.equal(isCancelled, true)
})

test('an event has an end, in one line or in many', async () => {
  for (const piece of ['x'.repeat(1024 * 1024), `data: ${'x'.repeat(1000)}\n`.repeat(1000)]) {
    const stream = new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(Buffer.from(piece)) })
    await assert.rejects(Array.fromAsync(serverSentEvents(stream)), /longer than 67108864 characters/)
  }
  // Lines that are no part of an event cost nothing.
  const comments = Array.from({ length: 70 }, () => Buffer.from(`: ${'x'.repeat(1024 * 1024)}\n`))
  const events = serverSentEvents(streamOf([...comments, Buffer.from('data: a\n\n')]))
  assert.deepEqual(await Array.fromAsync(events), ['a'])
})
