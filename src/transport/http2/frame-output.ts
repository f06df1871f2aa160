// The bytes of one write to one socket. Small pieces are copied together in a slab, large pieces stay views. The server has
// one for all connections, because it is filled and emptied within one call. HOT.

import type { Writable } from 'node:stream'

const slabBytes = 64 * 1024

export class FrameOutput {
  #slab = Buffer.allocUnsafeSlow(slabBytes)
  /** Where the bytes begin that are in the slab and not yet among the pieces. */
  #start = 0
  #at = 0
  readonly #pieces: Uint8Array[] = []
  #pieceBytes = 0
  /** Where the bytes of this write begin in the slab. */
  #turnStart = 0
  readonly #releases: (() => void)[] = []

  get byteLength(): number {
    return this.#pieceBytes + this.#at - this.#start
  }

  /** Gives a buffer in which `bytes` bytes may be written at `offset`. */
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

  /** A place in the buffer of `reserve`. The writer moves it behind what it wrote. */
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

  /** The bytes must not change until the callbacks of `whenWritten` were called. */
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

  /** When the system has taken all bytes, their place in the slab is used again. */
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
