// One client's connection and the calls on it.

import { peerCertificateOf } from '../peer-certificate.ts'
import type { Socket } from 'node:net'

import type { Clock } from '../../base/clock.ts'
import { ConnectionKeeper } from './connection-keeper.ts'
import type { GrpcTransportOptions } from './grpc-transport-options.ts'
import type { CallHandler } from './grpc-transport.ts'
import { Http2Call, type CallSurroundings } from './http2-call.ts'
import { Http2Connection, type ConnectionUser } from '../http2/http2-connection.ts'
import type { Http2Stream } from '../http2/http2-stream.ts'
import type { RequestHead } from '../http2/request-head.ts'
import type { MistakenClients } from '../mistaken-clients.ts'
import { ConnectionMemory, type ClientMemory } from '../client-memory.ts'
import { TurnLane, type MessageTurns } from '../message-turns.ts'

/** What a connection asks of the transport that holds it. */
export type ConnectionHost = {
  readonly clock: Clock
  readonly options: GrpcTransportOptions
  readonly clientMemory: ClientMemory
  readonly handle: CallHandler
  readonly mistaken: MistakenClients
  readonly turns: MessageTurns
  /** At the end of this turn of the event loop. */
  flushSoon(connection: Http2Connection): void
  flushNow(connection: Http2Connection): void
}

export class ServedConnection implements ConnectionUser {
  readonly #host: ConnectionHost
  readonly #socket: Socket
  /** What the bytes of the socket are given to. */
  readonly connection: Http2Connection
  readonly #keeper: ConnectionKeeper
  readonly #surroundings: CallSurroundings
  readonly #memory: ConnectionMemory
  readonly #heldBack = new Set<{ goOn(): void }>()
  readonly #arriving = new Set<{ openWindow(): void }>()
  #isReliefPlanned = false

  constructor(host: ConnectionHost, socket: Socket) {
    const { clock, options } = host
    this.#host = host
    this.#socket = socket
    const memory = new ConnectionMemory(host.clientMemory)
    this.#memory = memory
    this.connection = new Http2Connection({ clock, memory }, socket, this)
    const keeper = new ConnectionKeeper(this.connection, clock, options)
    this.#keeper = keeper
    this.#surroundings = {
      clock,
      options,
      memory,
      unanswered: { count: 0 },
      turns: host.turns,
      lane: new TurnLane(memory),
      arriving: this.#arriving,
      followWindows: this.#followWindows,
      heldBack: this.#heldBack,
      onRelief: this.#relieve,
      remoteAddress: () => socket.remoteAddress ?? '',
      peerCertificate: () => peerCertificateOf(socket),
      onGone: () => keeper.callEnded(),
    }
  }

  get isTight(): boolean {
    return this.#host.turns.isTight
  }

  /** HOT: once per call. */
  readonly #followWindows = (): void => {
    // The smaller window is for what has no turn yet.
    if (this.connection.setTight(this.isTight)) for (const message of this.#arriving) message.openWindow()
  }

  /** HOT: once per call. */
  onStream(stream: Http2Stream, head: RequestHead): void {
    this.#followWindows()
    const call = new Http2Call(stream, head, this.#surroundings)
    stream.user = call
    this.#keeper.callBegun()
    this.#host.handle(call)
    call.begin()
  }

  /** HOT: once per call and flush, nearly always with nothing to do. */
  readonly #relieve = (): void => {
    // Without a call that waits here, its client may wait for leave to send.
    if (this.#heldBack.size === 0 && !this.connection.owesCredit) return
    if (this.#isReliefPlanned || this.#memory.isFull) return
    this.#isReliefPlanned = true
    // Later: the messages of one call may fill the connection again, and whoever gave memory back is not done yet.
    setImmediate(() => {
      this.#isReliefPlanned = false
      for (const call of Array.from(this.#heldBack)) call.goOn()
      this.connection.creditWhatIsUsed()
    })
  }

  onFlushed(hasProgress: boolean): void {
    if (hasProgress) this.#keeper.sent()
    this.#relieve()
  }

  /** From the transport, every second: time limits of the connection and of its calls. */
  sweep(nowNs: number): void {
    this.#keeper.sweep(nowNs)
    this.#memory.sweep()
    if (this.connection.streamCount === 0) return
    for (const { user } of this.connection.streams()) if (user instanceof Http2Call) user.sweep(nowNs)
    // The bound on unread answers follows what all connections hold.
    this.#relieve()
    this.connection.creditWhatIsUsed()
  }

  onOutput(connection: Http2Connection, when: 'soon' | 'now'): void {
    if (when === 'now') this.#host.flushNow(connection)
    else this.#host.flushSoon(connection)
  }

  answerToForeign(first: Buffer): Buffer | null {
    return this.#host.mistaken.answerTo(first, this.#socket.remoteAddress ?? '')
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
    this.connection.destroy()
  }
}
