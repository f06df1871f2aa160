// Clients that send more large messages over gRPC than the server can read. The server reads so many bytes in each tick and no more, and its
// model answers two ticks later. What it answers is counted, and no clock is looked at.

import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { duplexPair, type Duplex } from 'node:stream'
import { test } from 'node:test'
import { turnBudget } from '../../src/base/turn-budget.ts'
import { defaultOptions } from '../../src/options/options-from-flags.ts'
import { ClientMemory } from '../../src/transport/client-memory.ts'
import type { GrpcCall } from '../../src/transport/grpc/grpc-transport.ts'
import { ServedConnection, type ConnectionHost } from '../../src/transport/grpc/served-connection.ts'
import { FrameOutput } from '../../src/transport/http2/frame-output.ts'
import type { Http2Connection } from '../../src/transport/http2/http2-connection.ts'
import { MessageTurns } from '../../src/transport/message-turns.ts'
import { MistakenClients } from '../../src/transport/mistaken-clients.ts'
import { silentLog } from '../../src/base/log.ts'
import { InterleavingGrpcClient } from '../fakes/interleaving-grpc-client.ts'
import { ManualClock } from '../fakes/manual-clock.ts'

const kib = 1024
const messageBytes = 512 * kib
/** Not enough for the whole backlog. */
const budgetBytes = 256 * 1024 * kib
/** In these the server reads what clients send before they hear of smaller windows, and the beginnings of all messages. */
const firstTicks = 75
const countedTicks = 60
const readPerTick = 1024 * kib
const chunkBytes = 64 * kib
const tickMs = 1
const modelTicks = 2
/** Messages that the server can read in a tick. */
const peak = readPerTick / messageBytes

class SimulatedServer {
  readonly clock = new ManualClock()
  readonly memory = new ClientMemory(budgetBytes)
  readonly counts = { ok: 0, refused: 0 }
  readonly clients: readonly InterleavingGrpcClient[]
  readonly #served: { readonly connection: Http2Connection; readonly socket: Duplex }[] = []
  readonly #answers: (() => void)[][] = []

  constructor(connections: number) {
    const output = new FrameOutput()
    const flush = (connection: Http2Connection): void => connection.flush(output)
    const host: ConnectionHost = {
      clock: this.clock,
      options: defaultOptions().grpc,
      clientMemory: this.memory,
      turns: new MessageTurns({ clock: this.clock, memory: this.memory }),
      handle: (call) => this.#handle(call),
      mistaken: new MistakenClients(silentLog, 'gRPC'),
      flushSoon: (connection) => setImmediate(flush, connection),
      flushNow: flush,
    }
    this.clients = Array.from({ length: connections }, () => {
      const [near, far] = duplexPair({ highWaterMark: 1024 * kib })
      this.#served.push({ connection: new ServedConnection(host, far as unknown as Socket).connection, socket: far })
      return new InterleavingGrpcClient(near, Buffer.alloc(messageBytes), (status) => {
        if (status === '0') this.counts.ok++
        else this.counts.refused++
      })
    })
  }

  #handle(call: GrpcCall): void {
    call.allowLargeMessages()
    call.onMessage = () => {
      const answer = Buffer.alloc(8)
      this.#answers[modelTicks]?.push(() => call.sendLast({ parts: [answer], byteLength: answer.length }, null))
    }
  }

  async tick(): Promise<void> {
    while (this.#answers.length <= modelTicks) this.#answers.push([])
    for (const answer of this.#answers.shift() ?? []) answer()
    this.#answers.push([])
    let left = readPerTick
    for (let isAny = true; isAny && left > 0;) {
      isAny = false
      for (const { connection, socket } of this.#served) {
        const chunk = (socket.read(Math.min(chunkBytes, socket.readableLength)) ?? null) as Buffer | null
        if (chunk === null) continue
        isAny = true
        left -= chunk.length
        connection.takeLent(chunk)
        await new Promise((resolve) => turnBudget.whenRenewed(() => resolve(null)))
      }
    }
    this.clock.advanceMs(tickMs)
    await new Promise(setImmediate)
  }

  close(): void {
    for (const { connection } of this.#served) connection.destroy()
  }
}

test('a backlog of hundreds of messages is answered as fast as the server can read, and nothing is refused', async () => {
  const server = new SimulatedServer(2)
  for (const client of server.clients) for (let i = 0; i < 300; i++) client.ask(0)
  for (let tick = 0; tick < firstTicks; tick++) await server.tick()
  const okBefore = server.counts.ok
  for (let tick = 0; tick < countedTicks; tick++) await server.tick()
  const share = (server.counts.ok - okBefore) / (countedTicks * peak)
  server.close()
  assert.equal(server.counts.refused, 0)
  assert.ok(share > 0.9, `${share} of what the server can read`)
})
