// One client's connection and the calls on it.

import type { Socket } from 'node:net'

import type { Clock } from '../../base/clock.ts'
import { ConnectionKeeper } from './connection-keeper.ts'
import type { GrpcTransportOptions } from './grpc-transport-options.ts'
import type { CallHandler } from './grpc-transport.ts'
import { Http2Call, type CallSurroundings } from './http2-call.ts'
import { Http2Connection, type ConnectionUser } from '../http2/http2-connection.ts'
import type { Http2Stream } from '../http2/http2-stream.ts'
import type { RequestHead } from '../http2/request-head.ts'
import type { MessageInflater } from './message-compression.ts'

/** What a connection asks of the transport that holds it. */
export type ConnectionHost = {
  readonly clock: Clock
  readonly options: GrpcTransportOptions
  readonly inflater: MessageInflater
  readonly handle: CallHandler
  /** At the end of this turn of the event loop. */
  flushSoon(connection: Http2Connection): void
}

export class ServedConnection implements ConnectionUser {
  readonly #host: ConnectionHost
  readonly #connection: Http2Connection
  readonly #keeper: ConnectionKeeper
  readonly #surroundings: CallSurroundings

  constructor(host: ConnectionHost, socket: Socket) {
    const { clock, options, inflater } = host
    this.#host = host
    this.#connection = new Http2Connection({ clock }, socket, this)
    const keeper = new ConnectionKeeper(this.#connection, clock, options)
    this.#keeper = keeper
    this.#surroundings = {
      clock,
      options,
      inflater,
      remoteAddress: () => socket.remoteAddress ?? '',
      onSent: keeper.sent,
      onGone: () => keeper.callEnded(),
    }
  }

  /** HOT: once per call. */
  onStream(stream: Http2Stream, head: RequestHead): void {
    const call = new Http2Call(stream, head, this.#surroundings)
    stream.user = call
    this.#keeper.callBegun()
    this.#host.handle(call)
    call.begin()
  }

  onOutput(connection: Http2Connection): void {
    this.#host.flushSoon(connection)
  }

  onSettings(): void {
    this.#keeper.onSettings()
  }

  onPing(): void {
    this.#keeper.onPing()
  }

  onPingAnswer(payload: Buffer): void {
    this.#keeper.onPingAnswer(payload)
  }

  onFailed(): void {
    this.#keeper.onEnded()
  }

  onClosed(): void {
    this.#keeper.close()
  }

  /** Tells the client to go elsewhere, and closes once its calls have ended. */
  leave(): void {
    this.#keeper.leave()
  }

  destroy(): void {
    this.#connection.destroy()
  }
}
