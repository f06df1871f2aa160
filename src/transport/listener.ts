// Listens on one port, with or without TLS, and holds its connections until the last of them has gone.

import { once } from 'node:events'
import { rm, stat } from 'node:fs/promises'
import net, { type AddressInfo, type Socket } from 'node:net'
import tls from 'node:tls'

import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf, type ServerError } from '../base/server-error.ts'
import { CertificateFiles, type CertificatePaths, type Certificates } from './certificate-files.ts'
import type { ConnectionSlots } from './connection-slots.ts'
import { TrafficMeter } from './traffic-meter.ts'

/** PEM files, read again when they change. */
export type TlsOptions = CertificatePaths & {
  /** Clients must show a certificate that the root signed. */
  readonly isMutual: boolean
}

export type ListenOptions = {
  readonly address: string
  /** 0 lets the system choose one. */
  readonly port: number
  /** Several processes may listen on the port. */
  readonly reusePort: boolean
  /** Null: no TLS. */
  readonly tls: TlsOptions | null
}

/** The path of a UNIX socket to listen on beside the port; '' or left out: none. */
type SocketOptions = { readonly socketPath?: string }

/** What differs between the protocols. */
type ListenerSettings = {
  readonly plainSockets: net.ServerOpts
  readonly tlsSockets: tls.TlsOptions
  /** 0: as many as the system gives. */
  readonly maxConnections: number
  /** A socket whose handshake is done, if it has one. Whoever serves it gives it to `hold`. */
  onSocket(socket: Socket): void
  /** The error of `listen` when the system does not give the port. */
  readonly cannotListen: (reason: Error) => ServerError
}

/** What the listener asks of a connection when the port closes. */
type HeldConnection = {
  /** Closes after the answers that are under way. */
  leave(): void
  destroy(): void
}

export class Listener<C extends HeldConnection> {
  /** The open connections. */
  readonly connections = new Map<Socket, C>()
  readonly traffic = new TrafficMeter()
  readonly #log: Log
  readonly #options: ListenOptions & SocketOptions
  readonly #settings: ListenerSettings
  /** Null without TLS. */
  readonly #certificates: CertificateFiles | null
  /** Over TLS: connections whose handshake is still to come. */
  readonly #handshaking = new Set<Socket>()
  /** Null: as many connections as the system gives. */
  readonly #slots: ConnectionSlots | null
  #server: net.Server | null = null
  /** Gives its connections to `#server`. */
  #socketServer: net.Server | null = null
  #drained: Promise<void> | null = null

  constructor(
    dependencies: { readonly clock: Clock; readonly log: Log; readonly connectionSlots?: ConnectionSlots },
    options: ListenOptions & SocketOptions,
    settings: ListenerSettings,
  ) {
    this.#slots = dependencies.connectionSlots ?? null
    this.#log = dependencies.log.from('listener.ts')
    this.#options = options
    this.#settings = settings
    this.#certificates = options.tls === null ? null : new CertificateFiles(dependencies, options.tls)
  }

  /** True when no new connections are wanted. */
  get isDraining(): boolean {
    return this.#drained !== null
  }

  /** Where it listens, with the real port when 0 was asked for. */
  async listen(): Promise<{ address: string; port: number }> {
    const { address, port, reusePort, tls: tlsOptions } = this.#options
    const server = tlsOptions === null ? this.#createServer() : await this.#createTlsServer(tlsOptions)
    if (this.#settings.maxConnections > 0) server.maxConnections = this.#settings.maxConnections
    this.#server = server
    try {
      server.listen({ host: address, port, reusePort })
      await once(server, 'listening')
      const { socketPath = '' } = this.#options
      if (socketPath !== '') await this.#listenOnSocket(server, socketPath)
    } catch (reason) {
      throw this.#settings.cannotListen(reason as Error)
    }
    server.on('error', (reason) => this.#log.error('listener failed', { address, port, reason: messageOf(reason) }))
    const bound = server.address() as AddressInfo
    return { address: bound.address, port: bound.port }
  }

  async #listenOnSocket(server: net.Server, path: string): Promise<void> {
    await removeDeadSocket(path)
    const beside = net.createServer(this.#settings.plainSockets, (socket) => server.emit('connection', socket))
    this.#socketServer = beside
    beside.listen({ path })
    await once(beside, 'listening')
    beside.on('error', (reason) => this.#log.error('listener failed', { path, reason: messageOf(reason) }))
  }

  /** The socket may have taken the place of the accepted one. */
  hold(socket: Socket, connection: C): void {
    this.connections.set(socket, connection)
    socket.once('close', () => this.connections.delete(socket))
    if (this.#certificates === null) this.#track(socket)
    // The connection may have come in while the port was being closed.
    if (this.isDraining) connection.leave()
  }

  /** No new connections; each open one closes after its current answers. Resolves when the last one has gone. */
  drain(): Promise<void> {
    this.#drained ??= new Promise((resolve) => {
      this.#certificates?.close()
      // After a whole turn of the event loop: connections that the system had accepted by now are taken, where a closed port would
      // cut them off, and requests that clients had sent by now are read and answered.
      setImmediate(() => {
        setImmediate(() => {
          this.#socketServer?.close()
          if (this.#server === null) resolve()
          else this.#server.close(() => resolve())
          for (const connection of this.connections.values()) connection.leave()
        })
      })
    })
    return this.#drained
  }

  /** Ends every connection at once. Twice is fine. */
  async close(): Promise<void> {
    const drained = this.drain()
    for (const connection of this.connections.values()) connection.destroy()
    for (const socket of this.#handshaking) socket.destroy()
    await drained
  }

  #createServer(): net.Server {
    return net.createServer(this.#settings.plainSockets, (socket) => {
      if (this.#takeSlot(socket)) this.#settings.onSocket(socket)
    })
  }

  /** False: connections use all descriptors that they may use. The client sees that its connection is closed. */
  #takeSlot(socket: Socket): boolean {
    if (this.#slots === null || this.#slots.take()) return true
    socket.on('error', () => undefined).destroy()
    return false
  }

  #track(socket: Socket): void {
    this.traffic.track(socket)
    socket.once('close', () => this.#slots?.leave())
  }

  async #createTlsServer({ isMutual }: TlsOptions): Promise<tls.Server> {
    const files = this.#certificates as CertificateFiles
    const settings = {
      ...this.#settings.tlsSockets,
      ...secureContextOf(await files.read()),
      requestCert: isMutual,
      rejectUnauthorized: isMutual,
    }
    const server = tls.createServer(settings, (socket) => this.#settings.onSocket(socket))
    server.on('connection', (socket) => {
      if (!this.#takeSlot(socket)) return
      this.#track(socket)
      this.#handshaking.add(socket)
      socket.on('close', () => this.#handshaking.delete(socket))
    })
    // A failed or unfinished handshake is not logged; its socket is closed.
    server.on('tlsClientError', (_reason, socket) => socket.destroy())
    // Open connections keep the certificate they were made with.
    files.watch((certificates) => server.setSecureContext(secureContextOf(certificates)))
    return server
  }
}

/** A server that was killed leaves its socket behind. One that lives keeps it, and `listen` fails. */
async function removeDeadSocket(path: string): Promise<void> {
  const found = await stat(path).catch(() => null)
  if (found === null || !found.isSocket()) return
  const probe = net.connect({ path })
  const isAlive = await once(probe, 'connect').then(
    () => true,
    () => false,
  )
  probe.destroy()
  if (!isAlive) await rm(path, { force: true })
}

const secureContextOf = ({ cert, key, ca }: Certificates): tls.SecureContextOptions =>
  ca === null ? { cert, key } : { cert, key, ca }
