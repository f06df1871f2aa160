// gRPC on sockets. HTTP/2 is our own (http2/), because the events, streams and objects that node:http2 makes per call cost
// more than the rest of a small inference (bench/grpc-infer.bench.ts).

import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { FrameOutput } from '../http2/frame-output.ts'
import type { Http2Connection } from '../http2/http2-connection.ts'
import { Listener } from '../listener.ts'
import type { TrafficMeter } from '../traffic-meter.ts'
import type { CallHandler, GrpcTransport } from './grpc-transport.ts'
import type { GrpcTransportOptions } from './grpc-transport-options.ts'
import { MessageInflater } from './message-compression.ts'
import { ServedConnection, type ConnectionHost } from './served-connection.ts'

const socketOptions = { noDelay: true } as const
const handshakeTimeoutMs = 10_000

export class Http2Transport implements GrpcTransport, ConnectionHost {
  readonly clock: Clock
  readonly options: GrpcTransportOptions
  readonly inflater: MessageInflater
  readonly handle: CallHandler
  readonly #listener: Listener<ServedConnection>
  readonly #output = new FrameOutput()
  #unflushed: Http2Connection[] = []

  constructor(dependencies: { clock: Clock; log: Log }, options: GrpcTransportOptions, handle: CallHandler) {
    this.clock = dependencies.clock
    this.options = options
    this.handle = handle
    this.inflater = new MessageInflater()
    this.#listener = new Listener(dependencies, options, {
      plainSockets: socketOptions,
      tlsSockets: { ...socketOptions, ALPNProtocols: ['h2'], handshakeTimeout: handshakeTimeoutMs },
      maxConnections: 0,
      onSocket: (socket) => this.#onSocket(socket),
      cannotListen: (reason) => listenError(reason, options),
    })
  }

  get traffic(): TrafficMeter {
    return this.#listener.traffic
  }

  listen(): Promise<{ address: string; port: number }> {
    return this.#listener.listen()
  }

  drain(): Promise<void> {
    return this.#listener.drain()
  }

  close(): Promise<void> {
    return this.#listener.close()
  }

  #onSocket(socket: Socket): void {
    // HTTP/2 over TLS is agreed upon in the handshake (RFC 9113, 3.2).
    const isForeign = socket instanceof TLSSocket && socket.alpnProtocol !== 'h2'
    if (isForeign) socket.on('error', () => undefined).destroy()
    else this.#listener.hold(socket, new ServedConnection(this, socket))
  }

  flushSoon(connection: Http2Connection): void {
    this.#unflushed.push(connection)
    if (this.#unflushed.length === 1) setImmediate(this.#flush)
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
