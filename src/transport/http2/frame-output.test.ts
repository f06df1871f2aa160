import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { FrameOutput } from './frame-output.ts'

/** A socket that takes what it is given at once, or later. */
function sinkOf(isSlow: boolean): { socket: Writable; taken: () => Buffer; finish: () => void } {
  const pieces: Buffer[] = []
  const waiting: (() => void)[] = []
  let isOpen = !isSlow
  const socket = new Writable({
    highWaterMark: 2 ** 30,
    write(chunk: Buffer, _encoding, done) {
      // What is kept is looked at when it is taken: a slab that was used again in the meantime would show.
      const take = (): void => {
        pieces.push(Buffer.from(chunk))
        done()
      }
      if (isOpen) take()
      else waiting.push(take)
    },
  })
  const finish = (): void => {
    isOpen = true
    for (const take of waiting.splice(0)) take()
  }
  return { socket, taken: () => Buffer.concat(pieces), finish }
}

test('what is written arrives in order, to fast and slow sockets in turn, and memory goes back once', async () => {
  const step = fc.tuple(fc.boolean(), fc.array(fc.integer({ min: 1, max: 30_000 }), { maxLength: 8 }))
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (turns) => {
      const output = new FrameOutput()
      const sinks = { fast: sinkOf(false), slow: sinkOf(true) }
      const expected: Record<'fast' | 'slow', Buffer[]> = { fast: [], slow: [] }
      let fill = 0
      let unreleased = 0
      for (const [isSlow, sizes] of turns) {
        const name = isSlow ? 'slow' : 'fast'
        for (const size of sizes) {
          const bytes = Buffer.alloc(size, ++fill)
          expected[name].push(bytes)
          if (size % 3 === 0) {
            output.addView(bytes)
            unreleased++
            output.whenWritten(() => unreleased--)
          } else output.copy(bytes)
        }
        output.writeTo(sinks[name].socket)
        assert.equal(output.byteLength, 0)
      }
      sinks.slow.finish()
      for (const name of ['fast', 'slow'] as const) {
        await new Promise((resolve) => sinks[name].socket.end(resolve))
        assert.ok(sinks[name].taken().equals(Buffer.concat(expected[name])), name)
      }
      assert.equal(unreleased, 0)
    }),
    { numRuns: 100 },
  )
})
