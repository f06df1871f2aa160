// What happens on a connection beside its calls: the server's keep-alive pings, limits on the client's pings, the age.

import type { Cancel, Clock } from '../../base/clock.ts'
import type { GrpcTransportOptions } from './grpc-transport-options.ts'
import { errorCodes } from '../http2/http2-format.ts'
import type { Http2Connection } from '../http2/http2-connection.ts'

/** The least time between two pings of a client without a call, as in gRPC's own servers. */
const idlePingIntervalNs = 7_200e9
/** A connection whose client has not sent its settings by then is closed. */
const prefaceTimeoutNs = 10e9
/** How long a client has to close its side after the last frame to it. */
const farewellNs = 1e9
/** The age limit differs by this share between connections, so that clients do not all connect anew at once. */
const ageJitter = 0.1

export class ConnectionKeeper {
  readonly #connection: Http2Connection
  readonly #clock: Clock
  readonly #options: GrpcTransportOptions
  readonly #timers = new Set<Cancel>()
  #callCount = 0
  /** Calls since the connection was opened, and how many they were when the connection was first seen idle. */
  #begunCount = 0
  #begunWhenIdle = -1
  #idleSinceNs = 0
  #strikes = 0
  #lastPingNs = -Infinity
  #pingsWithoutData = 0
  #isLeaving = false
  #disarmPreface: Cancel
  /** The number of the last ping, which the ping carries: the answer to an older ping proves nothing. */
  readonly #ping = Buffer.alloc(8)
  #disarmPing: Cancel | null = null

  constructor(connection: Http2Connection, clock: Clock, options: GrpcTransportOptions) {
    this.#connection = connection
    this.#clock = clock
    this.#options = options
    this.#disarmPreface = this.#after(prefaceTimeoutNs, () => connection.destroy())
    if (options.keepaliveTimeMs > 0 && options.keepaliveTimeMs < 0x7fffffff) this.#scheduleKeepalive()
    if (options.maxConnectionAgeMs > 0) this.#limitAge()
  }

  get callCount(): number {
    return this.#callCount
  }

  callBegun(): void {
    this.#callCount++
    this.#begunCount++
  }

  callEnded(): void {
    this.#callCount--
    if (this.#isLeaving && this.#callCount === 0) this.#part()
  }

  /** Closes a connection that had no call for too long. */
  sweep(nowNs: number): void {
    if (this.#callCount > 0 || this.#begunCount !== this.#begunWhenIdle) {
      this.#begunWhenIdle = this.#callCount > 0 ? -1 : this.#begunCount
      this.#idleSinceNs = nowNs
    } else if (nowNs - this.#idleSinceNs >= this.#options.idleTimeoutMs * 1e6) this.leave()
  }

  onSettings(): void {
    this.#disarmPreface()
  }

  /**
   * HOT: once per flush. Some of an answer was written. A client may ping to measure the connection while it takes one large
   * answer, so its strikes are forgiven with every part; the server's pings count anew.
   */
  sent(): void {
    this.#strikes = 0
    this.#lastPingNs = -Infinity
    this.#pingsWithoutData = 0
  }

  /** Tells the client to go elsewhere, and closes once its calls have ended. */
  leave(): void {
    if (this.#isLeaving || this.#connection.isDestroyed) return
    this.#isLeaving = true
    // This GOAWAY is a notice: calls that are on their way are still answered.
    this.#connection.sendGoaway(errorCodes.NO_ERROR, false, '')
    if (this.#callCount === 0) this.#part()
  }

  /** The last frame was sent. A client that does not close its side soon is cut off. */
  onEnded(): void {
    this.#isLeaving = true
    this.#after(farewellNs, () => this.#connection.destroy())
  }

  #part(): void {
    this.#connection.sendGoaway(errorCodes.NO_ERROR, true, '')
    this.#connection.end()
    this.onEnded()
  }

  close(): void {
    for (const cancel of this.#timers) cancel()
    this.#timers.clear()
  }

  #after(delayNs: number, fire: () => void): Cancel {
    const cancel = this.#clock.after(delayNs, () => {
      this.#timers.delete(cancel)
      if (!this.#connection.isDestroyed) fire()
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
    this.#disarmPing?.()
    this.#disarmPing = this.#after(keepaliveTimeoutMs * 1e6, () => this.#connection.destroy())
    this.#ping.writeUInt32BE((this.#ping.readUInt32BE(4) + 1) % 2 ** 32, 4)
    this.#connection.sendPing(this.#ping)
  }

  onPingAnswer(payload: Buffer): void {
    if (!payload.equals(this.#ping)) return
    this.#disarmPing?.()
    this.#disarmPing = null
  }

  onPing(): void {
    const { maxPingStrikes, minPingIntervalMs, keepaliveWithoutCalls } = this.#options
    const nowNs = this.#clock.nowNs()
    const isIdle = this.#callCount === 0 && !keepaliveWithoutCalls
    const leastNs = isIdle ? idlePingIntervalNs : minPingIntervalMs * 1e6
    const isTooSoon = nowNs - this.#lastPingNs < leastNs
    this.#lastPingNs = nowNs
    if (!isTooSoon || maxPingStrikes === 0 || ++this.#strikes <= maxPingStrikes) return
    if (this.#isLeaving) return
    // gRPC's clients know this text: they ping less on their next connection.
    this.#connection.sendGoaway(errorCodes.ENHANCE_YOUR_CALM, true, 'too_many_pings')
    this.#connection.end()
    this.onEnded()
  }

  #limitAge(): void {
    const { maxConnectionAgeMs, maxConnectionAgeGraceMs } = this.#options
    const jitter = 1 + ageJitter * (2 * Math.random() - 1)
    this.#after(maxConnectionAgeMs * jitter * 1e6, () => {
      this.leave()
      if (maxConnectionAgeGraceMs > 0) this.#after(maxConnectionAgeGraceMs * 1e6, () => this.#connection.destroy())
    })
  }
}
