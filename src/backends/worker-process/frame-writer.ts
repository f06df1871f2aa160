// Writes frames to a worker with few system calls. It uses a Node stream only when the socket is full.

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

  /** Writes now, or with the other frames after `release`. */
  write(frame: Buffer): void {
    this.#waiting.push(frame)
    if (!this.#isHeld) this.#flush()
  }

  /** Writes with the next frame, at the latest at the end of this turn of the event loop. */
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

  /** The descriptor is about to be closed, and the system may reuse its number. */
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

/** How many bytes the socket took; 0 when it is full or its other end is gone. The stream then gets that error. */
function writeNow(fd: number, frames: readonly Buffer[]): number {
  try {
    return frames.length === 1 ? writeSync(fd, frames[0] as Buffer) : writevSync(fd, frames)
  } catch {
    return 0
  }
}
