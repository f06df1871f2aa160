// Pieces of a request's body that wait while the call is paused. Flow control bounds their sum. Pieces are copied, because the
// bytes of the socket are lent, and small ones together.

const blockBytes = 16 * 1024

export class HeldPieces {
  #pieces: Buffer[] = []
  /** Bytes used of the last piece where that is a block of copies; -1 where it is one piece. */
  #used = -1

  get isEmpty(): boolean {
    return this.#pieces.length === 0
  }

  add(piece: Buffer): void {
    if (piece.length >= blockBytes) {
      this.#seal()
      this.#pieces.push(Buffer.from(piece))
      return
    }
    let block = this.#pieces.at(-1)
    if (block === undefined || this.#used < 0 || this.#used + piece.length > block.length) {
      this.#seal()
      block = Buffer.allocUnsafeSlow(blockBytes)
      this.#pieces.push(block)
      this.#used = 0
    }
    block.set(piece, this.#used)
    this.#used += piece.length
  }

  /** The oldest piece; must not be called when empty. */
  take(): Buffer {
    if (this.#pieces.length === 1) this.#seal()
    return this.#pieces.shift() as Buffer
  }

  #seal(): void {
    const last = this.#pieces.length - 1
    if (this.#used >= 0 && last >= 0) this.#pieces[last] = (this.#pieces[last] as Buffer).subarray(0, this.#used)
    this.#used = -1
  }
}
