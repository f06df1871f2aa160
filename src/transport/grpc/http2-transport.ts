// gRPC on sockets. HTTP/2 is our own (http2/), because the events, streams and objects that node:http2 makes per call cost
// more than the rest of a small inference (bench/grpc-infer.bench.ts).

import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { ClientMemory } from '../client-memory.ts'
import type { ConnectionSlots } from '../connection-slots.ts'
import { FrameOutput } from '../http2/frame-output.ts'
import type { Http2Connection } from '../http2/http2-connection.ts'
import { readIntoLentBuffer } from '../lent-buffer-socket.ts'
import { Listener } from '../listener.ts'
import { MessageTurns } from '../message-turns.ts'
import { MistakenClients } from '../mistaken-clients.ts'
import { UnreadAnswers } from '../unread-answers.ts'
import type { TrafficMeter } from '../traffic-meter.ts'
import type { CallHandler, GrpcTransport } from './grpc-transport.ts'
import type { GrpcTransportOptions } from './grpc-transport-options.ts'
import { ServedConnection, type ConnectionHost } from './served-connection.ts'

const socketOptions = { noDelay: true } as const
const handshakeTimeoutMs = 10_000

type Http2TransportDependencies = {
  readonly clock: Clock
  readonly log: Log
  /** What is held for the clients of all ports; without one the port has a budget of its own. */
  readonly clientMemory?: ClientMemory
  /** Left out: as many connections as the system gives. */
  readonly connectionSlots?: ConnectionSlots
  /** Where HTTP is served, for clients that mistake this port for that one. */
  readonly otherPort?: () => number | null
}

export class Http2Transport implements GrpcTransport, ConnectionHost {
  readonly clock: Clock
  readonly options: GrpcTransportOptions
  readonly clientMemory: ClientMemory
  readonly handle: CallHandler
  readonly mistaken: MistakenClients
  readonly turns: MessageTurns
  readonly #listener: Listener<ServedConnection>
  readonly #output = new FrameOutput()
  readonly #unread: UnreadAnswers
  #cancelSweep: Cancel | null = null
  #unflushed: Http2Connection[] = []

  constructor(dependencies: Http2TransportDependencies, options: GrpcTransportOptions, handle: CallHandler) {
    this.clock = dependencies.clock
    this.options = options
    this.handle = handle
    this.mistaken = new MistakenClients(dependencies.log, 'gRPC', dependencies.otherPort)
    this.clientMemory = dependencies.clientMemory ?? new ClientMemory()
    this.turns = new MessageTurns({ clock: this.clock, memory: this.clientMemory })
    this.#listener = new Listener(dependencies, options, {
      plainSockets: { ...socketOptions, pauseOnConnect: true },
      tlsSockets: { ...socketOptions, ALPNProtocols: ['h2'], handshakeTimeout: handshakeTimeoutMs },
      maxConnections: options.maxConnections,
      onSocket: options.tls === null ? (socket) => this.#onAccepted(socket) : (socket) => this.#onSecure(socket),
      cannotListen: (reason) => listenError(reason, options),
    })
    const { connections } = this.#listener
    this.#unread = new UnreadAnswers(dependencies, options.writeIdleTimeoutMs, () => connections.keys())
  }

  get traffic(): TrafficMeter {
    return this.#listener.traffic
  }

  async listen(): Promise<{ address: string; port: number }> {
    const at = await this.#listener.listen()
    this.#unread.start()
    this.#sweepLater()
    return at
  }

  /** The time limits of calls stay in force until the last one has ended. */
  async drain(): Promise<void> {
    await this.#listener.drain()
    this.#unread.stop()
    this.#cancelSweep?.()
    this.turns.stop()
  }

  async close(): Promise<void> {
    await Promise.all([this.drain(), this.#listener.close()])
  }

  /** One timer for all connections and calls. */
  #sweepLater(): void {
    const { writeIdleTimeoutMs, bodyIdleTimeoutMs, idleTimeoutMs } = this.options
    const everyMs = Math.max(10, Math.min(1000, writeIdleTimeoutMs / 4, bodyIdleTimeoutMs / 4, idleTimeoutMs / 4))
    this.#cancelSweep = this.clock.after(everyMs * 1e6, () => {
      const nowNs = this.clock.nowNs()
      this.clientMemory.bodies.sweep(nowNs)
      for (const connection of this.#listener.connections.values()) connection.sweep(nowNs)
      this.#sweepLater()
    })
  }

  #onAccepted(accepted: Socket): void {
    let connection: ServedConnection | null = null
    const socket = readIntoLentBuffer(accepted, () => connection?.connection ?? null)
    if (socket !== null) connection = this.#hold(socket)
    else {
      this.#readAsItComes(accepted)
      accepted.resume()
    }
  }

  #onSecure(socket: Socket): void {
    // HTTP/2 over TLS is agreed upon in the handshake (RFC 9113, 3.2).
    const isForeign = socket instanceof TLSSocket && socket.alpnProtocol !== 'h2'
    if (isForeign) socket.on('error', () => undefined).destroy()
    else this.#readAsItComes(socket)
  }

  #readAsItComes(socket: Socket): void {
    const { connection } = this.#hold(socket)
    socket.on('data', (chunk: Buffer) => connection.takeLent(chunk))
  }

  #hold(socket: Socket): ServedConnection {
    const served = new ServedConnection(this, socket)
    this.#listener.hold(socket, served)
    return served
  }

  flushSoon(connection: Http2Connection): void {
    this.#unflushed.push(connection)
    if (this.#unflushed.length === 1) setImmediate(this.#flush)
  }

  /** HOT: once per read of a socket. */
  flushNow(connection: Http2Connection): void {
    connection.flush(this.#output)
  }

  /** HOT: once per turn of the event loop, after everything that arrived in it was read. */
  readonly #flush = (): void => {
    const connections = this.#unflushed
    this.#unflushed = []
    for (let i = 0; i < connections.length; i++) (connections[i] as Http2Connection).flush(this.#output)
  }
}

function listenError(cause: Error, { address, port }: GrpcTransportOptions): ServerError {
  return new ServerError('UNAVAILABLE', `failed to listen at ${address}:${port}: ${messageOf(cause)}`, { cause })
}
