import assert from 'node:assert/strict'
import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { FrameWriter } from './frame-writer.ts'
import { createSocketPair } from './shared-memory.ts'
import { until } from '../../../test/until.ts'

/** A writer on one end of a socket pair, and what arrives at the other. */
function underTest(pair: readonly [number, number]) {
  const near = new Socket({ fd: pair[0], readable: true, writable: true })
  const far = new Socket({ fd: pair[1], readable: true, writable: true })
  const received: Buffer[] = []
  const writer = new FrameWriter(near, pair[0])
  const arrived = async (bytes: number): Promise<Buffer> => {
    const count = (): number => received.reduce((sum, chunk) => sum + chunk.length, 0)
    far.on('data', (chunk: Buffer) => received.push(chunk))
    await until(() => count() >= bytes, `${bytes} bytes`, { seen: count })
    far.removeAllListeners('data')
    return Buffer.concat(received)
  }
  const close = (): void => {
    writer.close()
    near.destroy()
    far.destroy()
  }
  return { writer, arrived, close }
}

const pair = createSocketPair()
if (pair === null) {
  test('without socket pairs frames go through the stream', () => assert.notEqual(process.platform, 'linux'))
} else {
  for (const fd of pair) closeSync(fd)

  test('frames arrive whole and in order, also when the socket is full in between', async () => {
    const { writer, arrived, close } = underTest(createSocketPair() as readonly [number, number])
    const frames = Array.from({ length: 200 }, (_, index) => Buffer.alloc(1 + index * 100, index))
    writer.hold()
    for (const frame of frames.slice(0, 20)) writer.write(frame)
    writer.release()
    frames.slice(20).forEach((frame, index) => (index % 3 === 0 ? writer.writeSoon(frame) : writer.write(frame)))
    const expected = Buffer.concat(frames)
    assert.ok(expected.length > 1_000_000, 'more than a socket takes at once')
    assert.ok(expected.equals(await arrived(expected.length)))
    close()
  })

  test('a frame that may wait leaves by itself, and with the next one at once', async () => {
    const { writer, arrived, close } = underTest(createSocketPair() as readonly [number, number])
    writer.writeSoon(Buffer.from('a'))
    assert.equal(String(await arrived(1)), 'a')
    writer.writeSoon(Buffer.from('b'))
    writer.write(Buffer.from('c'))
    assert.equal(String(await arrived(3)), 'abc')
    close()
  })

  test('after close nothing is written to the descriptor', () => {
    const { writer, close } = underTest(createSocketPair() as readonly [number, number])
    close()
    writer.write(Buffer.from('late'))
    writer.writeSoon(Buffer.from('late'))
  })
}
