// HTTPS with certificates made for the occasion.

import assert from 'node:assert/strict'
import { copyFileSync, readFileSync } from 'node:fs'
import { request as httpsRequest } from 'node:https'
import { connect as connectTcp } from 'node:net'
import { test } from 'node:test'
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls'

import { CertificateFiles } from '../../src/transport/certificate-files.ts'
import { startHttpFixture } from './http-fixture.ts'
import { Certificates } from '../certificates.ts'

const certificates = new Certificates()
const file = (name: string): string => certificates.file(name)
for (const name of ['authority', 'stranger']) certificates.make(name)
for (const name of ['server-one', 'server-two', 'client']) certificates.make(name, 'authority')
certificates.make('impostor', 'stranger')

const ca = readFileSync(file('authority.crt'))
const pairOf = (name: string): ConnectionOptions => ({
  cert: readFileSync(file(`${name}.crt`)),
  key: readFileSync(file(`${name}.key`)),
})

function useServer(name: string): { certificate: string; key: string; root: string; isMutual: boolean } {
  copyFileSync(file(`${name}.crt`), file('live.crt'))
  copyFileSync(file(`${name}.key`), file('live.key'))
  return { certificate: file('live.crt'), key: file('live.key'), root: '', isMutual: false }
}

function get(port: number, path: string, options: ConnectionOptions = {}): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const request = httpsRequest({ host: '127.0.0.1', port, path, ca, agent: false, ...options }, (response) => {
      let body = ''
      response.setEncoding('utf8')
      response.on('data', (piece: string) => {
        body += piece
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body }))
    })
    request.on('error', reject)
    request.end()
  })
}

function openTls(port: number): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, ca }, () => resolve(socket))
    socket.on('error', reject)
  })
}

const answerOf = (socket: TLSSocket): Promise<string> =>
  new Promise((resolve) => {
    socket.once('data', (piece: Buffer) => resolve(piece.toString()))
    socket.write('GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n')
  })

test('the API is served over TLS, and plain HTTP on that port is not', async () => {
  const fixture = await startHttpFixture({ tls: useServer('server-one') })
  const { port } = await fixture.frontend.listen()
  assert.match((await get(port, '/v2')).body, /"name":"triton"/)
  const plain = connectTcp(port, '127.0.0.1')
  plain.on('error', () => undefined)
  const closed = new Promise((resolve) => plain.on('close', resolve))
  plain.resume()
  plain.write('GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await closed
  await fixture.close()
})

test('new certificate files serve new connections, and open ones go on', async (context) => {
  const checks: (() => Promise<void>)[] = []
  const watch = Object.getOwnPropertyDescriptor(CertificateFiles.prototype, 'watch')?.value as (onChange: never) => void
  context.mock.method(CertificateFiles.prototype, 'watch', function (this: CertificateFiles, onChange: never) {
    checks.push(() => this.check())
    watch.call(this, onChange)
  })
  const fixture = await startHttpFixture({ tls: useServer('server-one') })
  const { port } = await fixture.frontend.listen()
  const old = await openTls(port)
  assert.equal(old.getPeerCertificate().subject.CN, 'server-one')
  useServer('server-two')
  await checks[0]?.()
  const fresh = await openTls(port)
  assert.equal(fresh.getPeerCertificate().subject.CN, 'server-two')
  assert.match(await answerOf(old), /^HTTP\/1\.1 200 OK/)
  assert.match(await answerOf(fresh), /^HTTP\/1\.1 200 OK/)
  old.destroy()
  fresh.destroy()
  await fixture.close()
})

test('mutual TLS lets in clients whose certificate the root signed, and no others', async () => {
  const tls = { ...useServer('server-one'), root: file('authority.crt'), isMutual: true }
  const fixture = await startHttpFixture({ tls })
  const { port } = await fixture.frontend.listen()
  assert.equal((await get(port, '/v2/health/ready', pairOf('client'))).status, 200)
  await assert.rejects(get(port, '/v2/health/ready'))
  await assert.rejects(get(port, '/v2/health/ready', pairOf('impostor')))
  await fixture.close()
})

test('a handshake that stands still is given up, and one under way does not keep the server from closing', async () => {
  const fixture = await startHttpFixture({ tls: useServer('server-one'), headersTimeoutMs: 50 })
  const { port } = await fixture.frontend.listen()
  const silent = connectTcp(port, '127.0.0.1')
  silent.on('error', () => undefined)
  silent.resume()
  await new Promise((resolve) => silent.on('close', resolve))
  await fixture.close()
  const patient = await startHttpFixture({ tls: useServer('server-one') })
  const other = connectTcp((await patient.frontend.listen()).port, '127.0.0.1')
  other.on('error', () => undefined)
  other.resume()
  await new Promise((resolve) => other.on('connect', resolve))
  await patient.close()
})

test('TLS without its files is refused at start', async () => {
  const tls = useServer('server-one')
  await assert.rejects(startHttpFixture({ tls: { ...tls, key: '' } }), /--http-use-ssl needs --http-server-cert and/)
  await assert.rejects(startHttpFixture({ tls: { ...tls, isMutual: true } }), /needs --http-root-cert/)
  const fixture = await startHttpFixture({ tls: { ...tls, certificate: file('nowhere.crt') } })
  await assert.rejects(fixture.frontend.listen(), /cannot read the TLS certificate '.*nowhere\.crt'/)
  await fixture.close()
})
