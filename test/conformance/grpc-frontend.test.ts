// The rules of the gRPC front end and its transport, with a client of another make.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import http2 from 'node:http2'
import net from 'node:net'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import grpc from '@grpc/grpc-js'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { inferenceProtos } from './golden/grpc-exchange.ts'
import { codeRequest, decode, encode, GrpcFixture, service, type Message } from './grpc-fixture.ts'

const codeConfig =
  'input { name: "CODE" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "OUT" data_type: TYPE_UINT8 dims: [ -1 ] }'

/** A model that answers when the test says so. */
function heldModel(config = codeConfig): {
  model: { config: string; run: (request: InferenceRequest) => void }
  held: InferenceRequest[]
  arrived: () => Promise<InferenceRequest>
} {
  const held: InferenceRequest[] = []
  let notice: ((request: InferenceRequest) => void) | null = null
  const run = (request: InferenceRequest): void => {
    held.push(request)
    notice?.(request)
  }
  const arrived = (): Promise<InferenceRequest> => new Promise((resolve) => (notice = resolve))
  return { model: { config, run }, held, arrived }
}

const outputs = (bytes: number): Tensor[] => [new Tensor('OUT', 'UINT8', [bytes], new Uint8Array(bytes))]

test('an unknown method is UNIMPLEMENTED, a broken message INVALID_ARGUMENT', async () => {
  await using fixture = await GrpcFixture.start()
  assert.equal((await fixture.raw(`${service}NoSuchMethod`, Buffer.alloc(0))).code, 'UNIMPLEMENTED')
  const broken = await fixture.raw(`${service}ModelInfer`, Buffer.of(0x0a, 0x7f))
  assert.equal(broken.code, 'INVALID_ARGUMENT')
  assert.match(broken.details, /not valid protobuf: a field is longer than what contains it/)
  assert.equal((await fixture.raw(`${service}ModelReady`, Buffer.of(0x07))).code, 'INVALID_ARGUMENT')
})

test('what is not gRPC is told so in HTTP', async () => {
  await using fixture = await GrpcFixture.start()
  const session = http2.connect(`http://127.0.0.1:${fixture.port}`)
  for (const [headers, status] of [
    [{ ':method': 'GET', ':path': '/' }, 405],
    [{ ':method': 'POST', ':path': '/', 'content-type': 'text/plain' }, 415],
  ] as const) {
    const [answer] = (await once(session.request(headers), 'response')) as [http2.IncomingHttpHeaders]
    assert.equal(answer[':status'], status)
  }
  session.close()
})

test('texts of errors arrive whole, whatever characters they have', async () => {
  await using fixture = await GrpcFixture.start()
  const { code, details } = await fixture.call('ModelInfer', codeRequest('fail', 20))
  assert.deepEqual([code, details], ['INTERNAL', 'ünïcode "quoted" \n line'])
})

test('restricted protocols need their metadata, other protocols do not', async () => {
  const restrictedProtocols = [{ apis: ['inference', 'model-repository'], key: 'secret', value: 'open sesame' }]
  await using fixture = await GrpcFixture.start({ restrictedProtocols })
  const refusal = "This protocol is restricted, expecting header 'triton-grpc-protocol-secret'"
  const ask = (metadata: Record<string, string>): ReturnType<GrpcFixture['call']> =>
    fixture.call('ModelInfer', codeRequest('fail', 0), metadata)
  for (const metadata of [{}, { 'triton-grpc-protocol-secret': 'wrong' }]) {
    const { code, details } = await ask(metadata as Record<string, string>)
    assert.deepEqual([code, details], ['UNAVAILABLE', refusal])
  }
  assert.equal((await ask({ 'triton-grpc-protocol-secret': 'open sesame' })).code, 'OK')
  assert.equal((await fixture.call('RepositoryIndex', {})).code, 'UNAVAILABLE')
  assert.equal((await fixture.call('ServerLive', {})).code, 'OK')
})

test('a message over the limit is refused before it has arrived, and the refusal names the flag', async () => {
  await using fixture = await GrpcFixture.start({ maxMessageBytes: 1000 })
  const { code, details } = await fixture.raw(`${service}ModelInfer`, Buffer.alloc(1001))
  assert.equal(code, 'RESOURCE_EXHAUSTED')
  assert.equal(
    details,
    'Received message larger than max (1001 vs. 1000). Use --grpc-max-message-size to increase the limit.',
  )
})

test('a method that takes no tensors and no models takes no large messages, compressed or not', async () => {
  await using fixture = await GrpcFixture.start()
  const rpcs = Object.values(inferenceProtos().lookupService('inference.GRPCInferenceService').methods)
  const large = new Set(['ModelInfer', 'ModelStreamInfer', 'RepositoryModelLoad'])
  const bytes = Buffer.alloc(1024 * 1024 + 1)
  const refusal =
    'Received message larger than max (1048577 vs. 1048576). Only methods that take tensors or models take larger messages.'
  for (const { name } of rpcs) {
    const { code, details } = await fixture.raw(service + name, bytes)
    if (large.has(name)) assert.notEqual(code, 'RESOURCE_EXHAUSTED', name)
    else assert.deepEqual([code, details], ['RESOURCE_EXHAUSTED', refusal], name)
    const inflated = await rawCall(fixture.port, [framed(gzipSync(bytes), 1)], {
      ':path': service + name,
      'grpc-encoding': 'gzip',
    })
    if (!large.has(name))
      assert.match(decodeURIComponent(inflated.message), /more after decompression vs. 1048576/, name)
  }
})

test('a trace rate of a million digits is out of range, and BigInt() never sees them', async (t) => {
  await using fixture = await GrpcFixture.start()
  const made = t.mock.method(globalThis, 'BigInt')
  const settings = { trace_rate: { value: ['9'.repeat(1_000_000)] } }
  const { code, details } = await fixture.call('TraceSetting', { settings })
  assert.equal(code, 'INVALID_ARGUMENT')
  assert.match(details, /^Unable to parse 'trace_rate', value is out of range/)
  const version = await fixture.call('ModelReady', { name: 'fail', version: '9'.repeat(1_000_000) })
  assert.equal(version.code, 'INVALID_ARGUMENT')
  assert.deepEqual(
    made.mock.calls.map(({ arguments: [value] }) => String(value).length).filter((length) => length > 20),
    [],
  )
})

test('a refused trace count has a blank before its value, as in Triton over gRPC', async () => {
  await using fixture = await GrpcFixture.start()
  const { details } = await fixture.call('TraceSetting', { settings: { trace_count: { value: ['-2'] } } })
  assert.equal(details, "Unable to parse 'trace_count'. Expecting value >= -1, got: -2")
})

test('classes of large outputs are ranked in slices, in the order of the answers of a stream', async () => {
  const size = 200_000
  const config = `input { name: "CODE" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "Y" data_type: TYPE_FP32 dims: [ ${size} ] } output { name: "Z" data_type: TYPE_FP32 dims: [ 1 ] } model_transaction_policy { decoupled: true }`
  const scores = new Uint8Array(Float32Array.from({ length: size }, (_, i) => i).buffer)
  const run = (request: InferenceRequest): void => {
    request.respond(InferenceResponse.of([new Tensor('Y', 'FP32', [size], scores)], { isFinal: false }))
    request.respond(InferenceResponse.of([new Tensor('Z', 'FP32', [1], scores.subarray(4, 8))], { isFinal: false }))
    request.respond(InferenceResponse.finalFlag())
  }
  await using fixture = await GrpcFixture.start({}, { scores: { config, run } })
  const classes = { classification: { int64_param: size } }
  const outputs = [
    { name: 'Y', parameters: classes },
    { name: 'Z', parameters: classes },
  ]
  const stream = fixture.stream()
  const answers: Message[] = []
  stream.on('data', (bytes: Buffer) => answers.push(decode('ModelStreamInferResponse', bytes)))
  stream.write(encode('ModelInferRequest', codeRequest('scores', 0, { outputs })))
  stream.end()
  await once(stream, 'end')
  const [first, second] = answers.map((answer) => answer['infer_response'] as Message) as [Message, Message]
  assert.equal((first['outputs'] as Message[])[0]?.['name'], 'Y')
  assert.deepEqual((first['outputs'] as Message[])[0]?.['shape'], [String(size)])
  const [bytes = Buffer.alloc(0)] = first['raw_output_contents'] as Buffer[]
  assert.equal(bytes.toString('latin1', 4, 4 + bytes.readUInt32LE(0)), `${size - 1}.000000:${size - 1}`)
  assert.equal((second['outputs'] as Message[])[0]?.['name'], 'Z')
})

/** A call by hand, for what clients do not do. */
async function rawCall(
  port: number,
  body: Buffer[],
  headers: http2.OutgoingHttpHeaders = {},
): Promise<{ status: string; message: string; encoding: string; body: Buffer }> {
  const session = http2.connect(`http://127.0.0.1:${port}`)
  const stream = session.request({
    ':method': 'POST',
    ':path': `${service}ModelInfer`,
    'content-type': 'application/grpc',
    ...headers,
  })
  const parts: Buffer[] = []
  const answer = { status: '', message: '', encoding: '', body: Buffer.alloc(0) }
  const note = (given: http2.IncomingHttpHeaders): void => {
    answer.status = String(given['grpc-status'] ?? answer.status)
    answer.message = String(given['grpc-message'] ?? answer.message)
    answer.encoding = String(given['grpc-encoding'] ?? answer.encoding)
  }
  stream.on('response', note)
  stream.on('trailers', note)
  stream.on('data', (part: Buffer) => parts.push(part))
  for (const part of body) stream.write(part)
  stream.end()
  await once(stream, 'close')
  session.close()
  return { ...answer, body: Buffer.concat(parts) }
}

const framed = (bytes: Buffer, flag = 0): Buffer => {
  const prefix = Buffer.alloc(5)
  prefix[0] = flag
  prefix.writeUInt32BE(bytes.length, 1)
  return Buffer.concat([prefix, bytes])
}

test('a message may arrive byte by byte', async () => {
  await using fixture = await GrpcFixture.start()
  const whole = framed(encode('ModelInferRequest', codeRequest('fail', 0)))
  const answer = await rawCall(
    fixture.port,
    Array.from(whole, (byte) => Buffer.of(byte)),
  )
  assert.equal(answer.status, '0')
  assert.equal(decode('ModelInferResponse', answer.body.subarray(5))['model_name'], 'fail')
})

test('bodies that are no messages, and encodings nobody knows, get a status', async () => {
  await using fixture = await GrpcFixture.start()
  assert.equal((await rawCall(fixture.port, [])).status, '13')
  assert.equal((await rawCall(fixture.port, [Buffer.of(0, 0, 0, 0, 9, 1)])).status, '13')
  assert.equal((await rawCall(fixture.port, [framed(Buffer.of(1, 2, 3), 1)])).status, '13')
  const unknown = await rawCall(fixture.port, [framed(Buffer.of(1), 1)], { 'grpc-encoding': 'snappy' })
  assert.equal(unknown.status, '12')
  assert.match(unknown.message, /'snappy' is not supported, use one of: identity, deflate, gzip/)
  const corrupt = await rawCall(fixture.port, [framed(Buffer.of(1, 2), 1)], { 'grpc-encoding': 'gzip' })
  assert.equal(corrupt.status, '13')
  const bomb = framed(gzipSync(Buffer.alloc(65 * 1024 * 1024)), 1)
  assert.equal((await rawCall(fixture.port, [bomb], { 'grpc-encoding': 'gzip' })).status, '8')
})

test('answers are compressed for clients that take it, where the operator wants it', async () => {
  const big = {
    config: codeConfig,
    run: (request: InferenceRequest) => request.respond(InferenceResponse.of(outputs(50_000))),
  }
  await using fixture = await GrpcFixture.start({ compressionLevel: 'low' }, { big })
  const body = [framed(encode('ModelInferRequest', codeRequest('big', 0)))]
  const zipped = await rawCall(fixture.port, body, { 'grpc-accept-encoding': 'identity,gzip' })
  assert.deepEqual([zipped.status, zipped.encoding, zipped.body[0]], ['0', 'gzip', 1])
  assert.ok(zipped.body.length < 1000)
  const plain = await rawCall(fixture.port, body)
  assert.deepEqual([plain.status, plain.encoding, plain.body[0]], ['0', '', 0])
  const answer = await fixture.call('ModelInfer', codeRequest('big', 0))
  assert.equal((answer.message['raw_output_contents'] as Buffer[])[0]?.length, 50_000)
})

test('a deadline, a cancelled call and a lost connection each cancel the request', async () => {
  const { model, arrived } = heldModel()
  await using fixture = await GrpcFixture.start({}, { held: model })
  const payload = encode('ModelInferRequest', codeRequest('held', 0))
  const unchanged = (bytes: Buffer): Buffer => bytes
  type Started = {
    readonly request: InferenceRequest
    readonly call: grpc.ClientUnaryCall
    readonly ended: Promise<number>
    readonly cancelled: Promise<void>
  }
  /** Null: the call was over before the request arrived. */
  const start = async (options: grpc.CallOptions): Promise<Started | null> => {
    const coming = arrived()
    const { promise: ended, resolve } = Promise.withResolvers<number>()
    const call = fixture.client.makeUnaryRequest(
      `${service}ModelInfer`,
      unchanged,
      unchanged,
      payload,
      new grpc.Metadata(),
      options,
      (error) => resolve(error?.code ?? 0),
    )
    const request = await Promise.race([coming, ended.then(() => null)])
    if (request === null) return null
    const cancelled = new Promise<void>((resolveCancel) => {
      request.handOver({ onCancel: () => resolveCancel() })
    })
    return { request, call, ended, cancelled }
  }
  /** A busy machine may need longer than a deadline before the request is there: then one with more time follows. */
  const startWithDeadline = async (ms: number): Promise<Started> =>
    (await start({ deadline: Date.now() + ms })) ?? startWithDeadline(2 * ms)
  const byDeadline = await startWithDeadline(300)
  await byDeadline.cancelled
  assert.equal(await byDeadline.ended, grpc.status.DEADLINE_EXCEEDED)
  byDeadline.request.failCancelled()
  const byCall = (await start({})) as Started
  byCall.call.cancel()
  await byCall.cancelled
  byCall.request.failCancelled()
  const session = http2.connect(`http://127.0.0.1:${fixture.port}`)
  const coming = arrived()
  const lost = session.request({
    ':method': 'POST',
    ':path': `${service}ModelInfer`,
    'content-type': 'application/grpc',
  })
  lost.end(framed(payload))
  const request = await coming
  const cancelled = new Promise<void>((resolve) => {
    request.handOver({ onCancel: () => resolve() })
  })
  session.destroy()
  await cancelled
  request.failCancelled()
})

test('draining refuses new calls, finishes those under way and lets idle streams go', async () => {
  const { model, arrived } = heldModel()
  const fixture = await GrpcFixture.start({}, { held: model })
  const coming = arrived()
  const slow = fixture.call('ModelInfer', codeRequest('held', 0))
  const request = await coming
  const idle = fixture.stream()
  idle.write(encode('ModelInferRequest', codeRequest('fail', 0)))
  await once(idle, 'data')
  const idleError = once(idle, 'error') as Promise<[grpc.ServiceError]>
  fixture.engine.beginExit()
  const drained = fixture.frontend.drain()
  const text = 'GRPC server is shutting down and has stopped accepting new requests.'
  const [error] = await idleError
  assert.deepEqual([error.code, error.details], [grpc.status.UNAVAILABLE, text])
  request.respond(InferenceResponse.of(outputs(1)))
  assert.equal((await slow).code, 'OK')
  await drained
  await fixture.close()
})

test('health can be watched: the status at once, and again when it changes', async () => {
  await using fixture = await GrpcFixture.start()
  const unchanged = (bytes: Buffer): Buffer => bytes
  const watch = fixture.client.makeServerStreamRequest(
    '/grpc.health.v1.Health/Watch',
    unchanged,
    unchanged,
    Buffer.alloc(0),
  )
  watch.on('error', () => undefined)
  const [first] = (await once(watch, 'data')) as [Buffer]
  assert.equal(first.toString('hex'), '0801')
  fixture.engine.beginExit()
  const [second] = (await once(watch, 'data')) as [Buffer]
  assert.equal(second.toString('hex'), '0802')
  watch.cancel()
})

test('a client that stops reading is not sent more than its backlog, and is let go in the end', async () => {
  const { model, arrived } = heldModel(`${codeConfig} model_transaction_policy { decoupled: true }`)
  const maxBacklogBytes = 256 * 1024
  await using fixture = await GrpcFixture.start({ maxBacklogBytes }, { held: model })
  const socket = net.connect(fixture.port, '127.0.0.1')
  const session = http2.connect(`http://127.0.0.1:${fixture.port}`, { createConnection: () => socket })
  const stream = session.request({
    ':method': 'POST',
    ':path': `${service}ModelStreamInfer`,
    'content-type': 'application/grpc',
  })
  stream.on('error', () => undefined)
  const coming = arrived()
  stream.write(framed(encode('ModelInferRequest', codeRequest('held', 0))))
  const request = await coming
  let sent = 0
  // The stream's data is never read: its window fills, and what the server keeps must stay within bounds.
  while (!request.isCancelled) {
    sent++
    assert.ok(sent * 32 * 1024 < 4 * 1024 * 1024, `${sent} answers were taken before the client was let go`)
    request.respond(InferenceResponse.of(outputs(32 * 1024), { isFinal: false }))
    await new Promise((resolve) => setTimeout(resolve, sent * 32 * 1024 < maxBacklogBytes ? 0 : 50))
  }
  request.failCancelled()
  stream.on('error', () => undefined)
  if (!stream.closed) await once(stream, 'close')
  assert.equal(stream.rstCode, http2.constants.NGHTTP2_ENHANCE_YOUR_CALM)
  session.destroy()
})

test('requests are held back while their answers are not read', async () => {
  let executed = 0
  const big = {
    config: codeConfig,
    run: (request: InferenceRequest) => {
      executed++
      request.respond(InferenceResponse.of(outputs(64 * 1024)))
    },
  }
  await using fixture = await GrpcFixture.start({ maxBacklogBytes: 256 * 1024 }, { big })
  const session = http2.connect(`http://127.0.0.1:${fixture.port}`)
  const stream = session.request({
    ':method': 'POST',
    ':path': `${service}ModelStreamInfer`,
    'content-type': 'application/grpc',
  })
  const message = framed(encode('ModelInferRequest', codeRequest('big', 0)))
  for (let i = 0; i < 500; i++) stream.write(message)
  // Another call on the same connection is answered all the while.
  for (let i = 0; i < 50; i++) assert.equal((await fixture.call('ServerLive', {})).code, 'OK')
  assert.ok(executed < 50, `${executed} requests ran for a client that reads nothing`)
  let bytes = 0
  stream.on('data', (part: Buffer) => (bytes += part.length))
  stream.end()
  await once(stream, 'close')
  assert.equal(executed, 500)
  assert.ok(bytes > 500 * 64 * 1024)
  session.close()
})

for (const connections of [1, 50]) {
  test(`a thousand streams are held at a time on ${connections} connections, each with its answers`, () =>
    holdStreams(connections))
}

async function holdStreams(connections: number): Promise<void> {
  await using fixture = await GrpcFixture.start()
  const clients = Array.from({ length: connections }, () => fixture.connect())
  const streams = Array.from({ length: 1000 }, (_, i) => fixture.stream(clients[i % clients.length]))
  const ask = async (stream: grpc.ClientDuplexStream<Buffer, Buffer>, id: string): Promise<void> => {
    const answered = once(stream, 'data') as Promise<[Buffer]>
    stream.write(encode('ModelInferRequest', codeRequest('fail', 0, { id })))
    const [bytes] = await answered
    const response = decode('ModelStreamInferResponse', bytes)['infer_response'] as Message
    assert.equal(response['id'], id)
  }
  for (const round of ['a', 'b']) await Promise.all(streams.map((stream, i) => ask(stream, `${round}${i}`)))
  const ended = Promise.all(streams.map((stream) => once(stream.resume(), 'end')))
  for (const stream of streams) stream.end()
  await ended
  for (const client of clients) client.close()
}

test('a connection of age is told to leave and its calls are finished first', async () => {
  const { model, arrived } = heldModel()
  await using fixture = await GrpcFixture.start({ maxConnectionAgeMs: 200 }, { held: model })
  const session = http2.connect(`http://127.0.0.1:${fixture.port}`)
  const leaving = once(session, 'goaway')
  const stream = session.request({
    ':method': 'POST',
    ':path': `${service}ModelInfer`,
    'content-type': 'application/grpc',
  })
  const coming = arrived()
  stream.end(framed(encode('ModelInferRequest', codeRequest('held', 0))))
  const request = await coming
  await leaving
  request.respond(InferenceResponse.of(outputs(1)))
  const [trailers] = (await once(stream.resume(), 'trailers')) as [http2.IncomingHttpHeaders]
  assert.equal(trailers['grpc-status'], '0')
  await once(session, 'close')
})

test('a client that pings too often is sent away, one that pings between answers is not', async () => {
  await using fixture = await GrpcFixture.start({
    minPingIntervalMs: 60_000,
    maxPingStrikes: 2,
    keepaliveWithoutCalls: true,
  })
  const ping = (session: http2.ClientHttp2Session): Promise<unknown> =>
    new Promise((resolve) => session.ping((error) => resolve(error)))
  const rude = http2.connect(`http://127.0.0.1:${fixture.port}`)
  rude.on('error', () => undefined)
  await once(rude, 'connect')
  const sentAway = once(rude, 'goaway') as Promise<[number, number, Buffer]>
  for (let i = 0; i < 6 && !rude.destroyed; i++) await ping(rude)
  const [code, , reason] = await sentAway
  assert.deepEqual([code, reason.toString()], [http2.constants.NGHTTP2_ENHANCE_YOUR_CALM, 'too_many_pings'])
  const polite = http2.connect(`http://127.0.0.1:${fixture.port}`)
  await once(polite, 'connect')
  for (let i = 0; i < 6; i++) {
    const stream = polite.request({
      ':method': 'POST',
      ':path': `${service}ServerLive`,
      'content-type': 'application/grpc',
    })
    stream.end(framed(Buffer.alloc(0)))
    await once(stream.resume(), 'close')
    assert.equal(await ping(polite), null)
  }
  polite.close()
})

test('a client may ping again and again while it takes one large answer, as gRPC clients do to measure the connection', async () => {
  const { model, arrived } = heldModel()
  await using fixture = await GrpcFixture.start({ minPingIntervalMs: 60_000, maxPingStrikes: 2 }, { held: model })
  const session = http2.connect(`http://127.0.0.1:${fixture.port}`)
  session.on('error', () => undefined)
  const stream = session.request({
    ':method': 'POST',
    ':path': `${service}ModelInfer`,
    'content-type': 'application/grpc',
  })
  const coming = arrived()
  stream.end(framed(encode('ModelInferRequest', codeRequest('held', 0))))
  const answerBytes = 1024 * 1024
  ;(await coming).respond(InferenceResponse.of(outputs(answerBytes)))
  let [takenBytes, pingedBytes, pingCount] = [0, 0, 0]
  for await (const piece of stream as AsyncIterable<Buffer>) {
    takenBytes += piece.length
    if (takenBytes - pingedBytes < 128 * 1024) continue
    pingedBytes = takenBytes
    pingCount++
    await new Promise((resolve) => session.ping(resolve))
  }
  assert.ok(takenBytes > answerBytes, `${takenBytes} bytes came`)
  assert.ok(pingCount > 4)
  session.close()
})

test('the server pings a silent client with a call and leaves one that does not answer', async () => {
  const { model, arrived } = heldModel()
  await using fixture = await GrpcFixture.start({ keepaliveTimeMs: 50, keepaliveTimeoutMs: 50 }, { held: model })
  const session = http2.connect(`http://127.0.0.1:${fixture.port}`)
  const coming = arrived()
  const stream = session.request({
    ':method': 'POST',
    ':path': `${service}ModelInfer`,
    'content-type': 'application/grpc',
  })
  stream.end(framed(encode('ModelInferRequest', codeRequest('held', 0))))
  const request = await coming
  await once(session, 'ping')
  request.respond(InferenceResponse.of(outputs(1)))
  await once(stream.resume(), 'close')
  session.close()
  // Between this client and the server is somebody who stops passing on what the client says: no ping is answered.
  const proxy = net.createServer((near) => {
    const far = net.connect(fixture.port, '127.0.0.1')
    for (const socket of [near, far]) socket.on('error', () => undefined)
    near.pipe(far)
    far.pipe(near)
    cut = () => near.unpipe(far)
  })
  let cut = (): unknown => undefined
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const deafSession = http2.connect(`http://127.0.0.1:${(proxy.address() as net.AddressInfo).port}`)
  deafSession.on('error', () => undefined)
  const comingAgain = arrived()
  const call = deafSession.request({
    ':method': 'POST',
    ':path': `${service}ModelInfer`,
    'content-type': 'application/grpc',
  })
  call.on('error', () => undefined)
  call.end(framed(encode('ModelInferRequest', codeRequest('held', 0))))
  const second = await comingAgain
  const cancelled = new Promise<void>((resolve) => second.handOver({ onCancel: () => resolve() }))
  cut()
  await cancelled
  second.failCancelled()
  deafSession.destroy()
  proxy.close()
})
