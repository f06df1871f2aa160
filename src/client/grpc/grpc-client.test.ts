// The gRPC client against a server of @grpc/grpc-js that does as it is told.

import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { test } from 'node:test'
import grpc from '@grpc/grpc-js'
import { GrpcClient, type GrpcClientOptions } from './grpc-client.ts'
import { encodeMessage } from './json-messages.ts'
import { until } from '../../../test/until.ts'
import { Certificates } from '../../../test/certificates.ts'

type Reply = { readonly bytes?: Buffer; readonly error?: Partial<grpc.ServiceError> } | 'never'
type Call = {
  readonly rpc: string
  readonly metadata: grpc.Metadata
  readonly deadline: grpc.Deadline
  isCancelled: boolean
}

const raw = (bytes: Buffer): Buffer => bytes
const live = Buffer.concat(encodeMessage('ServerLiveResponse', { live: true }))
const inferred = Buffer.concat(encodeMessage('ModelInferResponse', { model_name: 'M', model_version: '1' }))
const metadata = Buffer.concat(encodeMessage('ServerMetadataResponse', { name: 'fake', version: '9' }))
const unavailable: Reply = { error: { code: grpc.status.UNAVAILABLE, details: 'Exceeds maximum queue size' } }

class FakeServer {
  readonly calls: Call[] = []
  replies: Reply[] = []
  port = 0
  readonly #server: grpc.Server

  constructor(options: grpc.ServerOptions = {}) {
    this.#server = new grpc.Server(options)
    for (const rpc of ['ServerLive', 'ServerMetadata', 'ModelInfer']) {
      const method = {
        path: `/inference.GRPCInferenceService/${rpc}`,
        requestStream: false,
        responseStream: false,
        requestSerialize: raw,
        requestDeserialize: raw,
        responseSerialize: raw,
        responseDeserialize: raw,
      } as const
      this.#server.addService(
        { [rpc]: method },
        {
          [rpc]: (call: grpc.ServerUnaryCall<Buffer, Buffer>, callback: grpc.sendUnaryData<Buffer>) => {
            const seen: Call = { rpc, metadata: call.metadata, deadline: call.getDeadline(), isCancelled: false }
            this.calls.push(seen)
            call.on('cancelled', () => (seen.isCancelled = true))
            const reply = this.replies.length > 1 ? this.replies.shift() : this.replies[0]
            if (reply === undefined || reply === 'never') return
            callback(reply.error ?? null, reply.bytes)
          },
        },
      )
    }
  }

  async listen(port = 0, credentials = grpc.ServerCredentials.createInsecure()): Promise<this> {
    this.port = await new Promise<number>((resolve, reject) => {
      this.#server.bindAsync(`127.0.0.1:${port}`, credentials, (error, bound) => {
        if (error === null) resolve(bound)
        else reject(error)
      })
    })
    return this
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.forceShutdown()
  }
}

async function underTest(replies: Reply[], options: Partial<GrpcClientOptions> = {}, server = new FakeServer()) {
  server.replies = replies
  await server.listen()
  return { server, client: new GrpcClient({ url: `127.0.0.1:${server.port}`, ...options }) }
}

test('reads are sent again after UNAVAILABLE; inference only when the caller allows it', async () => {
  const { server, client } = await underTest([unavailable, { bytes: metadata }])
  await using _ = server
  assert.equal((await client.serverMetadata()).name, 'fake')
  assert.equal(server.calls.length, 2)
  server.replies = [unavailable]
  await assert.rejects(client.infer('M', {}), {
    code: 'UNAVAILABLE',
    status: 14,
    message: 'Exceeds maximum queue size',
  })
  assert.equal(server.calls.length, 3)
  server.replies = [unavailable, { bytes: inferred }]
  assert.equal((await client.infer('M', {}, { retryUnavailable: true })).modelName, 'M')
  assert.equal(server.calls.length, 5)
  await client.close()
})

test('a server that comes up later is reached, for inference too: nothing had been sent', async () => {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  assert.ok(address !== null && typeof address === 'object')
  probe.close()
  await once(probe, 'close')
  const client = new GrpcClient({ url: `127.0.0.1:${address.port}`, retries: 0 })
  assert.equal(await client.isLive(), false)
  await assert.rejects(client.infer('M', {}), { code: 'UNREACHABLE', isUnsent: true })
  await using server = await new FakeServer().listen(address.port)
  server.replies = [{ bytes: inferred }]
  assert.equal((await client.infer('M', {})).modelName, 'M')
  await client.close()
})

test('a connection that the server ended is made anew', async () => {
  const first = new FakeServer()
  const { client } = await underTest([{ bytes: live }], {}, first)
  assert.equal(await client.isLive(), true)
  await first[Symbol.asyncDispose]()
  await using second = await new FakeServer().listen(first.port)
  second.replies = [{ bytes: metadata }]
  assert.equal((await client.serverMetadata()).name, 'fake')
  await client.close()
})

test('headers go with every call, and the deadline is told to the server', async () => {
  const { server, client } = await underTest([{ bytes: inferred }], { headers: { 'X-Team': 'a' }, timeoutMs: 60_000 })
  await using _ = server
  await client.infer('M', {}, { headers: { 'x-call': 'b' } })
  const [call] = server.calls
  assert.deepEqual([call?.metadata.get('x-team'), call?.metadata.get('x-call')], [['a'], ['b']])
  assert.ok(call !== undefined && Number(call.deadline) > Date.now() && Number(call.deadline) <= Date.now() + 60_000)
  await client.close()
})

test('a call without an answer ends at its timeout, one that is aborted is cancelled at the server', async () => {
  const { server, client } = await underTest(['never'])
  await using _ = server
  await assert.rejects(client.infer('M', {}, { timeoutMs: 30 }), { code: 'TIMEOUT' })
  const controller = new AbortController()
  const call = client.infer('M', {}, { signal: controller.signal })
  await until(() => server.calls.length === 2, 'the second call')
  controller.abort(new Error('enough'))
  await assert.rejects(call, /enough/)
  await until(() => server.calls[1]?.isCancelled, 'the call to be cancelled')
  await client.close()
})

test('answers that are compressed are understood, whichever way', async () => {
  const large = Buffer.concat(encodeMessage('ModelInferResponse', { model_name: 'M'.repeat(10_000) }))
  for (const algorithm of [grpc.compressionAlgorithms.deflate, grpc.compressionAlgorithms.gzip]) {
    const options: grpc.ServerOptions = { 'grpc.default_compression_algorithm': algorithm }
    const { server, client } = await underTest([{ bytes: large }], {}, new FakeServer(options))
    await using _ = server
    assert.equal((await client.infer('M', {}, { compression: 'gzip' })).modelName.length, 10_000)
    await client.close()
  }
})

test('an answer over maxMessageBytes is refused before it is kept', async () => {
  const large = Buffer.concat(encodeMessage('ModelInferResponse', { model_name: 'M'.repeat(10_000) }))
  const { server, client } = await underTest([{ bytes: large }], { maxMessageBytes: 1000 })
  await using _ = server
  await assert.rejects(client.infer('M', {}), { code: 'PROTOCOL', message: /more than maxMessageBytes \(1000\)/ })
  await client.close()
})

test('error texts come whole, whatever letters they have', async () => {
  const { server, client } = await underTest([
    { error: { code: grpc.status.INTERNAL, details: 'naïve 100 % ✓\nnext' } },
  ])
  await using _ = server
  await assert.rejects(client.infer('M', {}), { code: 'INTERNAL', message: 'naïve 100 % ✓\nnext' })
  await client.close()
})

test('what is no gRPC server is called that', async () => {
  const web = createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(0, '127.0.0.1')
  await once(web, 'listening')
  const address = web.address()
  assert.ok(address !== null && typeof address === 'object')
  const client = new GrpcClient({ url: `127.0.0.1:${address.port}`, retries: 0 })
  await assert.rejects(client.infer('M', {}), { code: 'UNREACHABLE' })
  await client.close()
  web.close()
})

test('TLS: the server is known by its authority, the client by its certificate', async () => {
  const { cert, key: privateKey } = new Certificates().make('localhost').read('localhost')
  const credentials = grpc.ServerCredentials.createSsl(cert, [{ private_key: privateKey, cert_chain: cert }], true)
  await using server = await new FakeServer().listen(0, credentials)
  server.replies = [{ bytes: metadata }]
  const url = `https://127.0.0.1:${server.port}`
  const client = new GrpcClient({ url, tls: { ca: cert, cert, key: privateKey } })
  assert.equal((await client.serverMetadata()).name, 'fake')
  await client.close()
  const stranger = new GrpcClient({ url, retries: 0 })
  await assert.rejects(stranger.serverMetadata(), { code: 'UNREACHABLE', message: /self-signed certificate/ })
  await stranger.close()
})
