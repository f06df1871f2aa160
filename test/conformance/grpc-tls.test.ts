// gRPC over TLS with certificates made for the occasion.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { copyFileSync, readFileSync } from 'node:fs'
import http2 from 'node:http2'
import net from 'node:net'
import { test } from 'node:test'
import tls, { type ConnectionOptions, type TLSSocket } from 'node:tls'
import grpc from '@grpc/grpc-js'

import { CertificateFiles } from '../../src/transport/certificate-files.ts'
import type { TlsOptions } from '../../src/transport/listener.ts'
import { frameTypes } from '../../src/transport/http2/http2-format.ts'
import { codeRequest, GrpcFixture, service } from './grpc-fixture.ts'
import { dataOf, greeting, headersOf, Http2RawClient, requestFields } from './http2-raw-client.ts'
import { Certificates } from '../certificates.ts'

const certificates = new Certificates()
const file = (name: string): string => certificates.file(name)
for (const name of ['authority', 'stranger']) certificates.make(name)
for (const name of ['server-one', 'server-two', 'client']) certificates.make(name, 'authority')
certificates.make('impostor', 'stranger')

const ca = readFileSync(file('authority.crt'))

function useServer(name: string): TlsOptions {
  copyFileSync(file(`${name}.crt`), file('live.crt'))
  copyFileSync(file(`${name}.key`), file('live.key'))
  return { certificate: file('live.crt'), key: file('live.key'), root: '', isMutual: false }
}

function clientOf(port: number, own: string | null): grpc.Client {
  const pair = own === null ? [] : [readFileSync(file(`${own}.key`)), readFileSync(file(`${own}.crt`))]
  const options = { 'grpc.use_local_subchannel_pool': 1, 'grpc.ssl_target_name_override': 'localhost' }
  const credentials = grpc.credentials.createSsl(ca, pair[0], pair[1])
  return new grpc.Client(`127.0.0.1:${port}`, credentials, options)
}

async function openTls(port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = tls.connect({ host: '127.0.0.1', port, ca, ALPNProtocols: ['h2'], ...options })
  await once(socket, 'secureConnect')
  return socket
}

const ask = (id: number): Buffer => Buffer.concat([headersOf(id, requestFields(`${service}ServerLive`)), dataOf(id)])

test('calls and streams of any size go over TLS', async () => {
  await using fixture = await GrpcFixture.start({ tls: useServer('server-one') })
  const client = clientOf(fixture.port, null)
  const { code, details, message } = await fixture.call('ModelInfer', codeRequest('fail', 0), {}, client)
  assert.deepEqual([code, details, message['model_name']], ['OK', '', 'fail'])
  const large = await fixture.call('ModelReady', { name: 'x'.repeat(900_000) }, {}, client)
  assert.deepEqual([large.code, large.message['ready'] ?? false], ['OK', false])
  const stream = fixture.stream(client)
  stream.end()
  await once(stream.resume(), 'end')
  client.close()
})

test('a client that agrees on no HTTP/2, or speaks none, is sent away', async () => {
  await using fixture = await GrpcFixture.start({ tls: useServer('server-one') })
  const silent = tls.connect({ host: '127.0.0.1', port: fixture.port, ca })
  silent.on('error', () => undefined)
  await once(silent.resume(), 'close')
  await assert.rejects(openTls(fixture.port, { ALPNProtocols: ['http/1.1'] }))
  const plain = net.connect(fixture.port, '127.0.0.1')
  plain.on('error', () => undefined)
  plain.write(greeting)
  await once(plain.resume(), 'close')
})

test('mutual TLS lets in clients whose certificate the root signed, and no others', async () => {
  const mutual = { ...useServer('server-one'), root: file('authority.crt'), isMutual: true }
  await using fixture = await GrpcFixture.start({ tls: mutual })
  for (const [own, code] of [
    ['client', 'OK'],
    [null, 'UNAVAILABLE'],
    ['impostor', 'UNAVAILABLE'],
  ] as const) {
    const client = clientOf(fixture.port, own)
    assert.equal((await fixture.call('ServerLive', {}, {}, client)).code, code, String(own))
    client.close()
  }
})

test('new certificate files serve new connections, and open ones go on', async (context) => {
  const checks: (() => Promise<void>)[] = []
  const watch = Object.getOwnPropertyDescriptor(CertificateFiles.prototype, 'watch')?.value as (onChange: never) => void
  context.mock.method(CertificateFiles.prototype, 'watch', function (this: CertificateFiles, onChange: never) {
    checks.push(() => this.check())
    watch.call(this, onChange)
  })
  await using fixture = await GrpcFixture.start({ tls: useServer('server-one') })
  const oldSocket = await openTls(fixture.port)
  const old = new Http2RawClient(oldSocket)
  old.send(greeting, ask(1))
  assert.equal(await old.trailer(1, 'grpc-status'), '0')
  assert.equal(oldSocket.getPeerCertificate().subject.CN, 'server-one')
  useServer('server-two')
  await checks[0]?.()
  const freshSocket = await openTls(fixture.port)
  assert.equal(freshSocket.getPeerCertificate().subject.CN, 'server-two')
  const fresh = new Http2RawClient(freshSocket)
  fresh.send(greeting, ask(1))
  old.send(ask(3))
  assert.deepEqual([await old.trailer(3, 'grpc-status'), await fresh.trailer(1, 'grpc-status')], ['0', '0'])
  old.destroy()
  fresh.destroy()
})

test('draining over TLS finishes calls, says goodbye and closes', async () => {
  const fixture = await GrpcFixture.start({ tls: useServer('server-one') })
  const session = http2.connect(`https://127.0.0.1:${fixture.port}`, { ca })
  await once(session, 'remoteSettings')
  const idle = new Http2RawClient(await openTls(fixture.port))
  idle.send(greeting, ask(1))
  await idle.trailer(1, 'grpc-status')
  const goodbye = once(session, 'goaway')
  await fixture.frontend.drain()
  await goodbye
  await idle.closed
  const farewells = idle.frames.filter(({ type }) => type === frameTypes.GOAWAY)
  // First 'no more, please', then the number of the last call that was answered.
  assert.deepEqual(
    farewells.map(({ payload }) => [payload.readUInt32BE(0), payload.readUInt32BE(4)]),
    [
      [2 ** 31 - 1, 0],
      [1, 0],
    ],
  )
  await fixture.close()
})

test('a handshake under way does not keep the server from closing', async () => {
  const fixture = await GrpcFixture.start({ tls: useServer('server-one') })
  const silent = net.connect(fixture.port, '127.0.0.1')
  silent.on('error', () => undefined)
  await once(silent, 'connect')
  const closed = once(silent.resume(), 'close')
  // A call of somebody else shows that the server has heard of the silent one by now.
  const client = clientOf(fixture.port, null)
  assert.equal((await fixture.call('ServerLive', {}, {}, client)).code, 'OK')
  client.close()
  await fixture.close()
  await closed
})

test('TLS without its files is refused at start', async () => {
  const files = useServer('server-one')
  await assert.rejects(GrpcFixture.start({ tls: { ...files, key: '' } }), /--grpc-use-ssl needs --grpc-server-cert and/)
  await assert.rejects(GrpcFixture.start({ tls: { ...files, isMutual: true } }), /needs --grpc-root-cert/)
  const missing = { ...files, certificate: file('nowhere.crt') }
  await assert.rejects(GrpcFixture.start({ tls: missing }), /cannot read the TLS certificate '.*nowhere\.crt'/)
})
