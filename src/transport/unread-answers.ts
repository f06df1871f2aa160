import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'

/** The part of a socket that tells whether its client reads. */
type WatchedSocket = {
  /** Bytes that the socket has not written yet. A large piece counts as a whole until its last byte is written. */
  readonly writableLength: number
  /** Bytes that were given to the socket. */
  readonly bytesWritten: number
  destroy(): unknown
}

type Stall = { readonly takenBytes: number; readonly sinceNs: number }

/** How often per time-out the sockets are looked at. A client is given up after 1 to 1.25 times the time-out. */
const looksPerTimeout = 4
/** A client that takes less than this in a whole time-out, and leaves more, does not read. */
const leastTakenBytes = 4096

/**
 * Closes connections whose client takes nothing of its answers. A look at all sockets now and then costs less than a timer
 * for each answer. Only bytes that the client takes count: neither what it sends nor what is written for it meanwhile does.
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
      const takenBytes = takenFrom(socket)
      const before = this.#stalls.get(socket)
      if (before === undefined || takenBytes - before.takenBytes >= leastTakenBytes) {
        stalls.set(socket, { takenBytes, sinceNs: nowNs })
      } else if (nowNs - before.sinceNs >= this.#timeoutMs * 1e6) {
        this.#log.verbose('closing a connection whose client reads no answer', { unread: socket.writableLength })
        socket.destroy()
      } else stalls.set(socket, before)
    }
    this.#stalls = stalls
  }
}

/** Bytes that the system has taken. Of a piece under way Node knows only the bytes that are left (`writeQueueSize`). */
function takenFrom(socket: WatchedSocket): number {
  const handle = (socket as { _handle?: { bytesWritten?: number; writeQueueSize?: number } | null })._handle
  if (typeof handle?.bytesWritten !== 'number') return socket.bytesWritten - socket.writableLength
  return handle.bytesWritten - (handle.writeQueueSize ?? 0)
}
