// Gathers a request's body into one buffer. A body that comes in one piece is used as it is; else what is set aside stays
// below sixteen times what has arrived, whatever size the client announced, and is not touched before bytes come for it.

const firstBytes = 16 * 1024
const growth = 16

/** More pieces than this in a chunked body are refused: each costs far more to take in than the few bytes it brings. */
const mostPieces = 65536

/** A body over the limit is heard out, so that its client comes to read the answer, but not beyond this many times it. */
const patience = 16

export type BodyRefusal = 'too-large' | 'too-many-chunks' | 'no-memory'
export type BodyState = 'receiving' | 'complete' | BodyRefusal

export class BodyCollector {
  readonly #limitBytes: number
  readonly #allocate: (bytes: number) => Buffer
  /** -1: a chunked body. */
  readonly #announcedBytes: number
  #buffer: Buffer | null = null
  #receivedBytes = 0
  #pieceCount = 0
  #state: BodyState

  constructor(announcedBytes: number, limitBytes: number, allocate: (bytes: number) => Buffer = allocateFresh) {
    this.#allocate = allocate
    this.#announcedBytes = announcedBytes
    this.#limitBytes = limitBytes
    this.#state = announcedBytes > limitBytes ? 'too-large' : 'receiving'
  }

  get state(): BodyState {
    return this.#state
  }

  /** What was announced, or what came, kept or not. */
  get bodyBytes(): number {
    return Math.max(this.#receivedBytes, this.#announcedBytes)
  }

  /** The rest of the body is not worth waiting for: answer now and close. */
  get isBeyondPatience(): boolean {
    if (this.#state === 'too-many-chunks' || this.#state === 'no-memory') return true
    return this.#state === 'too-large' && this.bodyBytes > this.#limitBytes * patience
  }

  /** From here on pieces are copied as they come. */
  get hasBegun(): boolean {
    return this.#receivedBytes > 0
  }

  /** Takes the first piece over. Once the body is refused, pieces are only counted. */
  add(piece: Buffer): void {
    const before = this.#receivedBytes
    this.#receivedBytes = before + piece.length
    if (this.#state !== 'receiving') return
    this.#pieceCount++
    if (this.#receivedBytes > this.#limitBytes) this.#refuse('too-large')
    else if (this.#announcedBytes < 0 && this.#pieceCount > mostPieces) this.#refuse('too-many-chunks')
    else if (before === 0) this.#buffer = piece
    else this.#append(piece, before)
  }

  /** The body, in one piece. */
  finish(): Buffer {
    if (this.#state === 'receiving') this.#state = 'complete'
    const buffer = this.#buffer
    this.#buffer = null
    return buffer === null ? noBytes : buffer.subarray(0, this.#receivedBytes)
  }

  #append(piece: Buffer, offset: number): void {
    let buffer = this.#buffer as Buffer
    if (this.#receivedBytes > buffer.length || offset === buffer.length) {
      const larger = this.#grown()
      if (larger === null) return
      buffer.copy(larger, 0, 0, offset)
      buffer = larger
      this.#buffer = larger
    }
    piece.copy(buffer, offset)
  }

  /** Null when the system has no more memory: that is this request's end, not the server's. */
  #grown(): Buffer | null {
    try {
      return this.#allocate(this.#capacityFor(this.#receivedBytes))
    } catch {
      this.#refuse('no-memory')
      return null
    }
  }

  #capacityFor(neededBytes: number): number {
    const wanted = Math.max(neededBytes * growth, firstBytes)
    if (this.#announcedBytes >= 0) return Math.max(neededBytes, Math.min(wanted, this.#announcedBytes))
    // Nobody said how long a chunked body gets: double it, so that little is set aside in vain.
    return Math.min(Math.max(neededBytes * 2, Math.min(firstBytes, this.#limitBytes)), this.#limitBytes)
  }

  #refuse(state: BodyRefusal): void {
    this.#state = state
    this.#buffer = null
  }
}

const allocateFresh = (bytes: number): Buffer => Buffer.allocUnsafeSlow(bytes)

const noBytes = Buffer.alloc(0)
