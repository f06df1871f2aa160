import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ClientMemory, ConnectionMemory } from '../client-memory.ts'
import { frameTypes } from './http2-format.ts'
import { ReceiveWindows, type ReceivingStream } from './receive-windows.ts'
import { connectionWindowBytes, maxConcurrentStreams, streamWindowBytes, tightWindowBytes } from './server-preface.ts'

const message = 1024 * 1024

function windowsUnderTest(): {
  readonly windows: ReceiveWindows
  readonly stream: ReceivingStream & { isPaused: boolean }
  /** `type stream number`, since the last time. */
  readonly sent: () => string[]
} {
  const frames: Buffer[] = []
  const windows = new ReceiveWindows(new ConnectionMemory(new ClientMemory()), (frame) => void frames.push(frame))
  windows.greet(false)
  windows.onAnswer([])
  const stream = {
    id: 1,
    hasRemoteEnded: false,
    isClosed: false,
    isPaused: false,
    receiveWindowBytes: windows.streamBytes,
    uncreditedBytes: 0,
  }
  const sent = (): string[] =>
    frames
      .splice(0)
      .map((frame) =>
        frame[3] === frameTypes.SETTINGS
          ? `settings ${frame.readUInt32BE(11)}`
          : `window ${frame.readUInt32BE(5)} ${frame.readUInt32BE(9)}`,
      )
  return { windows, stream, sent }
}

test('a smaller window holds from the moment the client has answered', () => {
  const { windows, stream, sent } = windowsUnderTest()
  assert.equal(windows.announce(true), true)
  assert.equal(windows.announce(true), false)
  assert.deepEqual(sent(), [`settings ${tightWindowBytes}`])
  assert.equal(stream.receiveWindowBytes, streamWindowBytes)
  windows.onAnswer([stream])
  assert.equal(stream.receiveWindowBytes, tightWindowBytes)
  assert.equal(windows.streamBytes, tightWindowBytes)
})

test('a stream is opened for a message by what its window lacks, whether or not the client has answered', () => {
  for (const isAnswered of [false, true]) {
    const { windows, stream, sent } = windowsUnderTest()
    windows.announce(true)
    if (isAnswered) windows.onAnswer([stream])
    sent()
    windows.openFor(stream, message)
    assert.deepEqual(sent(), [`window 1 ${message - tightWindowBytes}`])
    if (!isAnswered) windows.onAnswer([stream])
    assert.equal(stream.receiveWindowBytes, message)
    windows.openFor(stream, message)
    assert.deepEqual(
      sent().filter((frame) => frame.startsWith('window 1')),
      [],
    )
  }
})

test('what was given for a message is not given again when it is used', () => {
  const { windows, stream, sent } = windowsUnderTest()
  windows.announce(true)
  windows.onAnswer([stream])
  windows.openFor(stream, message)
  sent()
  stream.receiveWindowBytes -= message
  windows.credit(stream, message - tightWindowBytes)
  assert.deepEqual(sent(), [])
  windows.credit(stream, tightWindowBytes)
  assert.deepEqual(sent(), [`window 1 ${tightWindowBytes}`])
  assert.equal(stream.receiveWindowBytes, tightWindowBytes)
})

test('a paused stream gets nothing back before it goes on', () => {
  const { windows, stream, sent } = windowsUnderTest()
  stream.isPaused = true
  windows.credit(stream, streamWindowBytes)
  assert.deepEqual(sent(), [`window 0 ${streamWindowBytes}`])
  stream.isPaused = false
  windows.credit(stream, 0)
  assert.deepEqual(sent(), [`window 1 ${streamWindowBytes}`])
})

test('the window of the connection has room for all beginnings while the streams are small, and no longer', () => {
  const { windows, stream, sent } = windowsUnderTest()
  const beginnings = maxConcurrentStreams * tightWindowBytes
  windows.announce(true)
  windows.onAnswer([stream])
  assert.deepEqual(sent().slice(1), [`window 0 ${beginnings}`])
  assert.equal(windows.take(connectionWindowBytes + beginnings), true)
  windows.announce(false)
  windows.creditConnection(beginnings)
  assert.deepEqual(sent().slice(1), [])
  windows.creditConnection(connectionWindowBytes)
  assert.deepEqual(sent(), [`window 0 ${connectionWindowBytes}`])
  assert.equal(windows.take(connectionWindowBytes + 1), false)
})
