// What one turn writes to one socket. Small pieces are copied together in a slab, large ones go out as views between
// them. One for all connections: it is filled and emptied within one call. HOT.

import type { Writable } from 'node:stream'

const slabBytes = 64 * 1024

export class FrameOutput {
  #slab = Buffer.allocUnsafeSlow(slabBytes)
  /** Of what is in the slab and not yet among the pieces. */
  #start = 0
  #at = 0
  readonly #pieces: Uint8Array[] = []
  #pieceBytes = 0
  /** Where this turn began in the slab. */
  #turnStart = 0
  readonly #releases: (() => void)[] = []

  get byteLength(): number {
    return this.#pieceBytes + this.#at - this.#start
  }

  /** Where `bytes` bytes may be written, at `offset`. */
  reserve(bytes: number): Buffer {
    if (this.#at + bytes > this.#slab.length) {
      this.#cut()
      this.#slab = Buffer.allocUnsafeSlow(Math.max(slabBytes, bytes))
      this.#turnStart = 0
      this.#start = 0
      this.#at = 0
    }
    return this.#slab
  }

  /** In the buffer that `reserve` gave; set it behind what was written. */
  get offset(): number {
    return this.#at
  }

  set offset(at: number) {
    this.#at = at
  }

  copy(bytes: Uint8Array): void {
    this.reserve(bytes.length).set(bytes, this.#at)
    this.#at += bytes.length
  }

  /** The bytes must not change until what `whenWritten` was told has been called. */
  addView(bytes: Uint8Array): void {
    this.#cut()
    this.#pieces.push(bytes)
    this.#pieceBytes += bytes.length
  }

  whenWritten(release: () => void): void {
    this.#releases.push(release)
  }

  /** Hands everything to the socket. */
  writeTo(socket: Writable): void {
    const releases = this.#releases.length === 0 ? null : this.#releases.splice(0)
    const done = releases === null ? undefined : () => callAll(releases)
    if (this.#pieces.length === 0) {
      if (this.#at > this.#start) socket.write(this.#slab.subarray(this.#start, this.#at), done)
      else done?.()
    } else {
      this.#cut()
      socket.cork()
      const last = this.#pieces.length - 1
      for (let i = 0; i < last; i++) socket.write(this.#pieces[i])
      socket.write(this.#pieces[last], done)
      socket.uncork()
      this.#pieces.length = 0
      this.#pieceBytes = 0
    }
    this.#reuse(socket.writableLength === 0)
  }

  /** What the system has taken already need not be kept: the same bytes of the slab serve again. */
  #reuse(isWritten: boolean): void {
    if (isWritten) this.#at = this.#turnStart
    this.#start = this.#at
    this.#turnStart = this.#at
  }

  #cut(): void {
    if (this.#at === this.#start) return
    this.#pieces.push(this.#slab.subarray(this.#start, this.#at))
    this.#pieceBytes += this.#at - this.#start
    this.#start = this.#at
  }
}

function callAll(releases: readonly (() => void)[]): void {
  for (const release of releases) release()
}
