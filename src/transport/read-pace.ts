// How much is read from all sockets in one turn of the event loop. The system's loop reads a socket that always has more as often as 32
// times before it looks at the next one: 2 MiB of frames of 13 bytes take 35 ms, and twenty such clients most of a second.

/** What one socket is told: it reads nothing until `goOn`. */
export interface PacedSocket {
  goOn(): void
}

/** Of bytes that are looked at one by one, as heads, frames and small bodies. At most 30 ns for each byte. */
const mostBytes = 1024 * 1024
/** Below this nobody asks for a new turn: a small request costs an addition. */
const freeBytes = 256 * 1024

export class ReadPace {
  readonly #later: (renew: () => void) => void
  #held: PacedSocket[] = []
  #bytes = 0
  #isRenewing = false

  constructor(later: (renew: () => void) => void = setImmediate) {
    this.#later = later
  }

  /** So many bytes were read. False: the socket is to be read no further in this turn. HOT: once per read. */
  mayGoOn(socket: PacedSocket, bytes: number): boolean {
    this.#bytes += bytes
    if (this.#bytes <= freeBytes) return true
    if (!this.#isRenewing) {
      this.#isRenewing = true
      this.#later(() => this.#renew())
    }
    if (this.#bytes <= mostBytes) return true
    this.#held.push(socket)
    return false
  }

  #renew(): void {
    const held = this.#held
    this.#held = []
    this.#bytes = 0
    this.#isRenewing = false
    for (const socket of held) socket.goOn()
  }
}

/** There is one event loop, so its sockets share the pace. */
export const readPace = new ReadPace()
