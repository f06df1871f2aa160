// Clients that speak another protocol than the port: what they get, and what the log says.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import net from 'node:net'
import { after, before, test } from 'node:test'
import tls from 'node:tls'
import { anyPort, exampleModels, startServerProcess, type ServerProcess } from './server-process.ts'

let server: ServerProcess
let http: number
let grpc: number

before(async () => {
  server = await startServerProcess(['--model-repository', exampleModels, ...anyPort])
  http = Number(new URL(server.url).port)
  grpc = Number(/Started GRPCInferenceService at .*?:(\d+)/.exec(server.output)?.[1])
})
after(() => server.stop())

/** All that the server sends until it closes. */
async function said(port: number, bytes: string | Buffer): Promise<string> {
  const socket = net.connect(port, '127.0.0.1')
  const pieces: Buffer[] = []
  socket.on('data', (piece: Buffer) => pieces.push(piece))
  socket.write(bytes)
  await once(socket, 'close')
  return Buffer.concat(pieces).toString('latin1')
}

const linesWith = (text: string): number => server.output.split('\n').filter((line) => line.includes(text)).length

test('HTTP on the gRPC port is answered in HTTP, with the port to use', async () => {
  const answer = await fetch(`http://127.0.0.1:${grpc}/v2/health/ready`)
  assert.equal(answer.status, 400)
  assert.equal(await answer.text(), `this port speaks gRPC (HTTP/2) alone; HTTP has port ${http}\n`)
  const post = `POST /v2/models/simple/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}`
  assert.match(await said(grpc, post), /^HTTP\/1\.1 400 Bad Request\r\n/)
})

test('gRPC on the HTTP port is told in HTTP/2, with the port to use', async () => {
  const sent = await said(http, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  assert.match(sent, new RegExp(`this port speaks HTTP/1\\.1 alone; gRPC has port ${grpc}$`))
})

test('TLS on a port without it is answered at once', async () => {
  for (const port of [http, grpc]) {
    const socket = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false })
    const [reason] = (await once(socket, 'error')) as [NodeJS.ErrnoException]
    assert.equal(reason.code, 'ERR_SSL_WRONG_VERSION_NUMBER')
  }
})

test('what is neither is closed without an answer on the HTTP port, and with an error of HTTP/2 on the other', async () => {
  assert.equal(await said(http, 'what is this\n\n'), '')
  assert.match(await said(grpc, 'what is this\n\n'), /this port speaks HTTP\/2 \(gRPC\) alone$/)
})

test('the log has one line of each kind, however many come', async () => {
  for (let count = 0; count < 3; count++) await said(grpc, 'GET / HTTP/1.1\r\n\r\n')
  for (const text of [
    'a client speaks HTTP to the gRPC port',
    'a client speaks gRPC to the HTTP port',
    'a client speaks TLS to the HTTP port',
    'a client speaks TLS to the gRPC port',
  ]) {
    await server.said(text)
    assert.equal(linesWith(text), 1, text)
  }
})
