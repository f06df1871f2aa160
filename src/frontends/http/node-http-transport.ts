// HTTP/1.1 by node:http behind the front end's own message types. Tuned for many small requests: listeners are shared
// functions, a body that arrives in one piece is not copied, an answer leaves in one write.

import { createServer, IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, Server as TlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'

import { CertificateFiles, type Certificates } from '../../base/certificate-files.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { encodeErrorBody } from '../../protocol/error-body.ts'
import { BodyCollector, type BodyRefusal } from './body-collector.ts'
import {
  headerOf,
  jsonType,
  reasonOf,
  type HttpRequest,
  type HttpResponse,
  type ResponseStream,
} from './http-message.ts'
import { bodyLimitBytes, type HttpOptions, type TlsOptions } from './http-options.ts'
import { ChunkedAnswer } from './chunked-answer.ts'
import { UnreadAnswers } from './unread-answers.ts'

/** What the transport asks of the front end. Neither function may throw. */
export type TransportHandler = {
  handle(request: HttpRequest): void
  /** The body is over a limit; `bodyBytes` is what was announced, or what came so far if that is more. */
  refuseBody(request: HttpRequest, reason: BodyRefusal, bodyBytes: number): HttpResponse
  /** The body stood still for too long. */
  refuseStalledBody(): HttpResponse
  /** The message of the answer to a request whose headers never came in whole. */
  refusalText(status: 408 | 431): string
}

/** Up to here the parts of an answer are copied together: one small write costs less than several pieces. */
const joinBytes = 4 * 1024

const { latin1Slice } = Buffer.prototype

class Connection {
  readonly socket: Socket
  /** Not yet answered, or answered with memory to give back once the bytes are written. Nearly always at most one. */
  readonly open: NodeExchange[] = []

  constructor(socket: Socket) {
    this.socket = socket
  }

  remove(exchange: NodeExchange): void {
    const at = this.open.indexOf(exchange)
    if (at >= 0) this.open.splice(at, 1)
  }
}

/**
 * node:http's message without its stream and its table of headers: what the parser pushes goes straight to the exchange,
 * and headers stay the list they came as. Both would cost as much again as the rest of a small request.
 */
class CarryingMessage extends IncomingMessage {
  exchange: NodeExchange | null = null
  /** node:http asks this after the answer; true keeps it from draining a stream that never filled. */
  _consumed = true

  override push(piece: Buffer | null): boolean {
    const { exchange } = this
    if (piece !== null) {
      exchange?.take(piece)
    } else {
      // The parser remembers its last message while a connection idles; the body must not stay with it.
      this.exchange = null
      exchange?.complete()
    }
    return true
  }
}

// All that node:http's server itself looks up is Expect. (An accessor cannot override a property in a class's own words.)
Object.defineProperty(CarryingMessage.prototype, 'headers', {
  get(this: CarryingMessage) {
    const expect = headerOf(this.rawHeaders, 'expect')
    return expect === null ? noExpectation : { expect }
  },
})
const noExpectation: NodeJS.Dict<string> = {}

class NodeExchange implements HttpRequest {
  readonly method: string
  readonly target: string
  readonly headers: readonly string[]
  body: Buffer = noBytes
  onDisconnect: (() => void) | null = null
  /** Null once the body is complete. */
  collector: BodyCollector | null = null
  readonly #transport: NodeHttpTransport
  readonly #response: ServerResponse
  readonly #connection: Connection
  #release: (() => void) | null = null
  #answer: ChunkedAnswer | null = null
  #isAnswered = false
  #isGone = false

  constructor(
    transport: NodeHttpTransport,
    message: CarryingMessage,
    response: ServerResponse,
    connection: Connection,
  ) {
    this.method = message.method ?? ''
    this.target = message.url ?? ''
    this.headers = message.rawHeaders
    this.#transport = transport
    this.#response = response
    this.#connection = connection
  }

  get remoteAddress(): string {
    return this.#connection.socket.remoteAddress ?? ''
  }

  get isAnswered(): boolean {
    return this.#isAnswered
  }

  take(piece: Buffer): void {
    const { collector } = this
    if (collector === null || this.#isAnswered) return
    collector.add(piece)
    if (collector.isBeyondPatience) this.refuse(collector)
  }

  /** The whole body is here. */
  complete(): void {
    const { collector } = this
    if (collector === null || this.#isAnswered || this.#isGone) return
    this.collector = null
    this.body = collector.finish()
    if (collector.state === 'complete') this.#transport.handler.handle(this)
    else this.refuse(collector)
  }

  refuse(collector: BodyCollector): void {
    const { state, bodyBytes } = collector
    if (state === 'receiving' || state === 'complete') return
    this.respond(this.#transport.handler.refuseBody(this, state, bodyBytes))
  }

  respond(response: HttpResponse): void {
    if (this.#isGone || this.#isAnswered) {
      response.release?.()
      return
    }
    this.#isAnswered = true
    this.onDisconnect = null
    this.#release = response.release
    this.#write(response)
    if (this.#release === null) this.#connection.remove(this)
  }

  stream(head: HttpResponse): ResponseStream {
    const answer = new ChunkedAnswer(this.#response, () => this.#onStreamEnd())
    if (this.#isGone || this.#isAnswered) {
      answer.drop()
      return answer
    }
    this.#answer = answer
    this.#writeHead(head)
    return answer
  }

  /** Not answered in full before the last piece is written: until then a disconnect is told, and an idle socket is left alone. */
  #onStreamEnd(): void {
    this.#isAnswered = true
    this.#answer = null
    this.onDisconnect = null
    this.#connection.remove(this)
    // Its head went out before anybody knew that the connection would not be wanted again.
    if (this.#transport.isDraining && this.#connection.open.length === 0) this.#connection.socket.destroySoon()
  }

  /** The connection is closed: nobody reads an answer any more, but memory still goes back. */
  disconnect(): void {
    this.#isGone = true
    this.#answer?.drop()
    this.#answer = null
    this.collector = null
    this.body = noBytes
    const { onDisconnect } = this
    this.onDisconnect = null
    onDisconnect?.()
    this.#releaseNow()
  }

  #writeHead(response: HttpResponse, contentLength: number | null = null): void {
    const headers = ['Content-Type', response.contentType]
    if (contentLength !== null) headers.push('Content-Length', String(contentLength))
    for (let i = 0; i < response.headers.length; i++) headers.push(response.headers[i] as string)
    if (response.closesConnection || this.#transport.isDraining) headers.push('Connection', 'close')
    this.#response.writeHead(response.status, reasonOf(response.status), headers)
  }

  #write(response: HttpResponse): void {
    const out = this.#response
    const { parts, bodyBytes } = response
    this.#writeHead(response, bodyBytes)
    if (parts.length === 0) {
      out.end()
    } else if (bodyBytes <= joinBytes) {
      // One Latin-1 string goes out together with the head in a plain write; buffers would need a vectored one.
      out.end(latin1Of(parts), 'latin1')
      this.#releaseNow()
    } else {
      const last = parts.length - 1
      for (let i = 0; i < last; i++) out.write(parts[i])
      if (this.#release === null) out.end(parts[last])
      else out.end(parts[last], () => this.#onWritten())
    }
  }

  #onWritten(): void {
    this.#releaseNow()
    this.#connection.remove(this)
  }

  #releaseNow(): void {
    const release = this.#release
    this.#release = null
    release?.()
  }
}

export class NodeHttpTransport {
  readonly handler: TransportHandler
  readonly #log: Log
  readonly #options: HttpOptions
  readonly #bodyLimitBytes: number
  readonly #server: Server
  readonly #connections = new Map<Socket, Connection>()
  readonly #unread: UnreadAnswers
  /** Null for plain HTTP. */
  readonly #certificates: CertificateFiles | null
  /** Over TLS: connections whose handshake is still to come. */
  readonly #handshaking = new Set<Socket>()
  #isDraining = false
  #closed: Promise<void> | null = null

  constructor(dependencies: { log: Log; clock: Clock }, options: HttpOptions, handler: TransportHandler) {
    this.#log = dependencies.log.from('node-http-transport.ts')
    this.#unread = new UnreadAnswers(dependencies, options.writeIdleTimeoutMs, () => this.#connections.keys())
    this.#options = options
    this.#bodyLimitBytes = bodyLimitBytes(options)
    this.handler = handler
    this.#certificates = options.tls === null ? null : new CertificateFiles(dependencies, options.tls)
    this.#server = this.#createServer()
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
    const bound = this.#server.address() as AddressInfo
    return { address: bound.address, port: bound.port }
  }

  /** No new connections; each open one closes after its current answer. Resolves when the last one is closed. */
  drain(): Promise<void> {
    if (this.#closed !== null) return this.#closed
    this.#isDraining = true
    this.#closed = new Promise((resolve) => {
      this.#server.close(() => {
        this.#unread.stop()
        this.#certificates?.close()
        resolve()
      })
    })
    for (const { socket, open } of this.#connections.values()) if (open.length === 0) socket.destroySoon()
    return this.#closed
  }

  async close(): Promise<void> {
    const closed = this.drain()
    this.#server.closeAllConnections()
    for (const socket of this.#connections.keys()) socket.destroy()
    for (const socket of this.#handshaking) socket.destroy()
    await closed
  }

  #createServer(): Server {
    const options = this.#options
    const settings = {
      IncomingMessage: CarryingMessage,
      requireHostHeader: false,
      noDelay: true,
      maxHeaderSize: options.maxHeaderBytes,
      headersTimeout: Math.ceil(options.headersTimeoutMs),
      // The body has its own clock, which runs only while nothing arrives.
      requestTimeout: 0,
      keepAliveTimeout: Math.ceil(options.keepAliveTimeoutMs),
      connectionsCheckingInterval: Math.ceil(Math.max(10, Math.min(1000, options.headersTimeoutMs / 4))),
    }
    const server = options.tls === null ? createServer(settings) : this.#createTlsServer(settings, options.tls)
    // The bytes of the headers are bounded already; node would drop headers above this count without a word.
    server.maxHeadersCount = 0
    if (options.maxConnections > 0) server.maxConnections = options.maxConnections
    server.timeout = Math.ceil(options.bodyIdleTimeoutMs)
    server.on(options.tls === null ? 'connection' : 'secureConnection', (socket: Socket) => this.#onConnection(socket))
    server.on('request', (message, response) => this.#onRequest(message as CarryingMessage, response))
    server.on('checkContinue', (message, response) => this.#onRequest(message as CarryingMessage, response))
    // Triton's library serves whatever else an Expect header says.
    server.on('checkExpectation', (message, response) => this.#onRequest(message as CarryingMessage, response))
    server.on('clientError', (reason: NodeJS.ErrnoException, socket) => this.#onClientError(reason, socket as Socket))
    server.on('timeout', (socket: Socket) => this.#onIdle(socket))
    return server
  }

  #createTlsServer(settings: ServerOptions<typeof CarryingMessage>, tls: TlsOptions): Server {
    const server = createTlsServer({
      ...settings,
      requestCert: tls.isMutual,
      rejectUnauthorized: tls.isMutual,
      // A handshake is as much a client's to finish as its headers are.
      handshakeTimeout: Math.ceil(this.#options.headersTimeoutMs),
    })
    server.on('connection', (socket: Socket) => {
      this.#handshaking.add(socket)
      socket.on('close', () => this.#handshaking.delete(socket))
    })
    // A failed or unfinished handshake is the client's affair; its socket is closed.
    server.on('tlsClientError', (_reason, socket) => socket.destroy())
    return server
  }

  /** Open connections keep the certificate they were made with. */
  #useCertificates({ cert, key, ca }: Certificates): void {
    if (this.#server instanceof TlsServer)
      this.#server.setSecureContext(ca === null ? { cert, key } : { cert, key, ca })
  }

  #onConnection(socket: Socket): void {
    this.#connections.set(socket, new Connection(socket))
    socket.on('close', () => this.#onClose(socket))
  }

  #onClose(socket: Socket): void {
    const connection = this.#connections.get(socket)
    this.#connections.delete(socket)
    for (const exchange of connection?.open.splice(0) ?? []) exchange.disconnect()
  }

  /** HOT: once per request. */
  #onRequest(message: CarryingMessage, response: ServerResponse): void {
    const connection = this.#connections.get(message.socket)
    // A socket that closed between its bytes and this event has nobody to answer.
    if (connection === undefined) return
    response.sendDate = false
    const exchange = new NodeExchange(this, message, response, connection)
    connection.open.push(exchange)
    const announcedBytes = announcedBodyBytes(message.rawHeaders)
    if (announcedBytes === 0) {
      this.handler.handle(exchange)
      return
    }
    const collector = new BodyCollector(announcedBytes, this.#bodyLimitBytes)
    const expects = headerOf(message.rawHeaders, 'expect') !== null
    // A client that asks before it sends gets its refusal at once; others are heard out, so that they read the answer.
    if (collector.state === 'too-large' && (expects || collector.isBeyondPatience)) {
      exchange.refuse(collector)
      return
    }
    if (expects) response.writeContinue()
    exchange.collector = collector
    message.exchange = exchange
  }

  #onClientError(reason: NodeJS.ErrnoException, socket: Socket): void {
    const connection = this.#connections.get(socket)
    const status = refusalStatus[reason.code ?? '']
    // In the middle of an exchange an extra answer would be taken for the one that is due.
    if (status === undefined || !socket.writable || (connection?.open.length ?? 0) > 0) {
      socket.destroy()
      return
    }
    const body = encodeErrorBody(this.handler.refusalText(status))
    socket.write(
      `HTTP/1.1 ${status} ${reasonOf(status)}\r\nContent-Type: ${jsonType}\r\n` +
        `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n`,
    )
    socket.write(body)
    socket.destroySoon()
  }

  /** Nothing was read or written for a while: whose turn was it? */
  #onIdle(socket: Socket): void {
    const exchange = this.#connections.get(socket)?.open.find((open) => !open.isAnswered)
    if (exchange !== undefined && exchange.collector !== null) exchange.respond(this.handler.refuseStalledBody())
    // The model takes its time and the client waits in peace; one that does not take its answer has a clock of its own.
    else if (exchange === undefined && socket.writableLength === 0) socket.destroy()
  }
}

function latin1Of(parts: readonly Uint8Array[]): string {
  let text = ''
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i] as Uint8Array
    text += latin1Slice.call(part, 0, part.length)
  }
  return text
}

const noBytes = Buffer.alloc(0)

const refusalStatus: Readonly<Record<string, 408 | 431>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_HEADER_OVERFLOW: 431,
}

/** 0: no body; -1: chunked. The parser has refused lengths that are no numbers. */
function announcedBodyBytes(headers: readonly string[]): number {
  const length = headerOf(headers, 'content-length')
  if (length !== null) return Number(length)
  return headerOf(headers, 'transfer-encoding') === null ? 0 : -1
}

function listenError(reason: Error, address: string, port: number): ServerError {
  const code = (reason as NodeJS.ErrnoException).code
  if (code === 'EADDRINUSE') {
    return new ServerError(
      'UNAVAILABLE',
      `HTTP port ${port} on ${address} is in use by another process; choose another with --http-port`,
      { cause: reason },
    )
  }
  return new ServerError('INTERNAL', `cannot listen for HTTP on ${address}:${port}: ${messageOf(reason)}`, {
    cause: reason,
  })
}
