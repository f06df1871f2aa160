// Flow control of the HTTP/2 connection in both directions, and what clients that do not read are worth to it.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  encodeFrame,
  encodePing,
  encodeReset,
  encodeSettings,
  encodeWindowUpdate,
  errorCodes,
  frameTypes,
  settingIds,
} from '../../src/transport/http2/http2-format.ts'
import { connectionWindowBytes, streamWindowBytes } from '../../src/transport/http2/server-preface.ts'
import { okTrailers, plainHead } from '../../src/transport/http2/hpack-encoder.ts'
import { Http2Loopback, type CountingUser, type SentFrame } from './http2-loopback.ts'
import { dataOf, greeting, headersOf, requestFields } from './http2-raw-client.ts'
import { until } from '../until.ts'

const T = frameTypes
const open = (id: number): Buffer => headersOf(id, requestFields('/a/b'))
const pieceBytes = 256 * 1024
const data = (id: number, bytes = pieceBytes): Buffer => dataOf(id, Buffer.alloc(bytes), 0)

function opened(streams: number): { loopback: Http2Loopback; users: CountingUser[] } {
  const loopback = new Http2Loopback()
  loopback.say(greeting, ...Array.from({ length: streams }, (_, i) => open(2 * i + 1)))
  loopback.flush()
  loopback.takeFrames()
  return { loopback, users: loopback.users }
}

const updates = (frames: readonly SentFrame[], id: number): number =>
  frames
    .filter(({ type, streamId }) => type === T.WINDOW_UPDATE && streamId === id)
    .reduce((sum, { payload }) => sum + payload.readUInt32BE(0), 0)

test('what is taken from a body is given back to the windows of its stream and its connection', async () => {
  const { loopback, users } = opened(1)
  const rounds = 256
  const given: SentFrame[] = []
  for (let i = 0; i < rounds; i++) {
    loopback.say(data(1))
    loopback.flush()
    given.push(...loopback.takeFrames())
  }
  assert.equal(users[0]?.bytes, rounds * pieceBytes)
  const owed = rounds * pieceBytes
  assert.ok(owed - updates(given, 1) < streamWindowBytes)
  assert.ok(owed - updates(given, 0) < connectionWindowBytes)
  assert.equal(loopback.failure, null)
  await loopback.close()
})

test('what answers a read is sent once, after the whole read; all else at the end of the turn', async () => {
  const { loopback } = opened(0)
  const ping = encodePing(Buffer.alloc(8), false)
  const outputsOf = (act: () => void): string[] => {
    loopback.outputs.length = 0
    act()
    return [...loopback.outputs]
  }
  assert.deepEqual(
    outputsOf(() => loopback.say(ping, ping)),
    ['now'],
  )
  loopback.flush()
  assert.equal(loopback.takeFrames().length, 2)
  assert.deepEqual(
    outputsOf(() => loopback.connection.sendPing(Buffer.alloc(8))),
    ['soon'],
  )
  // That flush has the answer to this read, too.
  assert.deepEqual(
    outputsOf(() => loopback.say(ping)),
    [],
  )
  loopback.flush()
  assert.equal(loopback.takeFrames().length, 2)
  assert.deepEqual(
    outputsOf(() => loopback.say(data(0, 1))),
    ['now'],
    'a connection that breaks the rules is told',
  )
  assert.notEqual(loopback.failure, null)
  await loopback.close()
})

test('a stream that is paused holds its window and no more; more breaks it off and nothing else', async () => {
  const { loopback, users } = opened(2)
  users[0]?.stream.setPaused(true)
  const fits = streamWindowBytes / pieceBytes
  for (let i = 0; i < fits; i++) loopback.say(data(1))
  assert.deepEqual([users[0]?.bytes, users[0]?.closes], [0, 0])
  loopback.say(data(1, 1))
  loopback.flush()
  const reset = loopback.takeFrames().find(({ type }) => type === T.RST_STREAM)
  assert.deepEqual([reset?.streamId, reset?.payload.readUInt32BE(0)], [1, errorCodes.FLOW_CONTROL_ERROR])
  assert.equal(users[0]?.closes, 1)
  loopback.say(data(3))
  assert.deepEqual([users[1]?.bytes, loopback.failure], [pieceBytes, null])
  await loopback.close()
})

test('what comes for a paused stream is in the budget of all clients, and is lost where there is no room', async () => {
  const { loopback, users } = opened(1)
  const user = users[0] as CountingUser
  const { server } = loopback.memory
  user.stream.setPaused(true)
  // Others hold the rest.
  server.requestBytes = server.limitBytes - 3 * 10_000
  for (let i = 0; i < 5; i++) loopback.say(data(1, 10_000))
  assert.deepEqual([user.lostBytes, loopback.memory.requestBytes], [20_000, 30_000])
  assert.equal(server.requestBytes, server.limitBytes)
  await loopback.close()
  assert.equal(loopback.memory.requestBytes, 0)
})

test('a stream that goes on gets what was held, in order, then its end', async () => {
  const { loopback, users } = opened(1)
  const user = users[0] as CountingUser
  user.stream.setPaused(true)
  loopback.say(data(1, 10), data(1, 100_000), dataOf(1, Buffer.alloc(7)))
  assert.deepEqual([user.bytes, user.ends], [0, 0])
  user.stream.setPaused(false)
  assert.deepEqual([user.bytes, user.ends], [100_017, 1])
  await loopback.close()
})

test('paused streams together hold the window of their connection and no more', async () => {
  const streams = connectionWindowBytes / streamWindowBytes + 1
  const { loopback, users } = opened(streams)
  for (const { stream } of users) stream.setPaused(true)
  const all = users.flatMap(({ stream }) =>
    Array.from({ length: streamWindowBytes / pieceBytes }, () => data(stream.id)),
  )
  for (const frame of all) if (loopback.failure === null) loopback.say(frame)
  assert.equal(loopback.failure?.code, errorCodes.FLOW_CONTROL_ERROR)
  assert.ok(users.every(({ closes }) => closes === 1))
  await loopback.close()
})

test('the window of a stream that ended with data unread goes back to the connection', async () => {
  const { loopback } = opened(0)
  const given: SentFrame[] = []
  for (let i = 0; i < 8; i++) {
    const id = 2 * i + 1
    loopback.say(open(id))
    loopback.users.at(-1)?.stream.setPaused(true)
    for (let j = 0; j < streamWindowBytes / pieceBytes; j++) loopback.say(data(id))
    loopback.users.at(-1)?.stream.reset(errorCodes.CANCEL)
    loopback.flush()
    given.push(...loopback.takeFrames())
  }
  assert.equal(loopback.failure, null)
  assert.ok(8 * streamWindowBytes - updates(given, 0) < connectionWindowBytes)
  await loopback.close()
})

const message = (bytes: number): { parts: Uint8Array[]; byteLength: number } => ({
  parts: [new Uint8Array(bytes)],
  byteLength: bytes,
})

test('a client that does not read gets what its windows allow; the rest waits and goes back when the stream does', async () => {
  const { loopback, users } = opened(1)
  const { stream } = users[0] as CountingUser
  let released = 0
  stream.sendHead(plainHead)
  for (let i = 0; i < 10; i++) stream.sendMessage(message(20_000), 0, () => released++)
  loopback.flush()
  const sent = loopback.takeFrames().reduce((sum, { type, payload }) => sum + (type === T.DATA ? payload.length : 0), 0)
  assert.equal(sent, 65_535)
  assert.equal(stream.backlogBytes, 10 * 20_005 - 65_535)
  stream.reset(errorCodes.CANCEL)
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(released, 10)
  await loopback.close()
})

test('a socket that takes nothing is given half a megabyte, whatever the windows allow', async () => {
  const { loopback, users } = opened(1)
  loopback.say(encodeSettings([[settingIds.INITIAL_WINDOW_SIZE, 2 ** 30]]), encodeWindowUpdate(0, 2 ** 30))
  loopback.flush()
  loopback.setReading(false)
  const { stream } = users[0] as CountingUser
  stream.sendHead(plainHead)
  for (let i = 0; i < 100; i++) stream.sendMessage(message(100_000), 0, null)
  for (let i = 0; i < 10; i++) loopback.flush()
  assert.ok(loopback.socket.writableLength < 800_000, `${loopback.socket.writableLength} bytes wait in the socket`)
  assert.ok(stream.backlogBytes > 9_000_000)
  loopback.socket.on('drain', () => loopback.flush())
  stream.sendTrailers(okTrailers)
  loopback.setReading(true)
  await until(() => (loopback.flush(), stream.backlogBytes === 0), 'the rest', { seen: () => stream.backlogBytes })
  const sent = loopback.takeFrames().reduce((sum, { type, payload }) => sum + (type === T.DATA ? payload.length : 0), 0)
  assert.equal(sent, 100 * 100_005)
  await loopback.close()
})

for (const frameBytes of [16_384, 2 ** 24 - 1]) {
  const frames = frameBytes === 16_384 ? 'small frames' : 'frames of 16 MiB'
  test(`streams have their turns, also for clients that take ${frames}: a small answer does not wait for a large one`, () =>
    letSmallAnswerPass(frameBytes))
}

async function letSmallAnswerPass(frameBytes: number): Promise<void> {
  const { loopback, users } = opened(2)
  loopback.say(
    encodeSettings([
      [settingIds.INITIAL_WINDOW_SIZE, 2 ** 30],
      [settingIds.MAX_FRAME_SIZE, frameBytes],
    ]),
    encodeWindowUpdate(0, 2 ** 30),
  )
  const [large, small] = users as [CountingUser, CountingUser]
  for (const [user, bytes] of [[large, 4_000_000] as const, [small, 10] as const]) {
    user.stream.sendHead(plainHead)
    user.stream.sendMessage(message(bytes), 0, null)
    user.stream.sendTrailers(okTrailers)
  }
  loopback.flush()
  const frames = loopback.takeFrames()
  const smallAt = frames.findIndex(({ type, streamId }) => type === T.DATA && streamId === 3)
  const before = frames.slice(0, smallAt).reduce((sum, { payload }) => sum + payload.length, 0)
  assert.ok(smallAt > 0 && before < 200_000, `${before} bytes came first`)
  await loopback.close()
}

test('a client that asks and does not read the answers is let go', async () => {
  const { loopback } = opened(0)
  loopback.setReading(false)
  for (let i = 0; i < 200 && !loopback.connection.isDestroyed; i++) {
    loopback.clock.advanceMs(60_000)
    for (let j = 0; j < 100; j++) loopback.say(encodePing(Buffer.alloc(8), false))
    loopback.flush()
  }
  assert.ok(loopback.connection.isDestroyed)
  assert.ok(loopback.socket.writableLength < 200_000)
  await loopback.close()
})

test('frames for a stream we broke off are passed over: the client did not know yet', async () => {
  const { loopback, users } = opened(1)
  users[0]?.stream.reset(errorCodes.CANCEL)
  loopback.flush()
  loopback.takeFrames()
  loopback.say(data(1), encodeFrame(T.WINDOW_UPDATE, 0, 1, Buffer.of(0, 0, 0, 1)), headersOf(1, [['a', 'b']], 5))
  loopback.flush()
  assert.deepEqual(loopback.takeFrames(), [])
  assert.equal(loopback.failure, null)
  await loopback.close()
})

test('the rest of a frame whose stream was broken off meanwhile reaches nobody', async () => {
  const { loopback, users } = opened(1)
  const frame = data(1, 1000)
  loopback.say(frame.subarray(0, 500))
  const before = users[0]?.bytes
  users[0]?.stream.reset(errorCodes.CANCEL)
  loopback.say(frame.subarray(500), open(3), data(3, 10))
  assert.deepEqual([users[0]?.bytes, users[0]?.closes, users[1]?.bytes], [before, 1, 10])
  assert.equal(loopback.failure, null)
  await loopback.close()
})

test('what is said on hearing that all was sent goes out before the trailers', async () => {
  const { loopback, users } = opened(1)
  const user = users[0] as CountingUser
  user.stream.sendHead(plainHead)
  user.onBacklogSent = () => {
    user.onBacklogSent = () => undefined
    user.stream.sendMessage(message(3), 0, null)
    user.stream.sendTrailers(okTrailers)
  }
  user.stream.sendMessage(message(2), 0, null)
  loopback.flush()
  const sent = loopback.takeFrames().filter(({ streamId }) => streamId === 1)
  assert.deepEqual(
    sent.map(({ type, payload }) => (type === T.DATA ? payload.length : type)),
    [T.HEADERS, 7, 8, T.HEADERS, T.RST_STREAM],
  )
  await loopback.close()
})

test('a client that pings once for each piece of an answer may do so without end; pings alone are counted', async () => {
  const { loopback, users } = opened(1)
  const ping = encodePing(Buffer.alloc(8), false)
  const rounds = 2000
  const stream = (users[0] as CountingUser).stream
  stream.sendHead(plainHead)
  for (let i = 0; i < rounds; i++) {
    stream.sendMessage(message(100), 0, null)
    loopback.flush()
    loopback.say(encodeWindowUpdate(0, 105), encodeWindowUpdate(1, 105), ping)
  }
  assert.deepEqual([loopback.failure], [null])
  for (let i = 0; i < rounds && loopback.failure === null; i++) loopback.say(ping)
  assert.equal(loopback.failure?.code, errorCodes.ENHANCE_YOUR_CALM)
  await loopback.close()
})

test('a client may cancel calls without end that it has waited for, as where deadlines pass; those it cancels at once are counted', async () => {
  const { loopback } = opened(0)
  let id = 1
  const cancel = (waitMs: number): void => {
    loopback.say(open(id))
    loopback.clock.advanceMs(waitMs)
    loopback.say(encodeReset(id, errorCodes.CANCEL))
    id += 2
  }
  for (let i = 0; i < 3000; i++) cancel(0)
  for (let i = 0; i < 20_000; i++) cancel(10)
  assert.deepEqual([loopback.failure, loopback.connection.streamCount], [null, 0])
  for (let i = 0; i < 10_000 && loopback.failure === null; i++) cancel(1)
  assert.equal(loopback.failure?.code, errorCodes.ENHANCE_YOUR_CALM)
  await loopback.close()
})

test('a cancellation that crosses its answer is not counted, once for each call', async () => {
  const { loopback, users } = opened(0)
  for (let i = 0; i < 20_000; i++) {
    const id = 2 * i + 1
    loopback.say(open(id), dataOf(id))
    users.pop()?.stream.sendTrailers(okTrailers)
    loopback.flush()
    loopback.say(encodeReset(id, errorCodes.CANCEL))
  }
  assert.deepEqual([loopback.failure], [null])
  const again = encodeReset(39_999, errorCodes.CANCEL)
  for (let i = 0; i < 10_000 && loopback.failure === null; i++) loopback.say(again)
  assert.equal(loopback.failure?.code, errorCodes.ENHANCE_YOUR_CALM)
  await loopback.close()
})
