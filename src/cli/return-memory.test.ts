import assert from 'node:assert/strict'
import { test } from 'node:test'
import { returnMemory, worthwhileBytes } from './return-memory.ts'
import { until } from '../../test/until.ts'

/** The size of the heap while it holds what nobody holds any more when this returns. */
const heapBytesWithGarbage = (): number => {
  const garbage = Array.from({ length: 300_000 }, (_, index) => ({ index }))
  const { heapTotal } = process.memoryUsage()
  return garbage.length > 0 ? heapTotal : 0
}

test('what starting has left behind is given back once the process is idle', async () => {
  const heldBytes = heapBytesWithGarbage()
  returnMemory()
  // Nothing else here would make V8 shrink its heap: an idle process collects after minutes, if at all.
  const heapBytes = (): number => process.memoryUsage().heapTotal
  await until(() => heapBytes() <= heldBytes / 2, `half of ${heldBytes} bytes`, { seen: heapBytes })
})

test('an idle server gives back little amounts, but seldom; a quiet one only large amounts; a busy one nothing', () => {
  const minuteMs = 60_000
  assert.ok(worthwhileBytes(0.005, minuteMs) < 8e6, 'what reloads of a model have left behind')
  assert.ok(
    worthwhileBytes(0.005, 1000) > worthwhileBytes(0.005, minuteMs),
    'light traffic does not meet pause after pause',
  )
  assert.ok(worthwhileBytes(0.05, minuteMs) > 8e6)
  assert.equal(worthwhileBytes(0.05, minuteMs / 2), Infinity, 'nor does it at a few hundred requests a second')
  assert.equal(worthwhileBytes(0.5, minuteMs), Infinity)
})

test('what later work has left behind is given back in the next quiet moment, too', async () => {
  // The watch that the test before began goes on.
  const bytes = (): number => process.memoryUsage.rss()
  const before = bytes()
  const buffers = Array.from({ length: 2000 }, () => Buffer.alloc(48 * 1024, 1))
  const grown = bytes()
  assert.ok(grown - before > 64e6 && buffers.length > 0)
  buffers.length = 0
  await until(() => bytes() < grown - 48e6, `less than ${grown} bytes`, { seen: bytes })
})

test('what malloc keeps is given back under steady traffic, too', { skip: process.platform !== 'linux' }, async () => {
  // A fifth of the time is busy: no moment is quiet.
  const traffic = setInterval(() => {
    const endMs = performance.now() + 10
    while (performance.now() < endMs);
  }, 40)
  const bytes = (): number => process.memoryUsage.rss()
  const buffers = Array.from({ length: 4000 }, () => Buffer.alloc(48 * 1024, 1))
  const grown = bytes()
  // Every hundredth stays: the heap cannot shrink from its end. The others are freed at once, not when V8 comes to it.
  const kept = buffers.filter((_, index) => index % 100 === 0)
  for (const [index, { buffer }] of buffers.entries()) if (index % 100 !== 0) buffer.transfer(0)
  await until(() => bytes() < grown - 96e6, `less than ${grown} bytes`, { seen: bytes })
  assert.equal(kept.length, 40)
  clearInterval(traffic)
})
