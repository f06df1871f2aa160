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

type PortUnderTest = {
  /** Pinned memory for one body, while nobody has it. */
  readonly free: readonly Buffer[]
  readonly clientMemory: ClientMemory
  /** Announces a body, and sends so many bytes of it. */
  readonly begin: (announced: number, sent: number) => Promise<Socket>
}

/** Says the first byte and the length of the body. */
function answer(request: HttpRequest): void {
  const { body } = request
  request.respond(new HttpResponse(200, jsonType, [Buffer.from(`[${body[0]},${body.length}]`)]))
  request.memory.reuse(body)
}

async function startPort(t: TestContext, { limitBytes }: { limitBytes: number }): Promise<PortUnderTest> {
  const memory = Buffer.alloc(4 * mib)
  const free = [memory]
  const clientMemory = new ClientMemory(limitBytes, {
    limitBytes: Infinity,
    usedBytes: 0,
    take: () => free.pop() ?? null,
    giveBack: (given) => given === memory.buffer && free.push(memory) > 0,
  })
  const refuse = (): HttpResponse => new HttpResponse(503, jsonType, [Buffer.from('{}')], { closesConnection: true })
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
    },
    {
      admit: () => null,
      handle: answer,
      noteFault: (_, reason) => assert.fail(String(reason)),
      refuseBody: refuse,
      refuseMemory: refuse,
      refuseStalledBody: refuse,
      refuseHead: refuse,
      refuseMalformed: refuse,
    },
  )
  const { port } = await transport.listen()
  const sockets: Socket[] = []
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    return transport.close()
  })
  const begin = async (announced: number, sent: number): Promise<Socket> => {
    const socket = connect({ port, host: '127.0.0.1' })
    sockets.push(socket)
    // A server that refuses closes while the client still sends.
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    socket.write(`POST / HTTP/1.1\r\nContent-Length: ${announced}\r\n\r\n`)
    if (sent > 0) socket.write(Buffer.alloc(sent, 1))
    return socket
  }
  return { free, clientMemory, begin }
}

const textOf = async (socket: Socket): Promise<string> => String((await once(socket, 'data'))[0])

test('half a body whose client goes away leaves its memory to the next one', async (t) => {
  const { free, clientMemory, begin } = await startPort(t, { limitBytes: 64 * mib })
  const socket = await begin(4 * mib, 2 * mib)
  await until(() => clientMemory.requestBytes === 2 * mib, 'half a body')
  assert.equal(free.length, 0)
  socket.destroy()
  await until(() => free.length === 1, 'the memory')
  assert.equal(clientMemory.requestBytes, 0)
  assert.match(await textOf(await begin(4 * mib, 4 * mib)), /\r\n\r\n\[1,4194304\]$/)
  assert.equal(free.length, 1)
})

test('a body that finds no more room half way leaves its memory to the next one', async (t) => {
  const { free, clientMemory, begin } = await startPort(t, { limitBytes: 8 * mib })
  const socket = await begin(4 * mib, 2 * mib)
  await until(() => clientMemory.requestBytes === 2 * mib, 'half a body')
  // Somebody else takes the rest.
  clientMemory.requestBytes += 4 * mib
  socket.write(Buffer.alloc(2 * mib, 1))
  assert.match(await textOf(socket), /^HTTP\/1.1 503 /)
  await until(() => free.length === 1, 'the memory')
})
