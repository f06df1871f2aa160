import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import http2 from 'node:http2'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { LoadEngine } from './load-engine.ts'
import type { LoadLevel, LoadSetup } from './load-order.ts'
import type { PreparedRequest } from './prepared-request.ts'
import type { WindowRecord } from './window-recorder.ts'

const fields = [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', '/inference.GRPCInferenceService/ModelInfer'],
  [':authority', 'localhost'],
  ['content-type', 'application/grpc'],
  ['te', 'trailers'],
] as const

const request = (head: Buffer, tail = Buffer.alloc(0)): PreparedRequest => ({
  head,
  tail,
  stamp: null,
  compression: 'none',
  stream: 0,
  step: 0,
})

const httpRequest = request(Buffer.from('POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi'))

/** Runs a level until its budget is spent. */
async function run(port: number, more: Partial<LoadSetup>, level: LoadLevel): Promise<WindowRecord> {
  const setup: LoadSetup = {
    protocol: 'http',
    target: { host: '127.0.0.1', port, tls: null },
    fields,
    requests: [[httpRequest]],
    expected: null,
    isDecoupled: false,
    sequence: null,
    isExporting: false,
    share: 0,
    counters: new SharedArrayBuffer(8),
    ...more,
  }
  let tell = (): void => undefined
  const spent = new Promise<void>((resolve) => (tell = resolve))
  const engine = new LoadEngine(setup, tell)
  await engine.begin(level)
  await spent
  const record = engine.cut()
  await engine.end()
  return record
}

const concurrency = (lanes: number, budget: number): LoadLevel => ({
  shape: { kind: 'concurrency', lanes },
  sequences: 1,
  budget,
})

async function listen(t: TestContext, server: http.Server | http2.Http2Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => void server.close())
  return (server.address() as AddressInfo).port
}

test('open loop: waiting for a server that stalls counts as latency of every request that was due meanwhile', async (t) => {
  const stallMs = 200
  let count = 0
  const server = http.createServer((incoming, outgoing) => {
    incoming.resume()
    const answer = (): void => void outgoing.end('ok')
    // One sequence is one lane: the requests behind the first cannot be sent before it is answered.
    if (count++ === 0) setTimeout(answer, stallMs)
    else answer()
  })
  const port = await listen(t, server)
  const sequence = { startId: 1, idCount: 0, length: 100, lengthVariation: 0, seed: 1, share: 0, shares: 1 }
  const level: LoadLevel = {
    shape: { kind: 'constant', ratePerSecond: 100, share: 0, shares: 1 },
    sequences: 1,
    budget: 10,
  }
  const record = await run(port, { sequence }, level)
  assert.equal(record.count, 10)
  const latencies = [...record.latenciesUs]
  // Due at 0, 10, 20 … ms, and none of them answered before the stall was over. Timers of Node fire up to 1 ms early.
  for (const [at, us] of latencies.entries()) assert.ok(us >= (stallMs - at * 10 - 2) * 1000, `${at}: ${us}`)
  assert.ok(record.delayed >= 9, `${record.delayed}`)
})

test('a server that closes each connection after its answer is asked again over new ones', async (t) => {
  const server = http.createServer((incoming, outgoing) => {
    incoming.resume()
    outgoing.setHeader('Connection', 'close')
    outgoing.end('ok')
  })
  const record = await run(await listen(t, server), {}, concurrency(3, 30))
  assert.equal(record.count, 30)
  assert.equal(record.failed, 0)
})

test('a connection that breaks fails its request and no other', async (t) => {
  let count = 0
  const server = http.createServer((incoming, outgoing) => {
    incoming.resume()
    if (count++ % 5 === 4) incoming.socket.destroy()
    else outgoing.end('ok')
  })
  const record = await run(await listen(t, server), {}, concurrency(2, 20))
  assert.equal(record.count, 16)
  assert.equal(record.failed, 4)
})

test('a fixed number of requests is given up when no connection lasts, and not tried to its end', async (t) => {
  let count = 0
  const server = http.createServer((incoming, outgoing) => {
    incoming.resume()
    if (count++ < 10) outgoing.end('ok')
    else incoming.socket.destroy()
  })
  const record = await run(await listen(t, server), {}, concurrency(2, 1_000_000))
  assert.equal(record.count, 10)
  assert.ok(record.failed > 2 && record.failed < 100_000, `${record.failed}`)
})

function grpcServer(
  settings: http2.Settings,
  answer: (stream: http2.ServerHttp2Stream, body: Buffer) => void,
): http2.Http2Server {
  const server = http2.createServer({ settings })
  server.on('stream', (stream: http2.ServerHttp2Stream) => {
    const parts: Buffer[] = []
    stream.on('data', (part: Buffer) => parts.push(part))
    stream.on('error', () => undefined)
    stream.on('end', () => answer(stream, Buffer.concat(parts)))
  })
  return server
}

function respond(stream: http2.ServerHttp2Stream, body: Buffer, status = '0'): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': status, 'grpc-message': 'sch%C3%B6n' }))
  stream.end(body)
}

test('gRPC: a message larger than window and frame comes whole, and so does its answer', async (t) => {
  const tail = Buffer.alloc(300_000, 7)
  const lengths = new Set<number>()
  const server = grpcServer({ initialWindowSize: 1000 }, (stream, body) => {
    lengths.add(body.length)
    respond(stream, body)
  })
  const port = await listen(t, server)
  const requests = [[request(Buffer.from('head'), tail)]]
  const record = await run(port, { protocol: 'grpc', requests }, concurrency(8, 24))
  assert.equal(record.failed, 0, JSON.stringify(record.failures))
  assert.equal(record.count, 24)
  assert.deepEqual([...lengths], [5 + 4 + tail.length])
})

test('gRPC: no more streams at once than the server allows', async (t) => {
  let open = 0
  let most = 0
  const server = grpcServer({ maxConcurrentStreams: 2 }, (stream, body) => {
    setImmediate(() => {
      open--
      respond(stream, body)
    })
  })
  server.on('stream', () => (most = Math.max(most, ++open)))
  const record = await run(
    await listen(t, server),
    { protocol: 'grpc', requests: [[request(Buffer.from('x'))]] },
    concurrency(6, 60),
  )
  assert.equal(record.count, 60)
  assert.ok(most <= 2, String(most))
})

test('gRPC: a status that is not OK, a reset and a goodbye fail the requests they concern', async (t) => {
  let count = 0
  const server = grpcServer({}, (stream, body) => {
    const at = count++ % 4
    if (at === 0) respond(stream, body, '3')
    else if (at === 1) stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR)
    else if (at === 2) {
      respond(stream, body)
      stream.session?.goaway()
    } else respond(stream, body)
  })
  const record = await run(
    await listen(t, server),
    { protocol: 'grpc', requests: [[request(Buffer.from('x'))]] },
    concurrency(1, 12),
  )
  assert.equal(record.count, 6)
  assert.deepEqual(
    record.failures.toSorted(([a], [b]) => a.localeCompare(b)),
    [['[3] schön', 3], ['the server reset the stream with code 2', 3]], // prettier-ignore
  )
})
