import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { FrameStream } from './frame-stream.ts'
import { emptyFrame, readText, readUint64, textFrame } from './frames.ts'

test('frames come out whole and in order, however the bytes are cut', () => {
  const texts = fc.array(fc.string({ maxLength: 300 }), { minLength: 1, maxLength: 20 })
  fc.assert(
    fc.property(texts, fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1 }), (sent, cuts) => {
      const bytes = Buffer.concat(sent.map((text, i) => textFrame(7, i, text)))
      const received: [number, string][] = []
      const stream = new FrameStream((frame) => received.push([readUint64(frame, 8), readText(frame)]), 1 << 20)
      for (let offset = 0, i = 0; offset < bytes.length; i++) {
        const end = offset + (cuts[i % cuts.length] ?? 1)
        stream.push(bytes.subarray(offset, end))
        offset = end
      }
      assert.deepEqual(
        received,
        sent.map((text, i) => [i, text]),
      )
    }),
  )
})

test('bytes that cannot be a frame are refused before anything is allocated for them', () => {
  const stream = new FrameStream(() => assert.fail('no frame'), 1024)
  for (const size of [0, 8, 17, 2048]) {
    const frame = emptyFrame(1)
    frame.writeUInt32LE(size, 0)
    assert.throws(() => stream.push(frame), /a frame of \d+ bytes is not possible/)
  }
})
