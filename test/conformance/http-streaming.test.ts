// Answers in pieces over real sockets: chunks, readers that fall behind, readers that go away.

import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'

import { ServerError } from '../../src/base/server-error.ts'
import type { HttpOptions } from '../../src/ports/http/http-options.ts'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { bytesOf, startHttpFixture, type HttpFixture } from './http-fixture.ts'
import { until } from '../until.ts'

const config =
  'input { name: "IN" data_type: TYPE_STRING dims: [ 1 ] } output { name: "OUT" data_type: TYPE_STRING dims: [ 1 ] } ' +
  'model_transaction_policy { decoupled: true }'

type Streaming = {
  readonly fixture: HttpFixture
  readonly port: number
  /** The next request that reaches the model. */
  readonly next: () => Promise<InferenceRequest>
}

async function startStreaming(options: Partial<HttpOptions> = {}): Promise<Streaming> {
  const arrived: InferenceRequest[] = []
  const run = (request: InferenceRequest): void => void arrived.push(request)
  const fixture = await startHttpFixture(options, { tell: { config, run } })
  const { port } = await fixture.frontend.listen()
  const next = (): Promise<InferenceRequest> => until(() => arrived.shift(), 'a request in the model')
  return { fixture, port, next }
}

const ask = (path = 'generate_stream', version = '1.1', body = '{"IN":"x"}'): string =>
  `POST /v2/models/tell/${path} HTTP/${version}\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`

/** A client that reads only when it is told to. */
function openClient(port: number): Socket {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  socket.pause()
  return socket
}

async function readUntil(socket: Socket, ending: string): Promise<string> {
  let text = ''
  socket.on('data', (piece: Buffer) => {
    text += piece.toString('latin1')
    if (text.includes(ending)) socket.emit('enough')
  })
  await new Promise((resolve) => {
    socket.once('enough', resolve)
    socket.once('close', resolve)
    socket.resume()
  })
  socket.pause()
  socket.removeAllListeners('data')
  return text
}

const say = (request: InferenceRequest, text: string): void =>
  request.respond(InferenceResponse.of([bytesOf('OUT', [1], [text])], { isFinal: false }))

const cancelled = (request: InferenceRequest, onFlowChange: () => void = () => undefined): Promise<void> =>
  new Promise((resolve) => {
    request.handOver({
      onCancel: () => {
        request.failCancelled()
        resolve()
      },
      onFlowChange,
    })
  })

test('each response leaves as a chunk when it is made, and the connection serves the next request', async () => {
  const { fixture, port, next } = await startStreaming()
  const client = openClient(port)
  client.write(ask())
  const request = await next()
  say(request, 'one')
  const first = await readUntil(client, '\n\n\r\n')
  assert.match(first, /^HTTP\/1\.1 200 OK\r\nContent-Type: text\/event-stream; charset=utf-8\r\n/)
  assert.match(first, /\r\nTransfer-Encoding: chunked\r\n/)
  const event = 'data: {"OUT":"one","model_name":"tell","model_version":"1"}\n\n'
  assert.ok(first.endsWith(`\r\n\r\n${event.length.toString(16)}\r\n${event}\r\n`), first)
  request.fail(ServerError.withoutStack('UNAVAILABLE', 'gone'))
  const rest = await readUntil(client, '\r\n0\r\n\r\n')
  assert.ok(rest.includes('data: {"error":"gone"}\n\n'), rest)
  client.write(ask())
  const again = await next()
  again.respond(InferenceResponse.finalFlag())
  const empty = await readUntil(client, '\r\n\r\n0\r\n\r\n')
  assert.match(empty, /^HTTP\/1\.1 200 OK\r\n/)
  client.destroy()
  await fixture.close()
})

test('a client of HTTP/1.0 gets the same without chunks and the end of the connection', async () => {
  const { fixture, port, next } = await startStreaming()
  const client = openClient(port)
  client.write(ask('generate_stream', '1.0'))
  const request = await next()
  say(request, 'one')
  request.respond(InferenceResponse.finalFlag())
  const text = await readUntil(client, 'never')
  assert.ok(text.endsWith('\r\n\r\ndata: {"OUT":"one","model_name":"tell","model_version":"1"}\n\n'), text)
  await fixture.close()
})

test('a client that goes away cancels its request, before and after the first response', async () => {
  const { fixture, port, next } = await startStreaming()
  for (const path of ['generate', 'generate_stream']) {
    const client = openClient(port)
    client.write(ask(path))
    const request = await next()
    const isCancelled = cancelled(request)
    if (path === 'generate_stream') {
      say(request, 'one')
      await readUntil(client, '\n\n')
    }
    client.destroy()
    await isCancelled
    assert.equal(request.isEnded, true)
  }
  await fixture.close()
})

test('a model that can wait is paused while its reader stands still, and the reader gets all of it later', async () => {
  const { fixture, port, next } = await startStreaming()
  const client = openClient(port)
  client.write(ask())
  const request = await next()
  // More than the buffers of both ends hold.
  const total = 2000
  const piece = 'x'.repeat(16 * 1024)
  let sent = 0
  let sentWhilePaused = 0
  await new Promise<void>((resolve) => {
    const pump = (): void => {
      while (!request.isPaused && sent < total) {
        say(request, piece)
        sent++
      }
      if (sent === total) {
        request.respond(InferenceResponse.finalFlag())
        resolve()
        return
      }
      if (sentWhilePaused === 0) {
        sentWhilePaused = sent
        // Only now does the client begin to read.
        setImmediate(() => client.resume())
      }
    }
    request.handOver({ onCancel: () => undefined, onFlowChange: () => setImmediate(pump) })
    let received = 0
    client.on('data', (bytes: Buffer) => {
      received += bytes.length
      if (received >= total * piece.length) client.emit('all')
    })
    client.pause()
    pump()
  })
  assert.ok(sentWhilePaused < total, `paused after ${sentWhilePaused} of ${total}`)
  await new Promise((resolve) => {
    client.once('all', resolve)
    client.resume()
  })
  client.destroy()
  await fixture.close()
})

test('a client that never reads is given up after --http-write-idle-timeout-secs, although it goes on sending', async () => {
  const { fixture, port, next } = await startStreaming({ writeIdleTimeoutMs: 60, headersTimeoutMs: 60_000 })
  const client = openClient(port)
  client.write(ask())
  const request = await next()
  const chatter = setInterval(() => client.write('G'), 10)
  const pump = (): void => {
    while (!request.isPaused && !request.isEnded) say(request, 'x'.repeat(64 * 1024))
  }
  const isCancelled = cancelled(request, () => setImmediate(pump))
  pump()
  await isCancelled
  clearInterval(chatter)
  client.destroy()
  await fixture.close()
})

test('a model that does not wait loses a client that does not read once 16 MiB are unread', async () => {
  const { fixture, port, next } = await startStreaming()
  const client = openClient(port)
  client.write(ask())
  const request = await next()
  let sentBytes = 0
  const piece = 'x'.repeat(256 * 1024)
  while (!request.isCancelled) {
    say(request, piece)
    sentBytes += piece.length
    assert.ok(sentBytes < 128 * 1024 * 1024, 'far more than 16 MiB and what both ends hold')
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.ok(sentBytes > 16 * 1024 * 1024)
  request.failCancelled()
  assert.match(JSON.stringify(fixture.log.entries), /generate_stream given up/)
  client.destroy()
  await fixture.close()
})

test('draining lets a stream end, then closes its connection', async () => {
  const { fixture, port, next } = await startStreaming()
  const client = openClient(port)
  client.write(ask())
  const request = await next()
  say(request, 'one')
  await readUntil(client, '\n\n')
  const drained = fixture.frontend.drain()
  say(request, 'two')
  request.respond(InferenceResponse.finalFlag())
  const rest = await readUntil(client, 'never')
  assert.ok(rest.includes('"two"') && rest.endsWith('\r\n0\r\n\r\n'), rest)
  await drained
  await fixture.close()
})
