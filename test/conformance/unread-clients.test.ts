// What a client can make the server keep: for every route of HTTP and every method of gRPC, one client that sends and never
// reads, and one that sends half a request. A route or method that is added is tested here without a change.

import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { after, afterEach, before, describe, test } from 'node:test'
import { anyPart } from '../fakes/any-part.ts'
import { ManualClock } from '../fakes/manual-clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { createGrpcPort, grpcFrontEnds } from '../../src/grpc-front-ends.ts'
import { createHttpPort, httpRoutes } from '../../src/http-front-ends.ts'
import { defaultOptions } from '../../src/options/options-from-flags.ts'
import type { GrpcPort } from '../../src/ports/grpc/grpc-port.ts'
import { MistakenClients } from '../../src/transport/mistaken-clients.ts'
import { ClientMemory } from '../../src/transport/client-memory.ts'
import { HttpConnection } from '../../src/transport/http1/http-connection.ts'
import {
  clientPreface,
  encodeSettings,
  frameFlags,
  frameTypes,
  settingIds,
} from '../../src/transport/http2/http2-format.ts'
import { connectionWindowBytes } from '../../src/transport/http2/server-preface.ts'
import { tfservingFrontEnd } from '../../src/tfserving-front-end.ts'
import { UnreadAnswers } from '../../src/transport/unread-answers.ts'
import { encodeMessage } from '../../src/protocol/grpc/message-codec.ts'
import { until } from '../until.ts'
import { encode } from './grpc-fixture.ts'
import { startHttpFixture, unmappedTfserving, type HttpFixture } from './http-fixture.ts'
import { dataOf, headersOf, Http2RawClient, requestFields } from './http2-raw-client.ts'

const mib = 1024 * 1024
/** Every protocol that the ports may have. */
const everyProtocol = anyPart({ tfserving: tfservingFrontEnd(anyPart()) })
const httpOptions = defaultOptions().http

let fixture: HttpFixture
before(async () => {
  fixture = await startHttpFixture()
})
after(() => fixture.close())

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('HTTP', () => {
  const requests = httpRoutes(everyProtocol, httpOptions).flatMap(({ methods, path }) =>
    methods.map((method) => ({ method, target: targetOf(path) })),
  )
  const wireOf = (method: string, target: string, body: string, bodyBytes = body.length): Buffer =>
    Buffer.from(`${method} ${target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${bodyBytes}\r\n\r\n${body}`)

  /** A connection whose client takes nothing that is written for it. */
  function connect(): { connection: HttpConnection; socket: Duplex; clientMemory: ClientMemory } {
    const clientMemory = new ClientMemory()
    const clock = new ManualClock()
    const { engine } = fixture
    const service = createHttpPort(
      { engine, log: silentLog, clock, clientMemory, tfserving: unmappedTfserving(engine) },
      { ...httpOptions, port: 0 },
    )
    const duplex = new Duplex({ read: () => undefined, write: () => undefined })
    const socket = Object.assign(duplex, { destroySoon: () => duplex.end() })
    const limits = { isDraining: false, bodyLimitBytes: 64 * mib, maxHeaderBytes: 16384, leastBodyBytes: 1 }
    const mistaken = new MistakenClients(silentLog, 'HTTP')
    const host = { clock, service, clientMemory, mistaken, ...limits }
    return { connection: new HttpConnection(host, socket as unknown as Socket), socket, clientMemory }
  }

  test('routes are found', () => assert.ok(requests.length > 20))

  for (const { method, target } of requests) {
    test(`${method} ${target}: a client that never reads is held back`, async () => {
      const { connection, socket, clientMemory } = connect()
      const wire = Buffer.concat(Array.from({ length: 50 }, () => wireOf(method, target, method === 'GET' ? '' : '{}')))
      let turnsPaused = 0
      // A client that is held back stays paused; one whose request is with a model goes on within some turns.
      for (let sent = 0; sent < 4 * mib && turnsPaused < 500;) {
        if (socket.isPaused() || socket.destroyed) turnsPaused++
        else {
          turnsPaused = 0
          connection.take(wire)
          sent += wire.length
        }
        await turn()
      }
      assert.ok(turnsPaused > 0, 'the client was never held back')
      connection.countUnread()
      const { requestBytes, answerBytes } = clientMemory
      assert.ok(requestBytes + answerBytes <= mib, `${requestBytes} and ${answerBytes} bytes are held`)
      socket.destroy()
      await until(() => clientMemory.requestBytes + clientMemory.answerBytes === 0, 'memory to go back')
    })

    test(`${method} ${target}: half a request keeps little, and has a time limit`, async () => {
      const { connection, socket, clientMemory } = connect()
      connection.take(wireOf(method, target, '{', 8 * mib))
      await turn()
      assert.ok(clientMemory.requestBytes <= 64 * 1024)
      assert.ok(['head', 'body'].includes(connection.phase), connection.phase)
      connection.refuseStalled()
      assert.ok(socket.writableEnded)
      socket.destroy()
    })
  }

  test('the unread connection is closed in time, however many requests follow', () => {
    const { connection, socket } = connect()
    const clock = new ManualClock()
    const watched = [socket as Duplex & { bytesWritten: number }]
    let written = 0
    Object.defineProperty(socket, 'bytesWritten', { get: () => (written += 100) + socket.writableLength - 100 * 30 })
    const unread = new UnreadAnswers({ clock, log: silentLog }, 30_000, () => watched)
    unread.start()
    for (let second = 0; second < 45 && !socket.destroyed; second++) {
      connection.take(wireOf('GET', '/v2', ''))
      clock.advanceMs(1000)
    }
    assert.ok(socket.destroyed)
    unread.stop()
  })

  test('line ends are no requests: a connection that sends nothing else is closed', () => {
    const { connection, socket } = connect()
    const openedNs = connection.sinceNs
    for (let i = 0; i < 32; i++) connection.take(Buffer.from('\r\n'))
    assert.deepEqual([connection.phase, connection.sinceNs, socket.destroyed], ['idle', openedNs, false])
    connection.take(Buffer.from('\r\n'))
    assert.ok(socket.destroyed)
  })

  test('many requests in one piece are answered in several turns, in order and all of them', async () => {
    const { connection, socket } = connect()
    let answers = ''
    socket._write = (chunk: Buffer, _encoding, done) => {
      answers += chunk.toString('latin1')
      done()
    }
    connection.take(Buffer.concat(Array.from({ length: 100 }, () => wireOf('GET', '/v2/health/live', ''))))
    assert.ok(answers.split('HTTP/1.1 200').length - 1 <= 16)
    await until(() => answers.split('HTTP/1.1 200').length - 1 === 100, '100 answers')
  })
})

function targetOf(path: string): string {
  const names: Readonly<Record<string, string>> = { model: 'simple', version: '1' }
  const target = path === '*' ? '/nothing' : path.replaceAll(/\[[^\]]*\]/g, '')
  return target.replaceAll(/\{(\w+)\}/g, (_, name: string) => names[name] ?? 'x')
}

describe('gRPC', () => {
  const options = defaultOptions().grpc
  const paths = grpcFrontEnds(everyProtocol, options).flatMap(({ methods }) => methods.map(({ path }) => path))
  const noWindow = Buffer.concat([clientPreface, encodeSettings([[settingIds.INITIAL_WINDOW_SIZE, 0]])])
  const framed = (message: Buffer): Buffer => {
    const prefix = Buffer.alloc(5)
    prefix.writeUInt32BE(message.length, 1)
    return Buffer.concat([prefix, message])
  }
  /** Where an empty message has a short answer, one with a long one. */
  const messageOf = (path: string): Buffer => {
    if (path.includes('reflection'))
      return encodeMessage('ServerReflectionRequest', { fileContainingSymbol: 'inference.GRPCInferenceService' })
    const input = { name: 'INPUT0', datatype: 'BYTES', shape: [1, 16] }
    if (path.endsWith('Infer')) return encode('ModelInferRequest', { model_name: 'simple', inputs: [input] })
    return Buffer.alloc(0)
  }

  const load = { isTold: false, header: () => null, message: () => Buffer.alloc(100) }
  const opened: GrpcPort[] = []
  afterEach(async () => {
    for (const port of opened.splice(0)) await port.close()
  })

  async function open(limitBytes?: number): Promise<{
    client: Http2RawClient
    clock: ManualClock
    clientMemory: ClientMemory
  }> {
    const clock = new ManualClock()
    const clientMemory = new ClientMemory(limitBytes)
    const { engine } = fixture
    const port = createGrpcPort(
      { engine, log: silentLog, clock, clientMemory, tfserving: unmappedTfserving(engine), load },
      { ...options, port: 0 },
    )
    opened.push(port)
    const at = await port.listen()
    const client = Http2RawClient.connect(at.port)
    return { client, clock, clientMemory }
  }
  const held = ({ requestBytes, answerBytes }: ClientMemory): number => requestBytes + answerBytes
  /** Until the server has read everything that was sent: frames behind others are answered after them. */
  const settle = async (client: Http2RawClient): Promise<void> => {
    for (let i = 0; i < 30; i++) await turn()
    await until(() => client.socket.writableLength === 0, 'the server to read')
    for (let i = 0; i < 30; i++) await turn()
  }

  test('methods are found', () => assert.ok(paths.length > 20))

  for (const path of paths) {
    test(`${path}: a client that gives no window is held back, and let go in time`, async () => {
      const { client, clock, clientMemory } = await open()
      client.send(noWindow)
      const message = framed(messageOf(path))
      // Calls of one message each, and one call of many messages.
      for (let id = 1; id < 800; id += 2) {
        client.send(headersOf(id, requestFields(path)), dataOf(id, message))
      }
      client.send(headersOf(801, requestFields(path)))
      const many = Buffer.concat(Array.from({ length: 100 }, () => message))
      for (let i = 0; i < 100; i++) client.send(dataOf(801, many.subarray(0, 16_000 - (16_000 % message.length)), 0))
      await settle(client)
      assert.ok(held(clientMemory) <= 24 * mib, `${held(clientMemory)} bytes are held`)
      for (let second = 0; second < 40; second++) {
        clock.advanceMs(1000)
        await turn()
      }
      await until(() => clientMemory.answerBytes === 0, 'unread answers to go', { seen: () => clientMemory })
      client.destroy()
      await until(() => held(clientMemory) === 0, 'memory to go back', { seen: () => clientMemory })
    })

    test(`${path}: halves of messages keep little, and are ended in time`, async () => {
      const { client, clock, clientMemory } = await open()
      client.send(noWindow)
      const half = Buffer.of(0, 0, 0x0f, 0xff, 0xff, 1)
      for (let id = 1; id < 1000; id += 2) client.send(headersOf(id, requestFields(path)), dataOf(id, half, 0))
      await settle(client)
      assert.ok(held(clientMemory) <= mib, `${held(clientMemory)} bytes are held`)
      for (let second = 0; second < 40; second++) {
        clock.advanceMs(1000)
        await turn()
      }
      await until(() => held(clientMemory) === 0, 'halves of messages to go', { seen: () => clientMemory })
      assert.match((await client.trailer(1, 'grpc-message')) ?? '', /--grpc-body-idle-timeout-secs/)
      client.destroy()
    })
  }

  test('a message that comes byte by byte is ended, one that comes at the least rate is not', async () => {
    const { client, clock } = await open()
    const path = '/inference.GRPCInferenceService/ModelInfer'
    client.send(clientPreface, encodeSettings([]))
    client.send(headersOf(1, requestFields(path)), dataOf(1, Buffer.of(0, 0, 0x0f, 0xff, 0xff), 0))
    client.send(headersOf(3, requestFields(path)), dataOf(3, Buffer.of(0, 0, 0x0f, 0xff, 0xff), 0))
    const isEnded = client.trailer(3, 'grpc-status')
    for (let second = 0; second < 35; second++) {
      client.send(dataOf(1, Buffer.alloc(250), 0), dataOf(3, Buffer.alloc(40), 0))
      await settle(client)
      clock.advanceMs(1000)
    }
    assert.equal(await isEnded, '4')
    assert.match((await client.trailer(3, 'grpc-message')) ?? '', /240 bytes per second.*--grpc-body-min-rate/)
    client.send(dataOf(1, Buffer.alloc(250), 0))
    await settle(client)
    assert.equal(client.frames.filter(({ streamId }) => streamId === 1).length, 0)
    client.destroy()
  })

  test('messages that come in turns may all go on, although together they are above the share of a connection', async () => {
    const { client, clientMemory } = await open(32 * mib)
    client.send(clientPreface, encodeSettings([]))
    const ids = [1, 3, 5, 7]
    const prefix = Buffer.alloc(5)
    prefix.writeUInt32BE(5 * mib, 1)
    for (const id of ids) client.send(headersOf(id, requestFields('/inference.GRPCInferenceService/ModelInfer')), dataOf(id, prefix, 0)) // prettier-ignore
    const piece = Buffer.alloc(16_384)
    for (let sent = 0; sent < 9 * mib; sent += ids.length * piece.length) client.send(...ids.map((id) => dataOf(id, piece, 0))) // prettier-ignore
    // What is held is known when the windows of those that wait have become small.
    await client.until(() => client.frames.filter(({ type }) => type === frameTypes.SETTINGS).length > 2)
    await until(() => clientMemory.requestBytes > clientMemory.connectionLimitBytes, 'more than the share')
    let mayBeSent = connectionWindowBytes - 9 * mib
    const granted = (): number =>
      client.frames
        .filter(({ type, streamId }) => type === frameTypes.WINDOW_UPDATE && streamId === 0)
        .slice(1)
        .reduce((sum, { payload }) => sum + payload.readUInt32BE(), 0)
    const rest = 5 * mib - (9 * mib) / ids.length
    for (const id of ids) {
      await client.until(() => mayBeSent + granted() >= rest)
      mayBeSent -= rest
      client.send(
        ...Array.from({ length: rest / piece.length }, () => dataOf(id, piece, 0)),
        dataOf(id, Buffer.alloc(0)),
      )
      // No message of a model, but whole.
      assert.equal(await client.trailer(id, 'grpc-status'), '3')
    }
    client.destroy()
  })

  test('a connection without a call is told to go, and closed', async () => {
    const { client, clock } = await open()
    client.send(clientPreface, encodeSettings([]))
    await settle(client)
    for (let second = 0; second < 305; second++) clock.advanceMs(1000)
    await turn()
    clock.advanceMs(2000)
    await client.closed
  })

  test('a message for which there is no room is refused, and its call says which flag makes room', async () => {
    const { client, clientMemory } = await open()
    clientMemory.requestBytes = clientMemory.limitBytes
    const [path = ''] = paths
    client.send(
      clientPreface,
      encodeSettings([]),
      headersOf(1, requestFields(path)),
      dataOf(1, framed(messageOf(path))),
    )
    assert.equal(await client.trailer(1, 'grpc-status'), '8')
    assert.match((await client.trailer(1, 'grpc-message')) ?? '', /--client-memory-limit/)
    clientMemory.requestBytes = 0
    client.send(headersOf(3, requestFields(path), frameFlags.END_HEADERS), dataOf(3, framed(messageOf(path))))
    assert.notEqual(await client.trailer(3, 'grpc-status'), '8')
    client.destroy()
  })
})
