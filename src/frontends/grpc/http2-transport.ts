// gRPC on node:http2: listens, with or without TLS, and makes a call of every stream.

import { once } from 'node:events'
import {
  constants,
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type SecureServerOptions,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerOptions,
} from 'node:http2'
import { Server as NetServer, type AddressInfo } from 'node:net'

import { CertificateFiles } from '../../base/certificate-files.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { ConnectionKeeper } from './connection-keeper.ts'
import type { GrpcOptions } from './grpc-options.ts'
import type { CallHandler, GrpcTransport } from './grpc-transport.ts'
import { Http2Call } from './http2-call.ts'
import { MessageInflater } from './message-compression.ts'

/** How much a client may send ahead of what was taken, on one stream and on the whole connection. */
const streamWindowBytes = 1024 * 1024
const connectionWindowBytes = 4 * 1024 * 1024

const http2Options: ServerOptions = {
  settings: {
    initialWindowSize: streamWindowBytes,
    maxConcurrentStreams: 10_000,
    maxHeaderListSize: 16 * 1024,
    enablePush: false,
  },
  // In MB. Node refuses new streams beyond it, and 10, its default, is ten answers of a megabyte.
  maxSessionMemory: 512,
  maxSessionInvalidFrames: 100,
  maxSessionRejectedStreams: 100,
  // Clients that cancel a lot are no attack; more than this at once is.
  streamResetBurst: 5000,
  streamResetRate: 500,
}

export class Http2Transport implements GrpcTransport {
  readonly #clock: Clock
  readonly #log: Log
  readonly #options: GrpcOptions
  readonly #handle: CallHandler
  readonly #keepers = new Map<ServerHttp2Session, ConnectionKeeper>()
  readonly #calls = new Set<Http2Call>()
  readonly #inflater: MessageInflater
  #server: Http2Server | Http2SecureServer | null = null
  #certificates: CertificateFiles | null = null
  #idle: (() => void) | null = null

  constructor(dependencies: { clock: Clock; log: Log }, options: GrpcOptions, handle: CallHandler) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('http2-transport.ts')
    this.#options = options
    this.#handle = handle
    this.#inflater = new MessageInflater(options.maxMessageBytes)
  }

  async listen(): Promise<{ address: string; port: number }> {
    const { address, port, reusePort } = this.#options
    const server = await this.#createServer()
    this.#server = server
    server.on('session', (session) => this.#onSession(session))
    server.on('stream', (stream, headers, _flags, rawHeaders) => this.#onStream(stream, headers, rawHeaders))
    server.on('sessionError', () => undefined)
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

  async #createServer(): Promise<Http2Server | Http2SecureServer> {
    const { tls } = this.#options
    if (tls === null) return createServer(http2Options)
    const files = new CertificateFiles({ clock: this.#clock, log: this.#log }, tls)
    const secure = (certificates: Awaited<ReturnType<CertificateFiles['read']>>): SecureServerOptions => ({
      cert: certificates.cert,
      key: certificates.key,
      ...(certificates.ca === null ? {} : { ca: certificates.ca }),
    })
    const server = createSecureServer({
      ...http2Options,
      ...secure(await files.read()),
      allowHTTP1: false,
      requestCert: tls.isMutual,
      rejectUnauthorized: tls.isMutual,
    })
    server.on('tlsClientError', () => undefined)
    files.watch((certificates) => server.setSecureContext(secure(certificates)))
    this.#certificates = files
    return server
  }

  #onSession(session: ServerHttp2Session): void {
    this.#keepers.set(session, new ConnectionKeeper(session, this.#clock, this.#options))
    session.setLocalWindowSize(connectionWindowBytes)
    session.once('close', () => {
      this.#keepers.delete(session)
      this.#noticeIdle()
    })
  }

  /** HOT: once per call. */
  #onStream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, rawHeaders: readonly string[]): void {
    // What goes wrong with a stream shows in its 'close'.
    stream.on('error', ignore)
    const keeper = stream.session === undefined ? undefined : this.#keepers.get(stream.session as ServerHttp2Session)
    if (keeper === undefined) {
      stream.close(constants.NGHTTP2_REFUSED_STREAM)
      return
    }
    const refusal = refusalStatus(headers)
    if (refusal !== 0) {
      stream.respond({ ':status': refusal }, { endStream: true })
      return
    }
    const path = headers[':path'] ?? ''
    const onGone = (gone: Http2Call): void => {
      this.#calls.delete(gone)
      keeper.callEnded()
    }
    const surroundings = {
      clock: this.#clock,
      options: this.#options,
      inflater: this.#inflater,
      onSent: keeper.sent,
      onGone,
    }
    const call = new Http2Call(stream, rawHeaders, path, surroundings)
    this.#calls.add(call)
    keeper.callBegun()
    this.#handle(call)
    call.begin()
  }

  async drain(): Promise<void> {
    this.#stopListening()
    for (const keeper of this.#keepers.values()) keeper.leave()
    if (this.#keepers.size === 0) return
    await new Promise<void>((resolve) => {
      this.#idle = resolve
    })
  }

  /** What an HTTP/2 server's own `close` does beside, ending its connections, is done here with more manners. */
  #stopListening(): void {
    if (this.#server?.listening === true) NetServer.prototype.close.call(this.#server)
    this.#certificates?.close()
  }

  #noticeIdle(): void {
    if (this.#keepers.size === 0) this.#idle?.()
  }

  close(): Promise<void> {
    this.#stopListening()
    for (const call of this.#calls) call.abort()
    for (const session of this.#keepers.keys()) session.destroy()
    return Promise.resolve()
  }
}

const ignore = (): void => undefined

/** 0 for a gRPC call, else the HTTP status that says what is wrong with the request. */
function refusalStatus(headers: IncomingHttpHeaders): number {
  if (headers[':method'] !== 'POST') return 405
  return (headers['content-type'] ?? '').startsWith('application/grpc') ? 0 : 415
}
