// HTTP/1.1 on plain sockets, written for many small requests on connections that stay open. Holds the connections and
// their time limits; http-connection.ts serves one of them.

import type { Socket } from 'node:net'

import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { ServerError } from '../../base/server-error.ts'
import { ClientMemory } from '../client-memory.ts'
import type { ConnectionSlots } from '../connection-slots.ts'
import { readIntoLentBuffer } from '../lent-buffer-socket.ts'
import { Listener } from '../listener.ts'
import { MistakenClients } from '../mistaken-clients.ts'
import type { TrafficMeter } from '../traffic-meter.ts'
import { HttpConnection, type ConnectionHost } from './http-connection.ts'
import type { HttpService } from './http-service.ts'
import type { HttpTransportOptions } from './http-transport-options.ts'
import { UnreadAnswers } from '../unread-answers.ts'

export type HttpTransportDependencies = {
  readonly log: Log
  readonly clock: Clock
  /** What is held for the clients of all ports; without one the port has a budget of its own. */
  readonly clientMemory?: ClientMemory
  /** Left out: as many connections as the system gives. */
  readonly connectionSlots?: ConnectionSlots
  /** The error of `listen` when the system does not give the port. */
  readonly cannotListen: (reason: Error) => ServerError
  /** Where gRPC is served, for clients that mistake this port for that one. */
  readonly otherPort?: () => number | null
}

/** Half open: a client that ends its side still gets what was written for it before. */
const socketOptions = { noDelay: true, allowHalfOpen: true } as const

export class NetHttpTransport implements ConnectionHost {
  readonly clock: Clock
  readonly service: HttpService
  readonly clientMemory: ClientMemory
  readonly mistaken: MistakenClients
  readonly bodyLimitBytes: number
  readonly maxHeaderBytes: number
  readonly leastBodyBytes: number
  readonly #options: HttpTransportOptions
  readonly #listener: Listener<HttpConnection>
  readonly #unread: UnreadAnswers
  #cancelSweep: Cancel | null = null

  constructor(dependencies: HttpTransportDependencies, options: HttpTransportOptions, service: HttpService) {
    this.clock = dependencies.clock
    this.#options = options
    this.service = service
    this.clientMemory = dependencies.clientMemory ?? new ClientMemory()
    this.mistaken = new MistakenClients(dependencies.log, 'HTTP', dependencies.otherPort)
    this.bodyLimitBytes = options.bodyLimitBytes
    this.maxHeaderBytes = options.maxHeaderBytes
    this.leastBodyBytes = Math.max(1, (options.leastBodyRate * options.bodyIdleTimeoutMs) / 1000)
    this.#listener = new Listener(dependencies, options, {
      plainSockets: { ...socketOptions, pauseOnConnect: true },
      // A client has as long for the handshake as for its headers.
      tlsSockets: { ...socketOptions, handshakeTimeout: Math.ceil(options.headersTimeoutMs) },
      maxConnections: options.maxConnections,
      onSocket: options.tls === null ? (socket) => this.#onAccepted(socket) : (socket) => this.#readAsItComes(socket),
      cannotListen: dependencies.cannotListen,
    })
    const { connections } = this.#listener
    this.#unread = new UnreadAnswers(dependencies, options.writeIdleTimeoutMs, () => connections.keys())
  }

  get traffic(): TrafficMeter {
    return this.#listener.traffic
  }

  get isDraining(): boolean {
    return this.#listener.isDraining
  }

  async listen(): Promise<{ address: string; port: number }> {
    const at = await this.#listener.listen()
    this.#unread.start()
    this.#sweepLater()
    return at
  }

  /** No new connections; each open one closes after its current answer. Resolves when the last one is closed. */
  async drain(): Promise<void> {
    this.#cancelSweep?.()
    await this.#listener.drain()
    this.#unread.stop()
  }

  async close(): Promise<void> {
    await Promise.all([this.drain(), this.#listener.close()])
  }

  #onAccepted(accepted: Socket): void {
    let connection: HttpConnection | null = null
    const socket = readIntoLentBuffer(accepted, () => connection)
    if (socket !== null) connection = this.#hold(socket)
    else {
      this.#readAsItComes(accepted)
      accepted.resume()
    }
  }

  #readAsItComes(socket: Socket): void {
    const connection = this.#hold(socket)
    socket.on('data', (data: Buffer) => connection.take(data))
  }

  #hold(socket: Socket): HttpConnection {
    const connection = new HttpConnection(this, socket)
    this.#listener.hold(socket, connection)
    return connection
  }

  /** One timer for all connections: ten thousand idle connections cost a short loop, not a timer each. */
  #sweepLater(): void {
    const { headersTimeoutMs, bodyIdleTimeoutMs, keepAliveTimeoutMs } = this.#options
    const shortestMs = Math.min(headersTimeoutMs, bodyIdleTimeoutMs, keepAliveTimeoutMs)
    const everyMs = Math.max(10, Math.min(1000, shortestMs / 4))
    this.#cancelSweep = this.clock.after(everyMs * 1e6, () => {
      const nowNs = this.clock.nowNs()
      this.clientMemory.bodies.sweep(nowNs)
      for (const connection of this.#listener.connections.values()) {
        connection.countUnread()
        this.#sweep(connection, (nowNs - connection.sinceNs) / 1e6)
      }
      this.#sweepLater()
    })
  }

  #sweep(connection: HttpConnection, forMs: number): void {
    const { headersTimeoutMs, bodyIdleTimeoutMs, keepAliveTimeoutMs } = this.#options
    switch (connection.phase) {
      case 'idle':
        if (forMs > keepAliveTimeoutMs) connection.leave()
        break
      case 'head':
        if (forMs > headersTimeoutMs) connection.refuseStalled()
        break
      case 'body':
        if (forMs > bodyIdleTimeoutMs) connection.refuseStalled()
        break
      // The client waits for the model: no time limit of HTTP applies.
      case 'waiting':
      default:
    }
  }
}
