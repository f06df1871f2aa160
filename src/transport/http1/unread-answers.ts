import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'

/** The part of a socket that tells whether its client reads. */
type WatchedSocket = {
  /** Bytes that the socket has not written yet. A large piece counts as a whole until its last byte is written. */
  readonly writableLength: number
  destroy(): unknown
}

type Stall = { readonly marker: string; readonly sinceNs: number }

/** How often per time-out the sockets are looked at. A client is given up after 1 to 1.25 times the time-out. */
const looksPerTimeout = 4

/**
 * Closes connections whose client takes no byte of its answer. A look at all sockets now and then costs less than a
 * timer for each answer, and what the client sends meanwhile does not count as reading.
 */
export class UnreadAnswers {
  readonly #clock: Clock
  readonly #log: Log
  readonly #timeoutMs: number
  readonly #sockets: () => Iterable<WatchedSocket>
  #stalls = new Map<WatchedSocket, Stall>()
  #cancel: Cancel | null = null

  constructor(
    dependencies: { readonly clock: Clock; readonly log: Log },
    timeoutMs: number,
    sockets: () => Iterable<WatchedSocket>,
  ) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('unread-answers.ts')
    this.#timeoutMs = timeoutMs
    this.#sockets = sockets
  }

  start(): void {
    this.#cancel = this.#clock.after((this.#timeoutMs * 1e6) / looksPerTimeout, () => {
      this.#look()
      this.start()
    })
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = null
  }

  #look(): void {
    const nowNs = this.#clock.nowNs()
    const stalls = new Map<WatchedSocket, Stall>()
    for (const socket of this.#sockets()) {
      if (socket.writableLength === 0) continue
      const marker = `${socket.writableLength} ${queuedBytes(socket)}`
      const before = this.#stalls.get(socket)
      if (before === undefined || before.marker !== marker) {
        stalls.set(socket, { marker, sinceNs: nowNs })
      } else if (nowNs - before.sinceNs >= this.#timeoutMs * 1e6) {
        this.#log.verbose('closing an HTTP connection whose client reads no answer', { unread: socket.writableLength })
        socket.destroy()
      } else stalls.set(socket, before)
    }
    this.#stalls = stalls
  }
}

/** Bytes of the piece under way that the system has not taken yet. Node's own idle time-out reads the same number. */
function queuedBytes(socket: WatchedSocket): number {
  const handle = (socket as { _handle?: { writeQueueSize?: number } | null })._handle
  return handle?.writeQueueSize ?? 0
}
