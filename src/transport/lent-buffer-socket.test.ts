import assert from 'node:assert/strict'
import { once } from 'node:events'
import net, { type AddressInfo, type Socket } from 'node:net'
import { test } from 'node:test'
import { isInPlace, leastDirectBytes, readIntoLentBuffer, type LentBytesReader } from './lent-buffer-socket.ts'

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
      isInLargeBody: () => false,
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

const bodyBytes = 16 * 1024 * 1024

/** One body, of which all but the first bytes are read to their place. */
class BodyReader implements LentBytesReader {
  readonly bytes = Buffer.alloc(bodyBytes)
  readonly #onWhole: () => void
  length = 0

  constructor(onWhole: () => void) {
    this.#onWhole = onWhole
  }

  takeLent(bytes: Buffer): void {
    if (!isInPlace(bytes, this.bytes, this.length)) bytes.copy(this.bytes, this.length)
    this.length += bytes.length
    if (this.length === bodyBytes) this.#onWhole()
  }

  target(): Buffer | null {
    return bodyBytes - this.length < leastDirectBytes ? null : this.bytes.subarray(this.length)
  }

  isInLargeBody(): boolean {
    return this.target() !== null
  }
}

test('large bodies that arrive together are whole one after the other, also beside one that stops in the middle', async () => {
  const readers: BodyReader[] = []
  const whole: BodyReader[] = []
  const halves: number[] = []
  let wake = (): void => undefined
  const allWhole = new Promise<void>((resolve) => (wake = resolve))
  const server = net.createServer({ pauseOnConnect: true, allowHalfOpen: true }, (accepted) => {
    const reader = new BodyReader(() => {
      halves.push(readers.filter(({ length }) => length > bodyBytes / 2 && length < bodyBytes).length)
      whole.push(reader)
      if (whole.length === 6) wake()
    })
    readers.push(reader)
    const socket = readIntoLentBuffer(accepted, () => reader)
    assert.ok(socket !== null)
    socket.on('end', () => socket.destroy())
    socket.on('error', () => undefined)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const stopped = net.connect(port, '127.0.0.1')
  stopped.write(Buffer.alloc(bodyBytes / 4))
  const sent = Array.from({ length: 6 }, (_, i) => Buffer.alloc(bodyBytes, pattern(4099, i + 1)))
  const clients = sent.map((bytes) => {
    const client = net.connect(port, '127.0.0.1')
    client.write(bytes)
    return client
  })
  await allWhole
  // Read by turns, four or five others are more than half there when the first is whole.
  assert.ok(
    halves.every((count) => count <= 1),
    `others that were more than half there: ${halves.join(' ')}`,
  )
  for (const each of sent) assert.equal(whole.filter(({ bytes }) => bytes.equals(each)).length, 1)
  for (const client of [stopped, ...clients]) client.destroy()
  server.close()
  await once(server, 'close')
})

test('a client that sends without end has the event loop for a bounded piece of what it sends', async () => {
  let [heard, inThisTurn, mostInOneTurn] = [0, 0, 0]
  const echo = await startEcho((bytes) => {
    heard += bytes.length
    if (inThisTurn === 0) setImmediate(() => (inThisTurn = 0))
    inThisTurn += bytes.length
    mostInOneTurn = Math.max(mostInOneTurn, inThisTurn)
  })
  const sent = pattern(8_000_000, 3)
  await Promise.all(
    Array.from({ length: 3 }, async () => {
      const client = net.connect(echo.port, '127.0.0.1')
      client.end(sent)
      await readAll(client)
    }),
  )
  echo.server.close()
  await echo.closed
  assert.equal(heard, 3 * sent.length)
  // What was begun below the bound is read to its end.
  assert.ok(mostInOneTurn <= 1024 * 1024 + 3 * 64 * 1024, `${mostInOneTurn} bytes were read in one turn`)
})
