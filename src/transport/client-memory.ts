// One budget for all memory that is held for clients, whatever the protocol: request bodies at their inflated size, halves of
// messages, requests that wait for their model, answers that clients have not taken. The transports count. No endpoint and no
// method has to think of it, and none can leave it out.

import { InflateQueue } from './inflate-queue.ts'
import { LargeBuffers, type PinnedSource } from './large-buffers.ts'

/** Up to this size a request may use the whole budget. Larger requests leave a quarter of it to the small ones. */
const smallBytes = 64 * 1024
const largeShare = 3 / 4
/** What the requests of one connection may hold; above that the connection's next messages wait. */
const connectionShare = 1 / 4
/** The same while the requests of all connections hold more than half of the budget: what waits unsent costs less than what is refused. */
const connectionShareUnderPressure = 1 / 64
const requestPressureShare = 1 / 2
/**
 * Beside a GPU no more than what is pinned counts in place of that half, but at least so much: a GPU takes bodies in plain memory more slowly
 * than they may come, and the backlog stayed.
 */
const leastPinnedPressureBytes = 64 * 1024 * 1024
/** What all inflated bodies together may hold. Inflating is how a client that sends little makes the server hold much. */
const inflatedShare = 1 / 8
/** What is kept of the memory of large bodies that were answered, beside the budget: with less a backlog of them is read more slowly. */
const keptShare = 1 / 2
/** Above this share of unread answers the connections are held to the smaller of the two bounds below. */
const unreadPressureShare = 1 / 8
/** With so many unread bytes no further message of the connection is read until its client has taken some. */
const mostUnreadBytes = 16 * 1024 * 1024
const mostUnreadBytesUnderPressure = 1024 * 1024

/** The default of `--client-memory-limit`. */
const defaultLimitBytes = 1024 * 1024 * 1024

export class ClientMemory {
  readonly limitBytes: number
  /** Bodies and messages of requests that have no answer yet, and what came of them so far. */
  requestBytes = 0
  /** Answers that clients have not taken. */
  answerBytes = 0
  /** The part of `requestBytes` that came out of compressed bodies. */
  inflatedBytes = 0
  /** Requests and answers for which there was no room. */
  refusedCount = 0
  /** Messages over gRPC that somebody works on: when the work is done, memory comes back. */
  inWorkCount = 0
  /** Who waits for memory of requests; each is told when some comes back. */
  readonly waiting = new Set<() => void>()
  /** One queue for all ports: what one port gives back makes room for another. */
  readonly inflations: InflateQueue
  /** What one connection may hold. */
  readonly connectionLimitBytes: number
  readonly bodies: LargeBuffers
  readonly pinned: PinnedSource | null
  readonly #connectionLimitUnderPressure: number
  readonly #requestPressureBytes: number
  readonly #largeLimitBytes: number
  readonly #pressureBytes: number

  /** `pinned`: where there is a GPU. `mostInflatedPerByte`: Infinity for no bound. */
  constructor(
    limitBytes: number = defaultLimitBytes,
    pinned: PinnedSource | null = null,
    mostInflatedPerByte?: number,
  ) {
    this.limitBytes = limitBytes
    this.inflations = new InflateQueue(mostInflatedPerByte)
    this.pinned = pinned
    this.bodies = new LargeBuffers(limitBytes * keptShare, pinned)
    // Whole numbers: requests compare with these limits.
    this.#largeLimitBytes = Math.floor(limitBytes * largeShare)
    this.#pressureBytes = Math.floor(limitBytes * unreadPressureShare)
    this.connectionLimitBytes = Math.floor(limitBytes * connectionShare)
    this.#connectionLimitUnderPressure = Math.floor(limitBytes * connectionShareUnderPressure)
    const pinnedBytes = pinned?.limitBytes ?? 0
    const mostBytes = pinnedBytes === 0 ? Infinity : Math.max(pinnedBytes, leastPinnedPressureBytes)
    this.#requestPressureBytes = Math.min(Math.floor(limitBytes * requestPressureShare), mostBytes)
  }

  /** HOT: once per request. */
  hasRoom(bytes: number): boolean {
    const limitBytes = bytes > smallBytes ? this.#largeLimitBytes : this.limitBytes
    return this.requestBytes + this.answerBytes + bytes <= limitBytes
  }

  /** Whether a body may be inflated to so many bytes now. One body always may, if it has room in the budget. */
  hasRoomToInflate(bytes: number): boolean {
    return this.inflatedBytes === 0 || this.inflatedBytes + bytes <= this.limitBytes * inflatedShare
  }

  /** True: clients leave so much unread that those who take nothing get no more. */
  get isPressed(): boolean {
    return this.answerBytes > this.#pressureBytes
  }

  get unreadLimitBytes(): number {
    return this.isPressed ? mostUnreadBytesUnderPressure : mostUnreadBytes
  }

  /** Whether a connection that holds so many bytes of requests must wait with its next message. HOT: once per request. */
  isTooMuchOfOne(requestBytes: number): boolean {
    if (requestBytes <= this.#connectionLimitUnderPressure) return false
    return requestBytes > this.connectionLimitBytes || this.requestBytes > this.#requestPressureBytes
  }

  /** Whether requests would hold more than half of the budget with so many more bytes, or more than is pinned. */
  isPressedBy(bytes: number): boolean {
    return this.requestBytes + bytes > this.#requestPressureBytes
  }

  /** Counts a refusal, and says why. */
  refuse(bytes: number): string {
    this.refusedCount++
    return (
      `the server has no memory for ${bytes} more bytes of clients: it holds ${this.requestBytes + this.answerBytes} of at ` +
      `most ${this.limitBytes}, and large requests leave a quarter free, try again later. ` +
      'Use --client-memory-limit to increase the limit.'
    )
  }
}

/** What one connection holds. */
export class ConnectionMemory {
  readonly server: ClientMemory
  requestBytes = 0
  answerBytes = 0
  /** Messages that somebody works on: when the work is done, memory comes back. */
  inWorkCount = 0
  #takenBytes = 0
  #takenAtSweep = 0
  #takesNothing = false

  constructor(server: ClientMemory) {
    this.server = server
  }

  /** HOT: once per request. False: there is no room, and nothing is counted. */
  reserve(bytes: number): boolean {
    if (!this.server.hasRoom(bytes)) return false
    this.requestBytes += bytes
    this.server.requestBytes += bytes
    return true
  }

  release(bytes: number): void {
    this.requestBytes -= bytes
    this.server.requestBytes -= bytes
    if (this.server.waiting.size > 0) for (const look of this.server.waiting) look()
  }

  /** More messages that somebody works on, or fewer. */
  changeWork(count: number): void {
    this.inWorkCount += count
    this.server.inWorkCount += count
  }

  /** More unread bytes of answers, or fewer. */
  changeAnswers(bytes: number): void {
    this.answerBytes += bytes
    this.server.answerBytes += bytes
    if (bytes < 0) this.#takenBytes -= bytes
  }

  /** From the transport, every second. */
  sweep(): void {
    this.#takesNothing = this.answerBytes > 0 && this.#takenBytes === this.#takenAtSweep
    this.#takenAtSweep = this.#takenBytes
  }

  /**
   * True: the client takes too little of its answers, or has sent too much at once. Its next message waits, for as long as somebody works
   * on others: halves of messages alone give no memory back, and a client that sends many at a time would wait for ever.
   */
  get isFull(): boolean {
    // Nearly every connection owes little: one comparison.
    if (this.answerBytes > mostUnreadBytesUnderPressure && this.answerBytes > this.server.unreadLimitBytes) return true
    return this.inWorkCount > 0 && this.server.isTooMuchOfOne(this.requestBytes)
  }

  /**
   * Whether an answer of so many bytes may be kept. One answer of a connection that owes nothing needs room in the budget only. A client
   * that reads may be a quarter of the budget behind, one that has taken nothing for a second gets no more under pressure.
   */
  hasRoomForAnswer(bytes: number): boolean {
    const { server } = this
    if (this.answerBytes > 0) {
      const isHeldShort = this.#takesNothing && server.isPressed
      const limitBytes = isHeldShort ? mostUnreadBytesUnderPressure : server.connectionLimitBytes
      if (this.answerBytes + bytes > limitBytes) return false
    }
    return server.hasRoom(bytes)
  }

  /** The connection is gone, and with it everything that was held for it. */
  close(): void {
    this.release(this.requestBytes)
    this.changeAnswers(-this.answerBytes)
    this.changeWork(-this.inWorkCount)
  }
}
