// Calls over one HTTP/2 connection, which is made when the first call needs it and made anew when it breaks.

import { once } from 'node:events'
import {
  connect,
  constants,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
} from 'node:http2'
import { messageOf } from '../../base/server-error.ts'
import type { CallScope } from '../call-scope.ts'
import { connectWords } from '../connect-words.ts'
import type { Compression } from '../infer-request.ts'
import { codeOfGrpc, InferenceError } from '../inference-error.ts'
import { tlsSettings, type TlsOptions } from '../node/tls-settings.ts'

type ChannelOptions = {
  readonly origin: string
  readonly headers: Readonly<Record<string, string>>
  readonly tls: TlsOptions
  /** Pings while calls are under way; null for none. */
  readonly keepaliveMs: number | null
}

/** Bytes the server may send ahead of reading, per call and per connection. */
const windowBytes = 8 * 1024 * 1024

type Connection = {
  readonly session: ClientHttp2Session
  readonly ready: Promise<void>
  callCount: number
}

export class GrpcChannel {
  readonly #options: ChannelOptions
  #connection: Connection | null = null
  #isClosed = false

  constructor(options: ChannelOptions) {
    this.#options = options
  }

  /** Begins a call; its request has not been written yet. */
  async open(
    path: string,
    headers: Readonly<Record<string, string>>,
    scope: CallScope,
    packing: Compression,
  ): Promise<GrpcCall> {
    const connection = await this.#connected(scope)
    const { remainingMs } = scope
    let stream: ClientHttp2Stream
    try {
      stream = connection.session.request(
        {
          ':method': 'POST',
          ':path': path,
          ...lowerCased(this.#options.headers),
          ...lowerCased(headers),
          te: 'trailers',
          'content-type': 'application/grpc',
          'user-agent': 'galatea-client',
          'grpc-accept-encoding': 'identity,gzip,deflate',
          ...(packing === 'none' ? {} : { 'grpc-encoding': packing }),
          ...(remainingMs === null ? {} : { 'grpc-timeout': timeoutText(remainingMs) }),
        },
        { endStream: false },
      )
    } catch (reason) {
      // The connection broke after it was checked and before it was used.
      throw new InferenceError('UNREACHABLE', messageOf(reason), { cause: reason, isUnsent: true })
    }
    hold(connection, stream)
    return new GrpcCall(stream, scope)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const session = this.#connection?.session
    this.#connection = null
    if (session === undefined || session.closed || session.destroyed) return
    const closed = once(session, 'close')
    session.destroy()
    await closed
  }

  async #connected(scope: CallScope): Promise<Connection> {
    if (this.#isClosed) throw new InferenceError('CANCELLED', 'the client was closed')
    const connection = (this.#connection ??= this.#connect())
    if (!connection.session.connecting) return connection
    try {
      await scope.race(connection.ready)
    } catch (reason) {
      if (scope.signal.aborted) throw reason
      throw new InferenceError('UNREACHABLE', `cannot reach ${this.#options.origin}: ${connectText(reason)}`, {
        cause: reason,
        isUnsent: true,
      })
    }
    return connection
  }

  #connect(): Connection {
    const { origin, tls } = this.#options
    const session = connect(origin, {
      settings: { enablePush: false, initialWindowSize: windowBytes },
      // Node refuses calls beyond this much memory per connection; tensors alone may be more.
      maxSessionMemory: Number.MAX_SAFE_INTEGER,
      ...tlsSettings(tls),
    })
    const forget = (): void => {
      if (this.#connection?.session === session) this.#connection = null
    }
    const ready = new Promise<void>((resolve, reject) => {
      session.once('connect', () => {
        session.setLocalWindowSize(windowBytes)
        resolve()
      })
      session.on('error', reject)
      session.once('close', () => reject(new Error('the connection was closed')))
    })
    // Waiting calls learn of the end by `ready`, open calls by their streams. Without calls nobody needs to know.
    ready.catch(() => null)
    session.on('error', forget)
    session.on('close', forget)
    // The server takes no more calls on this connection, and finishes those it has.
    session.on('goaway', () => {
      forget()
      session.close()
    })
    if (this.#options.keepaliveMs !== null) keepAlive(session, this.#options.keepaliveMs)
    return { session, ready, callCount: 0 }
  }
}

/** A call keeps the process alive, an idle connection does not. */
function hold(connection: Connection, stream: ClientHttp2Stream): void {
  const { session } = connection
  connection.callCount++
  session.ref()
  stream.once('close', () => {
    connection.callCount--
    if (connection.callCount === 0 && !session.destroyed) session.unref()
  })
}

/** A connection that does not answer a ping before the next one is due is dead. */
function keepAlive(session: ClientHttp2Session, keepaliveMs: number): void {
  let isWaiting = false
  const timer = setInterval(() => {
    if (isWaiting) {
      session.destroy(new Error(`no answer to a ping within ${keepaliveMs} ms`), constants.NGHTTP2_NO_ERROR)
      return
    }
    if (session.connecting || session.destroyed) return
    isWaiting = session.ping(() => {
      isWaiting = false
    })
  }, keepaliveMs)
  timer.unref()
  session.once('close', () => clearInterval(timer))
}

export class GrpcCall {
  readonly stream: ClientHttp2Stream
  readonly #scope: CallScope
  readonly #abort = (): void => this.cancel()
  #headers: IncomingHttpHeaders = {}
  #trailers: IncomingHttpHeaders = {}
  #failure: unknown = null

  constructor(stream: ClientHttp2Stream, scope: CallScope) {
    this.stream = stream
    this.#scope = scope
    stream.on('response', (headers) => (this.#headers = headers))
    stream.on('trailers', (trailers) => (this.#trailers = trailers))
    stream.on('error', (reason: unknown) => (this.#failure ??= reason))
    stream.once('close', () => scope.signal.removeEventListener('abort', this.#abort))
    if (scope.signal.aborted) this.cancel()
    else scope.signal.addEventListener('abort', this.#abort, { once: true })
  }

  /** How compressed messages of the answer are packed. */
  readonly encoding = (): string => headerText(this.#headers['grpc-encoding'])

  cancel(): void {
    this.stream.close(constants.NGHTTP2_CANCEL)
  }

  /** What the call ended with, once its stream is read to the end; null for OK. */
  get error(): unknown {
    const statusText = headerText(this.#trailers['grpc-status']) || headerText(this.#headers['grpc-status'])
    const interrupted = this.#scope.errorFor(null)
    if (interrupted !== null) return interrupted
    if (statusText === '') return this.#brokenError()
    const status = Number(statusText)
    if (status === 0) return null
    const raw = headerText(this.#trailers['grpc-message']) || headerText(this.#headers['grpc-message'])
    return new InferenceError(codeOfGrpc(status), percentDecoded(raw) || `gRPC status ${statusText}`, { status })
  }

  /** No status arrived: the connection broke, or something answered that is no gRPC server. */
  #brokenError(): InferenceError {
    const httpStatus = headerText(this.#headers[':status'])
    if (httpStatus !== '' && httpStatus !== '200') {
      return new InferenceError('PROTOCOL', `expected a gRPC server, got HTTP status ${httpStatus}`)
    }
    const isRefused = this.stream.rstCode === constants.NGHTTP2_REFUSED_STREAM
    const why = this.#failure === null ? `stream closed with code ${this.stream.rstCode}` : messageOf(this.#failure)
    // Nothing of an answer came: a port of another kind closes the connection so.
    const hint =
      httpStatus === '' ? ' (is this a gRPC port, with TLS where the address says https:// and only there?)' : ''
    return new InferenceError('UNREACHABLE', `the call broke off: ${why}${hint}`, {
      cause: this.#failure,
      isUnsent: isRefused,
    })
  }
}

const lowerCased = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

/** `:status` comes as a number. */
const headerText = (value: string | number | string[] | undefined): string =>
  String((Array.isArray(value) ? value[0] : value) ?? '')

/** gRPC writes a timeout with at most eight digits and a unit. */
const timeoutText = (ms: number): string =>
  ms < 90_000 ? `${Math.ceil(ms * 1000)}u` : `${Math.min(99_999_999, Math.ceil(ms))}m`

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    // A bare % is no reason to lose the message.
    return text
  }
}

function connectText(reason: unknown): string {
  return connectWords(reason instanceof AggregateError ? reason.errors.map(messageOf).join('; ') : messageOf(reason))
}
