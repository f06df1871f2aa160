// Large messages over gRPC when clients send parts of many at a time, or stop in the middle of one.

import assert from 'node:assert/strict'
import http2 from 'node:http2'
import { describe, test } from 'node:test'
import { SystemClock, type Clock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { defaultOptions } from '../../src/options/options-from-flags.ts'
import { ClientMemory } from '../../src/transport/client-memory.ts'
import type { GrpcCall } from '../../src/transport/grpc/grpc-transport.ts'
import { Http2Transport } from '../../src/transport/grpc/http2-transport.ts'
import { errorCodes, frameTypes, settingIds, settingsAck } from '../../src/transport/http2/http2-format.ts'
import { streamWindowBytes, tightWindowBytes } from '../../src/transport/http2/server-preface.ts'
import { ManualClock } from '../fakes/manual-clock.ts'
import { until } from '../until.ts'
import { dataOf, greeting, headersOf, Http2RawClient, requestFields, type Frame } from './http2-raw-client.ts'

const kib = 1024
/** 1 MiB of messages arrives at a time. */
const smallBudgetBytes = 16 * 1024 * kib

type Served = AsyncDisposable & { readonly port: number; readonly memory: ClientMemory }

/** Answers each message with its length. */
async function serve(clock: Clock = new SystemClock(), budgetBytes = smallBudgetBytes): Promise<Served> {
  const memory = new ClientMemory(budgetBytes)
  const handle = (call: GrpcCall): void => {
    call.allowLargeMessages()
    call.onMessage = (message) => {
      const answer = Buffer.from(String(message.length))
      setImmediate(() => call.sendLast({ parts: [answer], byteLength: answer.length }, null))
    }
  }
  const dependencies = { clock, log: silentLog, clientMemory: memory }
  const transport = new Http2Transport(dependencies, { ...defaultOptions().grpc, port: 0 }, handle)
  const { port } = await transport.listen()
  return { port, memory, [Symbol.asyncDispose]: () => transport.close() }
}

const messageOf = (bytes: number): Buffer => {
  const framed = Buffer.alloc(5 + bytes)
  framed.writeUInt32BE(bytes, 1)
  return framed
}

/** Without more memory Node's client breaks its own streams off. */
const connect = (port: number): http2.ClientHttp2Session =>
  http2.connect(`http://127.0.0.1:${port}`, { maxSessionMemory: 1000 })

/** The status of the call and the text of its answer. */
function ask(session: http2.ClientHttp2Session, body: Buffer): Promise<string> {
  return new Promise((resolve) => {
    const stream = session.request(Object.fromEntries(requestFields('/a/b')))
    let [status, answer] = ['none', '']
    stream.on('response', (headers) => (status = String(headers['grpc-status'] ?? status)))
    stream.on('trailers', (trailers) => (status = String(trailers['grpc-status'])))
    stream.on('data', (chunk: Buffer) => (answer += chunk.toString('latin1', 5)))
    stream.on('error', (error) => (status = error.message))
    stream.on('close', () => resolve(`${status} ${answer}`))
    stream.end(body)
  })
}

const tightSettings = ({ type, payload }: Frame): boolean =>
  type === frameTypes.SETTINGS &&
  payload.length === 6 &&
  payload.readUInt16BE(0) === settingIds.INITIAL_WINDOW_SIZE &&
  payload.readUInt32BE(2) === tightWindowBytes

describe('large messages over gRPC', { concurrency: 1 }, () => {
  test('messages of three times the budget, sent in parts of all at a time, are all answered', async () => {
    // What two connections may have sent before they hear of smaller windows has room in it.
    const budgetBytes = 64 * 1024 * kib
    await using served = await serve(new SystemClock(), budgetBytes)
    const sessions = Array.from({ length: 2 }, () => connect(served.port))
    const body = messageOf(1024 * kib)
    const count = (3 * budgetBytes) / (1024 * kib) / sessions.length
    const answers = await Promise.all(
      sessions.flatMap((session) => Array.from({ length: count }, () => ask(session, body))),
    )
    assert.deepEqual([...new Set(answers)], [`0 ${1024 * kib}`])
    assert.equal(served.memory.refusedCount, 0)
    for (const session of sessions) session.close()
    await until(() => served.memory.requestBytes === 0, 'nothing is held')
    assert.equal(served.memory.inWorkCount, 0)
    assert.equal(served.memory.waiting.size, 0)
  })

  test('a client that stops in the middle of its message keeps nobody from being answered', async () => {
    await using served = await serve()
    const silent = Http2RawClient.connect(served.port)
    const half = messageOf(1024 * kib)
    silent.send(greeting, headersOf(1, requestFields('/a/b')), dataOf(1, half.subarray(0, 20 * kib), 0))
    await until(() => served.memory.requestBytes > 0, 'the message has begun')
    const session = connect(served.port)
    const bytes = 200 * kib
    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(session, messageOf(bytes))))
    assert.deepEqual([...new Set(answers)], [`0 ${bytes}`])
    // And it may still go on.
    silent.send(dataOf(1, half.subarray(20 * kib)))
    assert.equal(await silent.trailer(1, 'grpc-status'), '0')
    silent.destroy()
    session.close()
  })

  test('who is told to wait and sends more than the window is broken off', async () => {
    await using served = await serve(new ManualClock())
    const silent = Http2RawClient.connect(served.port)
    const half = messageOf(1024 * kib).subarray(0, 20 * kib)
    silent.send(greeting, headersOf(1, requestFields('/a/b')), dataOf(1, half, 0))
    await until(() => served.memory.requestBytes > 0, 'the message has begun')
    const rude = Http2RawClient.connect(served.port)
    const rest = dataOf(1, Buffer.alloc(tightWindowBytes), 0)
    rude.send(greeting, headersOf(1, requestFields('/a/b')), dataOf(1, half, 0))
    assert.ok((await rude.find(tightSettings)) !== null)
    // As long as the client has not answered, the window is what it was.
    rude.send(rest)
    rude.send(settingsAck, settingsAck)
    rude.send(dataOf(1, Buffer.alloc(1), 0))
    const reset = await rude.ofType(frameTypes.RST_STREAM, 1)
    assert.equal(reset?.payload.readUInt32BE(0), errorCodes.FLOW_CONTROL_ERROR)
    rude.destroy()
    silent.destroy()
  })

  test('a new connection is told of the window that holds now', async () => {
    await using served = await serve(new ManualClock())
    const silent = Http2RawClient.connect(served.port)
    const beginning = messageOf(1024 * kib).subarray(0, 20 * kib)
    const begun = [1, 3].flatMap((id) => [headersOf(id, requestFields('/a/b')), dataOf(id, beginning, 0)])
    silent.send(greeting, ...begun)
    assert.ok((await silent.find(tightSettings)) !== null)
    const late = Http2RawClient.connect(served.port)
    late.send(greeting)
    const { payload } = (await late.ofType(frameTypes.SETTINGS)) as Frame
    const windows = [tightWindowBytes, streamWindowBytes].map((bytes) => payload.includes(fourBytes(bytes)))
    assert.deepEqual(windows, [true, false])
    late.destroy()
    silent.destroy()
  })
})

function fourBytes(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
