// HTTP/1.1 on plain sockets, written for many small requests on connections that stay open. Holds the connections, their
// time limits and the way to close them all; what happens on one of them is http-connection.ts.

import net, { type AddressInfo, type Socket } from 'node:net'
import tls from 'node:tls'
import { CertificateFiles, type Certificates } from '../certificate-files.ts'
import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { TrafficMeter } from '../traffic-meter.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { HttpConnection, type ConnectionHost } from './http-connection.ts'
import { readIntoLentBuffer } from './lent-buffer-socket.ts'
import { bodyLimitBytes, type HttpOptions, type TlsOptions } from '../../ports/http/http-options.ts'
import type { HttpService } from './http-service.ts'
import { UnreadAnswers } from './unread-answers.ts'

export class NetHttpTransport implements ConnectionHost {
  readonly service: HttpService
  readonly bodyLimitBytes: number
  readonly maxHeaderBytes: number
  readonly traffic = new TrafficMeter()
  readonly #log: Log
  readonly #clock: Clock
  readonly #options: HttpOptions
  readonly #server: net.Server
  readonly #connections = new Map<Socket, HttpConnection>()
  readonly #unread: UnreadAnswers
  /** Null for plain HTTP. */
  readonly #certificates: CertificateFiles | null
  /** Over TLS: connections whose handshake is still to come. */
  readonly #handshaking = new Set<Socket>()
  #cancelSweep: Cancel | null = null
  #isDraining = false
  #closed: Promise<void> | null = null

  constructor(dependencies: { log: Log; clock: Clock }, options: HttpOptions, service: HttpService) {
    this.#log = dependencies.log.from('net-http-transport.ts')
    this.#clock = dependencies.clock
    this.#options = options
    this.service = service
    this.bodyLimitBytes = bodyLimitBytes(options)
    this.maxHeaderBytes = options.maxHeaderBytes
    this.#unread = new UnreadAnswers(dependencies, options.writeIdleTimeoutMs, () => this.#connections.keys())
    this.#certificates = options.tls === null ? null : new CertificateFiles(dependencies, options.tls)
    this.#server = this.#createServer()
    if (options.maxConnections > 0) this.#server.maxConnections = options.maxConnections
  }

  get isDraining(): boolean {
    return this.#isDraining
  }

  async listen(): Promise<{ address: string; port: number }> {
    const { address, port, reusePort } = this.#options
    if (this.#certificates !== null) {
      this.#useCertificates(await this.#certificates.read())
      this.#certificates.watch((certificates) => this.#useCertificates(certificates))
    }
    await new Promise<void>((resolve, reject) => {
      const onError = (reason: Error): void => reject(listenError(reason, address, port))
      this.#server.once('error', onError)
      this.#server.listen({ host: address, port, reusePort }, () => {
        this.#server.off('error', onError)
        this.#server.on('error', (reason) => this.#log.error('HTTP server failed', { reason: reason.message }))
        resolve()
      })
    })
    this.#unread.start()
    this.#sweepLater()
    const bound = this.#server.address() as AddressInfo
    return { address: bound.address, port: bound.port }
  }

  /** No new connections; each open one closes after its current answer. Resolves when the last one is closed. */
  drain(): Promise<void> {
    if (this.#closed !== null) return this.#closed
    this.#isDraining = true
    this.#cancelSweep?.()
    this.#closed = new Promise((resolve) => {
      this.#server.close(() => {
        this.#unread.stop()
        this.#certificates?.close()
        resolve()
      })
    })
    // A turn of the loop later: what clients had sent by now is read and answered, not cut off.
    setImmediate(() => {
      for (const connection of this.#connections.values()) connection.closeSoon()
    })
    return this.#closed
  }

  async close(): Promise<void> {
    const closed = this.drain()
    for (const connection of this.#connections.values()) connection.destroy()
    for (const socket of this.#handshaking) socket.destroy()
    await closed
  }

  onClosed(socket: Socket): void {
    this.#connections.delete(socket)
  }

  #createServer(): net.Server {
    // Half open: a client that ends its side still gets what was written for it before.
    const settings = { noDelay: true, allowHalfOpen: true }
    const { tls: tlsOptions } = this.#options
    if (tlsOptions !== null) return this.#createTlsServer(settings, tlsOptions)
    return net.createServer({ ...settings, pauseOnConnect: true }, (accepted) => this.#onAccepted(accepted))
  }

  #createTlsServer(settings: net.ServerOpts, { isMutual }: TlsOptions): tls.Server {
    const server = tls.createServer(
      {
        ...settings,
        requestCert: isMutual,
        rejectUnauthorized: isMutual,
        // A handshake is as much a client's to finish as its headers are.
        handshakeTimeout: Math.ceil(this.#options.headersTimeoutMs),
      },
      (socket) => this.#readAsItComes(socket),
    )
    server.on('connection', (socket: Socket) => {
      this.traffic.track(socket)
      this.#handshaking.add(socket)
      socket.on('close', () => this.#handshaking.delete(socket))
    })
    // A failed or unfinished handshake is the client's affair; its socket is closed.
    server.on('tlsClientError', (_reason, socket) => socket.destroy())
    return server
  }

  /** Open connections keep the certificate they were made with. */
  #useCertificates({ cert, key, ca }: Certificates): void {
    if (this.#server instanceof tls.Server) {
      this.#server.setSecureContext(ca === null ? { cert, key } : { cert, key, ca })
    }
  }

  #onAccepted(accepted: Socket): void {
    const socket = readIntoLentBuffer(accepted, (bytes) => this.#connections.get(socket as Socket)?.takeLent(bytes))
    this.traffic.track(socket ?? accepted)
    if (socket !== null) this.#hold(socket)
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
    const connection = new HttpConnection(this, socket, performance.now())
    this.#connections.set(socket, connection)
    // It may have come in while the server was being closed.
    if (this.#isDraining) connection.closeSoon()
    return connection
  }

  /** One timer for all connections: ten thousand idle ones cost a loop now and then, not a timer each. */
  #sweepLater(): void {
    const { headersTimeoutMs, bodyIdleTimeoutMs, keepAliveTimeoutMs } = this.#options
    const shortestMs = Math.min(headersTimeoutMs, bodyIdleTimeoutMs, keepAliveTimeoutMs)
    const everyMs = Math.max(10, Math.min(1000, shortestMs / 4))
    this.#cancelSweep = this.#clock.after(everyMs * 1e6, () => {
      const nowMs = performance.now()
      for (const connection of this.#connections.values()) this.#sweep(connection, nowMs - connection.sinceMs)
      this.#sweepLater()
    })
  }

  #sweep(connection: HttpConnection, forMs: number): void {
    const { headersTimeoutMs, bodyIdleTimeoutMs, keepAliveTimeoutMs } = this.#options
    switch (connection.phase) {
      case 'idle':
        if (forMs > keepAliveTimeoutMs) connection.closeSoon()
        break
      case 'head':
        if (forMs > headersTimeoutMs) connection.refuseStalled()
        break
      case 'body':
        if (forMs > bodyIdleTimeoutMs) connection.refuseStalled()
        break
      // The model takes its time and the client waits in peace.
      case 'waiting':
      default:
    }
  }
}

function listenError(reason: Error, address: string, port: number): ServerError {
  if ((reason as NodeJS.ErrnoException).code === 'EADDRINUSE') {
    const message = `HTTP port ${port} on ${address} is in use by another process; choose another with --http-port`
    return new ServerError('UNAVAILABLE', message, { cause: reason })
  }
  return new ServerError('INTERNAL', `cannot listen for HTTP on ${address}:${port}: ${messageOf(reason)}`, {
    cause: reason,
  })
}
