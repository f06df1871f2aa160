// Large bodies that arrive at the same time are read one after the other, as far as their clients keep up. Two bodies of which
// each had half of the reads would both be whole after the time of both, and no model could begin before.

/** After so many bytes of one body the others come first. */
const turnBytes = 32 * 1024 * 1024

/** The body that a connection receives now. */
export interface ArrivingBody {
  /** Reads nothing until `letGo`. */
  hold(): void
  letGo(): void
}

type Turn = { readonly body: ArrivingBody; bytes: number; hasRead: boolean }

export class ReadingTurns {
  readonly #later: (look: () => void) => void
  /** The one that began first comes first. */
  readonly #turns: Turn[] = []
  #isLooking = false

  constructor(later: (look: () => void) => void = setImmediate) {
    this.#later = later
  }

  /** So many bytes came, as many as the system had, and more of the body are to come. */
  onRead(body: ArrivingBody, bytes: number): void {
    const at = this.#indexOf(body)
    const turn = this.#turns[at] ?? { body, bytes: 0, hasRead: false }
    turn.bytes += bytes
    turn.hasRead = true
    if (at < 0) this.#turns.push(turn)
    else if (turn.bytes > turnBytes) {
      turn.bytes = 0
      this.#turns.push(...this.#turns.splice(at, 1))
    }
    if (this.#turns.length > 1) this.#lookLater()
  }

  /** The body is whole, or its connection is gone. */
  onEnd(body: ArrivingBody): void {
    const at = this.#indexOf(body)
    if (at >= 0) this.#turns.splice(at, 1)
  }

  #indexOf(body: ArrivingBody): number {
    return this.#turns.findIndex((turn) => turn.body === body)
  }

  #lookLater(): void {
    if (this.#isLooking) return
    this.#isLooking = true
    this.#later(() => this.#look())
  }

  /** Once per turn of the event loop. Bodies are held only as long as one before them was read in the last turn, so nobody waits for a client that sends nothing. */
  #look(): void {
    this.#isLooking = false
    const reading = this.#turns.findIndex((turn) => turn.hasRead)
    for (const [i, turn] of this.#turns.entries()) {
      turn.hasRead = false
      if (reading >= 0 && i > reading) turn.body.hold()
      else turn.body.letGo()
    }
    if (reading >= 0 && this.#turns.length > reading + 1) this.#lookLater()
  }
}
