import assert from 'node:assert/strict'
import { once } from 'node:events'
import net, { type AddressInfo, type Socket } from 'node:net'
import { test } from 'node:test'
import { readIntoLentBuffer } from './lent-buffer-socket.ts'

type Echo = {
  readonly server: net.Server
  readonly port: number
  readonly sockets: Socket[]
  readonly closed: Promise<unknown>
}

/** A server that says back what it hears, and ends when its client does. */
async function startEcho(onBytes: (bytes: Buffer, socket: Socket) => void): Promise<Echo> {
  const sockets: Socket[] = []
  const server = net.createServer({ pauseOnConnect: true, allowHalfOpen: true }, (accepted) => {
    const socket = readIntoLentBuffer(accepted, () => ({
      takeLent: (bytes) => onBytes(bytes, sockets[index] as Socket),
      target: () => null,
    }))
    assert.ok(socket !== null, 'this runtime lets a connection change hands')
    const index = sockets.push(socket) - 1
    socket.on('end', () => socket.end())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, port: (server.address() as AddressInfo).port, sockets, closed: once(server, 'close') }
}

async function readAll(socket: Socket): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of socket) parts.push(part as Buffer)
  return Buffer.concat(parts)
}

const pattern = (byteLength: number, seed: number): Buffer =>
  Buffer.from(Uint8Array.from({ length: byteLength }, (_, i) => (i * seed + (i >> 8)) % 251))

test('bytes of many connections arrive whole and apart, and the server closes after the last of them', async () => {
  const echo = await startEcho((bytes, socket) => socket.write(Buffer.from(bytes)))
  const clients = await Promise.all(
    Array.from({ length: 20 }, async (_, i) => {
      const sent = pattern(300_000, i + 1)
      const client = net.connect(echo.port, '127.0.0.1')
      client.end(sent)
      return { sent, received: await readAll(client) }
    }),
  )
  for (const { sent, received } of clients) assert.ok(sent.equals(received))
  assert.equal(
    echo.sockets.reduce((sum, socket) => sum + socket.bytesRead, 0),
    20 * 300_000,
  )
  echo.server.close()
  await echo.closed
})

test('a paused connection is not read, and goes on where it stopped', async () => {
  let heard = 0
  let wake = (): void => undefined
  const firstHeard = new Promise<void>((resolve) => (wake = resolve))
  const echo = await startEcho((bytes, socket) => {
    heard += bytes.length
    socket.pause()
    wake()
  })
  const sent = pattern(2_000_000, 7)
  const client = net.connect(echo.port, '127.0.0.1')
  client.end(sent)
  await firstHeard
  // Another connection is served meanwhile, so there was time for more.
  const heardThen = heard
  const other = net.connect(echo.port, '127.0.0.1')
  other.write('x')
  await once(echo.server, 'connection')
  assert.equal(heard - heardThen <= 1, true)
  const [socket] = echo.sockets as [Socket]
  const ended = once(socket, 'end')
  const pump = setInterval(() => echo.sockets.forEach((each) => each.resume()), 0)
  other.end()
  await ended
  clearInterval(pump)
  assert.equal(heard, sent.length + 1)
  client.destroy()
  other.destroy()
  echo.server.close()
  await echo.closed
})

test('a connection that the server destroys is gone from its count', async () => {
  const echo = await startEcho((_bytes, socket) => socket.destroy())
  const client = net.connect(echo.port, '127.0.0.1')
  client.on('error', () => undefined)
  client.write('x')
  await once(client, 'close')
  echo.server.close()
  await echo.closed
})
