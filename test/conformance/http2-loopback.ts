// The server's side of an HTTP/2 connection without a network: what the client says goes in by a call, what the server
// says is there after a flush.

import { Duplex } from 'node:stream'
import type { Socket } from 'node:net'
import { ManualClock } from '../fakes/manual-clock.ts'
import type { Http2Error } from '../../src/transport/http2/http2-error.ts'
import { ClientMemory, ConnectionMemory } from '../../src/transport/client-memory.ts'
import { FrameOutput } from '../../src/transport/http2/frame-output.ts'
import { Http2Connection, type ConnectionUser } from '../../src/transport/http2/http2-connection.ts'
import type { Http2Stream, StreamUser } from '../../src/transport/http2/http2-stream.ts'

export type SentFrame = {
  readonly type: number
  readonly flags: number
  readonly streamId: number
  readonly payload: Buffer
}

/** A stream's user that counts. */
export class CountingUser implements StreamUser {
  readonly stream: Http2Stream
  bytes = 0
  ends = 0
  closes = 0
  drains = 0
  lostBytes = 0

  constructor(stream: Http2Stream) {
    this.stream = stream
  }

  onPiece(piece: Buffer): void {
    this.bytes += piece.length
  }

  target(): null {
    return null
  }

  onBodyEnd(): void {
    this.ends++
  }

  onNoRoom(bytes: number): void {
    this.lostBytes += bytes
  }

  onProgress(): void {}

  onBacklogSent(): void {
    this.drains++
  }

  onStreamClosed(): void {
    this.closes++
  }
}

export class Http2Loopback implements ConnectionUser {
  readonly clock = new ManualClock()
  readonly output = new FrameOutput()
  readonly memory = new ConnectionMemory(new ClientMemory())
  readonly users: CountingUser[] = []
  readonly socket: Duplex
  readonly connection: Http2Connection
  /** When the connection wanted to be flushed. */
  readonly outputs: ('soon' | 'now')[] = []
  failure: Http2Error | null = null
  isClosed = false
  /** While the client does not read, what is written stays in the socket. */
  isClientReading = true
  #held: (() => void)[] = []
  #written: Buffer[] = []

  constructor() {
    const hold = (take: () => void): void => {
      if (this.isClientReading) take()
      else this.#held.push(take)
    }
    this.socket = new Duplex({
      read: () => undefined,
      write: (chunk: Buffer, _encoding, done) =>
        hold(() => {
          this.#written.push(Buffer.from(chunk))
          done()
        }),
    })
    this.connection = new Http2Connection({ clock: this.clock, memory: this.memory }, this.socket as Socket, this)
  }

  isTight = false

  answerToForeign(): null {
    return null
  }

  onFlushed(): void {
    // Nothing waits here for room.
  }

  /** From the client. */
  say(...bytes: readonly Uint8Array[]): void {
    this.connection.takeLent(Buffer.concat(bytes))
  }

  flush(): void {
    this.connection.flush(this.output)
  }

  setReading(isReading: boolean): void {
    this.isClientReading = isReading
    if (isReading) for (const take of this.#held.splice(0)) take()
  }

  /** What the server has sent since the last time. Throws where that is not made of whole frames. */
  takeFrames(): SentFrame[] {
    const frames: SentFrame[] = []
    let data = Buffer.concat(this.#written)
    this.#written = []
    while (data.length > 0) {
      const length = data.readUIntBE(0, 3)
      if (data.length < 9 + length) throw new Error('half a frame was sent')
      const [type = 0, flags = 0] = data.subarray(3, 5)
      frames.push({ type, flags, streamId: data.readUInt32BE(5), payload: data.subarray(9, 9 + length) })
      data = data.subarray(9 + length)
    }
    return frames
  }

  async close(): Promise<void> {
    this.setReading(true)
    if (this.isClosed) return
    const closed = new Promise((resolve) => this.socket.once('close', resolve))
    this.connection.destroy()
    await closed
  }

  onStream(stream: Http2Stream): void {
    const user = new CountingUser(stream)
    stream.user = user
    this.users.push(user)
  }

  onSettings(): void {}

  onPing(): void {}

  onPingAnswer(): void {}

  onOutput(_connection: Http2Connection, when: 'soon' | 'now'): void {
    this.outputs.push(when)
  }

  onFailed(reason: Http2Error): void {
    this.failure = reason
  }

  onClosed(): void {
    this.isClosed = true
  }
}
