// What happens on a connection beside its calls: keep-alive pings, patience with the client's pings, and its age.

import { constants, type ServerHttp2Session } from 'node:http2'

import type { Cancel, Clock } from '../../base/clock.ts'
import type { GrpcOptions } from './grpc-options.ts'

/** What gRPC's own servers expect of clients that ping without a call and were not permitted to. */
const idlePingIntervalNs = 7_200e9
/** Whoever connects and does not speak HTTP/2 by then is let go. */
const prefaceTimeoutNs = 10e9
/** Between the last words to a client and the end of its connection. */
const farewellNs = 0.1e9
/** So that clients that connected together do not all come back together. */
const ageJitter = 0.1

export class ConnectionKeeper {
  readonly #session: ServerHttp2Session
  readonly #clock: Clock
  readonly #options: GrpcOptions
  readonly #timers = new Set<Cancel>()
  #callCount = 0
  #strikes = 0
  #lastPingNs = -Infinity
  #pingsWithoutData = 0
  #isLeaving = false

  constructor(session: ServerHttp2Session, clock: Clock, options: GrpcOptions) {
    this.#session = session
    this.#clock = clock
    this.#options = options
    const disarm = this.#after(prefaceTimeoutNs, () => session.destroy())
    session.once('remoteSettings', disarm)
    session.on('ping', () => this.#onPing())
    session.once('close', () => this.close())
    // The session's own way of reporting what is wrong with a client; it closes itself.
    session.on('error', () => undefined)
    if (options.keepaliveTimeMs > 0 && options.keepaliveTimeMs < 0x7fffffff) this.#scheduleKeepalive()
    if (options.maxConnectionAgeMs > 0) this.#limitAge()
  }

  get callCount(): number {
    return this.#callCount
  }

  callBegun(): void {
    this.#callCount++
  }

  callEnded(): void {
    this.#callCount--
    if (this.#isLeaving && this.#callCount === 0) this.#session.close()
  }

  /** Data went out: the client may have pinged to measure it, and our own pings count anew. */
  readonly sent = (): void => {
    this.#strikes = 0
    this.#lastPingNs = -Infinity
    this.#pingsWithoutData = 0
  }

  /** Tells the client to go elsewhere, and closes once its calls have ended. */
  leave(): void {
    if (this.#isLeaving || this.#session.destroyed) return
    this.#isLeaving = true
    // A notice first: calls on their way are still answered.
    this.#session.goaway(constants.NGHTTP2_NO_ERROR, 2 ** 31 - 1)
    if (this.#callCount === 0) this.#session.close()
  }

  close(): void {
    for (const cancel of this.#timers) cancel()
    this.#timers.clear()
  }

  #after(delayNs: number, fire: () => void): Cancel {
    const cancel = this.#clock.after(delayNs, () => {
      this.#timers.delete(cancel)
      if (!this.#session.destroyed) fire()
    })
    this.#timers.add(cancel)
    return () => {
      this.#timers.delete(cancel)
      cancel()
    }
  }

  #scheduleKeepalive(): void {
    this.#after(this.#options.keepaliveTimeMs * 1e6, () => {
      this.#keepAlive()
      this.#scheduleKeepalive()
    })
  }

  #keepAlive(): void {
    const { keepaliveWithoutCalls, maxPingsWithoutData, keepaliveTimeoutMs } = this.#options
    if (this.#callCount === 0 && !keepaliveWithoutCalls) return
    if (maxPingsWithoutData > 0 && this.#pingsWithoutData >= maxPingsWithoutData) return
    this.#pingsWithoutData++
    const giveUp = this.#after(keepaliveTimeoutMs * 1e6, () => this.#session.destroy())
    if (!this.#session.ping(giveUp)) giveUp()
  }

  #onPing(): void {
    const { maxPingStrikes, minPingIntervalMs, keepaliveWithoutCalls } = this.#options
    const nowNs = this.#clock.nowNs()
    const isIdle = this.#callCount === 0 && !keepaliveWithoutCalls
    const leastNs = isIdle ? idlePingIntervalNs : minPingIntervalMs * 1e6
    const isTooSoon = nowNs - this.#lastPingNs < leastNs
    this.#lastPingNs = nowNs
    if (!isTooSoon || maxPingStrikes === 0 || ++this.#strikes <= maxPingStrikes) return
    if (this.#isLeaving) return
    this.#isLeaving = true
    // gRPC's clients know these words, and ping less when they come back. They need a moment to arrive.
    this.#session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, 0, Buffer.from('too_many_pings'))
    this.#after(farewellNs, () => this.#session.destroy())
  }

  #limitAge(): void {
    const { maxConnectionAgeMs, maxConnectionAgeGraceMs } = this.#options
    const jitter = 1 + ageJitter * (2 * Math.random() - 1)
    this.#after(maxConnectionAgeMs * jitter * 1e6, () => {
      this.leave()
      if (maxConnectionAgeGraceMs > 0) this.#after(maxConnectionAgeGraceMs * 1e6, () => this.#session.destroy())
    })
  }
}
