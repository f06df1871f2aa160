// Everything a connection has to send: control frames first, then its streams in turn, as far as the client's windows and
// the socket allow. The queue is written once per turn of the event loop, in one piece where it is small.

import type { Writable } from 'node:stream'

import { defaultWindowBytes, errorCodes, largestWindowBytes, leastMaxFrameBytes } from './http2-format.ts'
import { Http2Error } from './http2-error.ts'
import type { FrameBudget } from './frame-budget.ts'
import type { FrameOutput } from './frame-output.ts'
import { HpackEncoder } from './hpack-encoder.ts'
import type { Http2Stream, SendLimits } from './http2-stream.ts'

/** How many bytes are given to the socket at a time. As many may wait in it for a client that does not read. */
const turnBytes = 512 * 1024
/** The most bytes of control frames that wait for a client that does not read. */
const mostControlBytes = 64 * 1024

export class SendQueue implements SendLimits {
  windowBytes = defaultWindowBytes
  maxFrameBytes = leastMaxFrameBytes
  readonly encoder = new HpackEncoder()

  readonly #socket: Writable
  readonly #budget: FrameBudget
  readonly #onEnded: (stream: Http2Stream) => void
  #control: Buffer[] = []
  #controlBytes = 0
  #ready: Http2Stream[] = []
  /** Streams that wait for the connection's window. */
  #starved: Http2Stream[] = []
  #hasProgress = false

  constructor(socket: Writable, budget: FrameBudget, onEnded: (stream: Http2Stream) => void) {
    this.#socket = socket
    this.#budget = budget
    this.#onEnded = onEnded
  }

  addControl(frame: Buffer): void {
    this.#control.push(frame)
    this.#controlBytes += frame.length
  }

  get hasControl(): boolean {
    return this.#control.length > 0
  }

  /** True when the client causes control frames and does not read them. */
  get isControlFull(): boolean {
    return this.#controlBytes > mostControlBytes
  }

  addStream(stream: Http2Stream): void {
    if (stream.isQueued || stream.isClosed) return
    stream.isQueued = true
    this.#ready.push(stream)
  }

  /** Gives true when a stream waited for the window. Throws Http2Error. */
  openWindow(bytes: number): boolean {
    if (bytes === 0) throw new Http2Error(errorCodes.PROTOCOL_ERROR, 'a window is opened by nothing')
    this.windowBytes += bytes
    if (this.windowBytes > largestWindowBytes) {
      throw new Http2Error(errorCodes.FLOW_CONTROL_ERROR, "the connection's window is opened too far")
    }
    if (this.#starved.length === 0) return false
    this.#ready = this.#starved.concat(this.#ready)
    this.#starved = []
    return true
  }

  onTinyFrame(): void {
    this.#budget.charge('tiny frame')
  }

  /** Whether something of a stream was written since the last `takeProgress`. */
  takeProgress(): boolean {
    const hasProgress = this.#hasProgress
    this.#hasProgress = false
    return hasProgress
  }

  /** HOT: once per turn of the event loop. Throws Http2Error. */
  flush(output: FrameOutput): void {
    while (!this.#socket.writableNeedDrain) {
      this.#fill(output)
      if (output.byteLength === 0) return
      output.writeTo(this.#socket)
    }
  }

  #fill(output: FrameOutput): void {
    this.#writeControl(output)
    while (this.#ready.length > 0 && output.byteLength < turnBytes) {
      const turn = this.#ready
      this.#ready = []
      for (let i = 0; i < turn.length; i++) {
        const stream = turn[i] as Http2Stream
        if (stream.isClosed) continue
        if (output.byteLength >= turnBytes) {
          // Streams that had no turn come first the next time.
          this.#ready = turn.slice(i).concat(this.#ready)
          return
        }
        stream.isQueued = false
        this.#give(stream, output)
      }
      this.#writeControl(output)
    }
  }

  #give(stream: Http2Stream, output: FrameOutput): void {
    const bytesBefore = output.byteLength
    const outcome = stream.writeTurn(output, this)
    if (output.byteLength > bytesBefore) this.#hasProgress = true
    if (outcome === 'ended') this.#onEnded(stream)
    else if (outcome === 'turn') this.addStream(stream)
    else if (outcome === 'connection window' && !stream.isQueued) {
      stream.isQueued = true
      this.#starved.push(stream)
    }
  }

  #writeControl(output: FrameOutput): void {
    if (this.#control.length === 0) return
    for (const frame of this.#control) output.copy(frame)
    this.#control = []
    this.#controlBytes = 0
  }
}
