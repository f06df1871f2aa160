import {
  behindAtBytes,
  behindAtPieces,
  caughtUpShare,
  pieceOverheadBytes,
  type ResponseStream,
} from './http-message.ts'

/** Frames chunks and puts them into a socket. */
export type ChunkWriter = {
  /** Calls `onTaken` when the system has taken the bytes. */
  write(piece: Uint8Array, onTaken: () => void): unknown
  end(): unknown
  destroy(): unknown
}

/** The pieces of one streamed answer on their way into a socket, counted until the system has taken them. */
export class ChunkedAnswer implements ResponseStream {
  onDrain: (() => void) | null = null
  unreadBytes = 0
  readonly #response: ChunkWriter
  readonly #onEnd: () => void
  #unreadPieces = 0
  #isBehind = false
  #isOver = false

  constructor(response: ChunkWriter, onEnd: () => void) {
    this.#response = response
    this.#onEnd = onEnd
  }

  /** HOT: once per streamed response. Copies: none. */
  write(piece: Uint8Array): boolean {
    if (this.#isOver) return true
    const cost = piece.length + pieceOverheadBytes
    this.unreadBytes += cost
    this.#unreadPieces++
    this.#response.write(piece, () => this.#onTaken(cost))
    if (this.#unreadPieces >= behindAtPieces || this.unreadBytes >= behindAtBytes) this.#isBehind = true
    return !this.#isBehind
  }

  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.onDrain = null
    this.#response.end()
    this.#onEnd()
  }

  abort(): void {
    if (this.#isOver) return
    this.drop()
    this.#response.destroy()
  }

  /** The client is gone. */
  drop(): void {
    this.#isOver = true
    this.onDrain = null
  }

  #onTaken(cost: number): void {
    this.unreadBytes -= cost
    this.#unreadPieces--
    if (!this.#isBehind) return
    if (this.#unreadPieces > behindAtPieces / caughtUpShare) return
    if (this.unreadBytes > behindAtBytes / caughtUpShare) return
    this.#isBehind = false
    this.onDrain?.()
  }
}
