// Frames on their way to a worker: few system calls, and none of the machinery of a stream unless the socket is full.

import { writeSync, writevSync } from 'node:fs'
import type { Writable } from 'node:stream'

export class FrameWriter {
  readonly #socket: Writable
  /** The socket's descriptor, which never blocks; null when there is only the stream. */
  readonly #fd: number | null
  #waiting: Buffer[] = []
  #isHeld = false
  #isFlushDue = false
  #isClosed = false

  constructor(socket: Writable, fd: number | null) {
    this.#socket = socket
    this.#fd = fd
  }

  /** Leaves now, or with the others when frames are held. */
  write(frame: Buffer): void {
    this.#waiting.push(frame)
    if (!this.#isHeld) this.#flush()
  }

  /** Leaves with the next frame, at the latest when this turn of the event loop is over. */
  writeSoon(frame: Buffer): void {
    this.#waiting.push(frame)
    if (this.#isHeld || this.#isFlushDue) return
    this.#isFlushDue = true
    setImmediate(() => {
      this.#isFlushDue = false
      this.#flush()
    })
  }

  /** Collects frames until `release`, which writes them in one call. */
  hold(): void {
    this.#isHeld = true
  }

  release(): void {
    this.#isHeld = false
    this.#flush()
  }

  /** The descriptor is about to be closed, and its number may soon be somebody else's. */
  close(): void {
    this.#isClosed = true
    this.#waiting = []
  }

  // HOT: once per batch or less. bench/python-infer.bench.ts
  #flush(): void {
    const frames = this.#waiting
    if (frames.length === 0 || this.#isClosed) return
    this.#waiting = []
    let written = 0
    // Bytes that the stream still holds must go first. And a stream that has ended may have closed the descriptor.
    const canWrite = this.#socket.writable && this.#socket.writableLength === 0
    if (this.#fd !== null && canWrite) written = writeNow(this.#fd, frames)
    for (const frame of frames) {
      if (written >= frame.length) written -= frame.length
      else {
        this.#socket.write(written === 0 ? frame : frame.subarray(written))
        written = 0
      }
    }
  }
}

/** The bytes that the socket took; 0 when it is full or its other end is gone, which the stream then sees for itself. */
function writeNow(fd: number, frames: readonly Buffer[]): number {
  try {
    return frames.length === 1 ? writeSync(fd, frames[0] as Buffer) : writevSync(fd, frames)
  } catch {
    return 0
  }
}
