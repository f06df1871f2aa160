import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import { until } from '../../../test/until.ts'
import { SystemClock } from '../../base/clock.ts'
import { ServerError } from '../../base/server-error.ts'
import { ClientMemory } from '../client-memory.ts'
import { HttpResponse, jsonType, type HttpRequest } from './http-message.ts'
import { NetHttpTransport } from './net-http-transport.ts'

const mib = 1024 * 1024

/** Pinned memory for one body, and a port that answers with the first byte and the length of each body. */
async function portWithOneBuffer(t: TestContext, limitBytes: number) {
  const memory = Buffer.alloc(4 * mib)
  const free = [memory]
  const clientMemory = new ClientMemory(limitBytes, {
    take: () => free.pop() ?? null,
    giveBack: (given) => given === memory.buffer && free.push(memory) > 0,
  })
  const answer = (status: number, text: string): HttpResponse => new HttpResponse(status, jsonType, [Buffer.from(text)])
  const refuse = (): HttpResponse => answer(503, '{}')
  const transport = new NetHttpTransport(
    {
      log: new MemoryLog(),
      clock: new SystemClock(),
      clientMemory,
      cannotListen: (reason) => new ServerError('INTERNAL', String(reason)),
    },
    {
      address: '127.0.0.1',
      port: 0,
      reusePort: false,
      tls: null,
      bodyLimitBytes: 4 * mib,
      headersTimeoutMs: 10_000,
      bodyIdleTimeoutMs: 10_000,
      leastBodyRate: 0,
      writeIdleTimeoutMs: 10_000,
      keepAliveTimeoutMs: 10_000,
      maxConnections: 0,
      maxHeaderBytes: 4096,
    } as never,
    {
      admit: () => null,
      handle: (request: HttpRequest) => {
        const { body } = request
        request.respond(answer(200, `[${body[0]},${body.length}]`))
        request.memory.reuse(body)
      },
      refuseBody: refuse,
      refuseMemory: refuse,
      refuseStalledBody: refuse,
      refuseHead: refuse,
    },
  )
  const { port } = await transport.listen()
  t.after(() => transport.close())
  const begin = async (bytes: number): Promise<Socket> => {
    const socket = connect({ port, host: '127.0.0.1' })
    await once(socket, 'connect')
    socket.write(`POST / HTTP/1.1\r\nContent-Length: ${4 * mib}\r\n\r\n`)
    socket.write(Buffer.alloc(bytes, 1))
    return socket
  }
  return { free, clientMemory, begin }
}

test('half a body whose client goes away leaves its memory to the next one', async (t) => {
  const { free, clientMemory, begin } = await portWithOneBuffer(t, 64 * mib)
  const socket = await begin(2 * mib)
  await until(() => clientMemory.requestBytes === 2 * mib, 'half a body')
  assert.equal(free.length, 0)
  socket.destroy()
  await until(() => free.length === 1, 'the memory')
  assert.equal(clientMemory.requestBytes, 0)
  const next = await begin(4 * mib)
  const [text] = (await once(next, 'data')) as [Buffer]
  assert.match(text.toString(), /\r\n\r\n\[1,4194304\]$/)
  assert.equal(free.length, 1)
  next.destroy()
})

test('a body that finds no more room half way leaves its memory to the next one', async (t) => {
  const { free, clientMemory, begin } = await portWithOneBuffer(t, 8 * mib)
  const socket = await begin(2 * mib)
  await until(() => clientMemory.requestBytes === 2 * mib, 'half a body')
  // Somebody else takes the rest.
  clientMemory.requestBytes += 4 * mib
  socket.write(Buffer.alloc(2 * mib, 1))
  const [text] = (await once(socket, 'data')) as [Buffer]
  assert.match(text.toString(), /^HTTP\/1.1 503 /)
  await until(() => free.length === 1, 'the memory')
  socket.destroy()
})
