import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:https'
import { after, before, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { createHttpClient } from '../node.ts'
import { Certificates } from '../../../test/certificates.ts'

const { cert, key } = new Certificates().make('localhost').read('localhost')

/** Asks for a client certificate, packs what it answers when that is allowed. */
const server = createServer({ cert, key, ca: cert, requestCert: true }, (request, response) => {
  if (request.url === '/v2/health/live') {
    response.end()
    return
  }
  const body = JSON.stringify({ name: 'fake', version: String(request.headers['x-team']), extensions: [] })
  if (request.headers['accept-encoding'] === 'gzip') {
    response.setHeader('content-encoding', 'gzip').end(gzipSync(body))
  } else response.end(body)
})
let url = ''
before(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  assert.ok(address !== null && typeof address === 'object')
  url = `https://127.0.0.1:${address.port}`
})
after(() => {
  server.closeAllConnections()
  server.close()
})

test('HTTP over TLS with certificates of one’s own, for both sides', async () => {
  const client = createHttpClient({ url, tls: { ca: cert, cert, key }, headers: { 'X-Team': 'a' } })
  assert.deepEqual(await client.serverMetadata(), { name: 'fake', version: 'a', extensions: [] })
  assert.equal(await client.isLive(), true)
})

test('packed answers are unpacked', async () => {
  const client = createHttpClient({ url, tls: { ca: cert, cert, key }, compression: 'gzip' })
  assert.equal((await client.serverMetadata()).name, 'fake')
})

test('an unknown authority is refused, and said to be that', async () => {
  const client = createHttpClient({ url, tls: {}, retries: 0 })
  await assert.rejects(client.serverMetadata(), { code: 'UNREACHABLE', message: /self-signed certificate/ })
})

test('an aborted call rejects with its reason', async () => {
  const controller = new AbortController()
  const client = createHttpClient({ url, tls: { ca: cert, cert, key } })
  const call = client.serverMetadata({ signal: controller.signal })
  const reason = new Error('enough')
  controller.abort(reason)
  await assert.rejects(call, reason)
})
