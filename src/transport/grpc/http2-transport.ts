// gRPC on sockets: listens, with or without TLS, and holds the connections. HTTP/2 is our own (http2/): what node:http2
// spends on events, streams and objects per call is most of a small inference. bench/grpc-infer.bench.ts

import { once } from 'node:events'
import net, { type AddressInfo, type Socket } from 'node:net'
import tls from 'node:tls'

import { CertificateFiles, type Certificates } from '../certificate-files.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { TrafficMeter } from '../traffic-meter.ts'
import type { GrpcOptions, GrpcTls } from '../../ports/grpc/grpc-options.ts'
import type { CallHandler, GrpcTransport } from './grpc-transport.ts'
import { FrameOutput } from '../http2/frame-output.ts'
import type { Http2Connection } from '../http2/http2-connection.ts'
import { MessageInflater } from './message-compression.ts'
import { ServedConnection, type ConnectionHost } from './served-connection.ts'

const socketOptions = { noDelay: true } as const
const handshakeTimeoutMs = 10_000

export class Http2Transport implements GrpcTransport, ConnectionHost {
  readonly clock: Clock
  readonly options: GrpcOptions
  readonly inflater: MessageInflater
  readonly handle: CallHandler
  readonly traffic = new TrafficMeter()
  readonly #log: Log
  readonly #connections = new Set<ServedConnection>()
  /** Over TLS: connections whose handshake is still to come. */
  readonly #handshaking = new Set<Socket>()
  readonly #output = new FrameOutput()
  #unflushed: Http2Connection[] = []
  #server: net.Server | null = null
  #certificates: CertificateFiles | null = null
  #isLeaving = false
  #idle: (() => void) | null = null

  constructor(dependencies: { clock: Clock; log: Log }, options: GrpcOptions, handle: CallHandler) {
    this.clock = dependencies.clock
    this.#log = dependencies.log.from('http2-transport.ts')
    this.options = options
    this.handle = handle
    this.inflater = new MessageInflater(options.maxMessageBytes)
  }

  async listen(): Promise<{ address: string; port: number }> {
    const { address, port, reusePort } = this.options
    const server = await this.#createServer()
    this.#server = server
    server.on('connection', (socket: Socket) => this.traffic.track(socket))
    try {
      server.listen({ host: address, port, ...(reusePort ? { reusePort } : {}) })
      await once(server, 'listening')
    } catch (reason) {
      throw new ServerError('UNAVAILABLE', `failed to listen at ${address}:${port}: ${messageOf(reason)}`, {
        cause: reason,
      })
    }
    server.on('error', (reason) => this.#log.error('gRPC listener failed', { reason: messageOf(reason) }))
    const bound = server.address() as AddressInfo
    return { address: bound.address, port: bound.port }
  }

  async #createServer(): Promise<net.Server> {
    const { tls: tlsOptions } = this.options
    if (tlsOptions === null) return net.createServer(socketOptions, (socket) => this.#onSocket(socket))
    const files = new CertificateFiles({ clock: this.clock, log: this.#log }, tlsOptions)
    const server = this.#createTlsServer(tlsOptions, secureContextOf(await files.read()))
    // Open connections keep the certificate they were made with.
    files.watch((certificates) => server.setSecureContext(secureContextOf(certificates)))
    this.#certificates = files
    return server
  }

  #createTlsServer({ isMutual }: GrpcTls, context: tls.SecureContextOptions): tls.Server {
    const server = tls.createServer({
      ...socketOptions,
      ...context,
      ALPNProtocols: ['h2'],
      requestCert: isMutual,
      rejectUnauthorized: isMutual,
      handshakeTimeout: handshakeTimeoutMs,
    })
    server.on('connection', (socket) => {
      this.#handshaking.add(socket)
      socket.on('close', () => this.#handshaking.delete(socket))
    })
    server.on('secureConnection', (socket) => {
      // HTTP/2 over TLS is agreed upon in the handshake (RFC 9113, 3.2).
      if (socket.alpnProtocol === 'h2') this.#onSocket(socket)
      else socket.on('error', () => undefined).destroy()
    })
    // A failed or unfinished handshake is the client's affair; its socket is closed.
    server.on('tlsClientError', (_reason, socket) => socket.destroy())
    return server
  }

  #onSocket(socket: Socket): void {
    const connection = new ServedConnection(this, socket)
    this.#connections.add(connection)
    // It may have come in while the server was being closed.
    if (this.#isLeaving) connection.leave()
  }

  onClosed(connection: ServedConnection): void {
    this.#connections.delete(connection)
    if (this.#connections.size === 0) this.#idle?.()
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

  async drain(): Promise<void> {
    this.#stopListening()
    for (const connection of this.#connections) connection.leave()
    if (this.#connections.size === 0) return
    await new Promise<void>((resolve) => {
      this.#idle = resolve
    })
  }

  #stopListening(): void {
    this.#isLeaving = true
    if (this.#server?.listening === true) this.#server.close()
    this.#certificates?.close()
  }

  close(): Promise<void> {
    this.#stopListening()
    for (const connection of this.#connections) connection.destroy()
    for (const socket of this.#handshaking) socket.destroy()
    return Promise.resolve()
  }
}

const secureContextOf = ({ cert, key, ca }: Certificates): tls.SecureContextOptions =>
  ca === null ? { cert, key } : { cert, key, ca }
