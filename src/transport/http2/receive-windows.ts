// What a client may send: the windows of its connection and of its streams. Where large messages wait for their turns, the window of a
// stream is small, and is opened for each message.

import type { ConnectionMemory } from '../client-memory.ts'
import { encodeSettings, encodeWindowUpdate, settingIds } from './http2-format.ts'
import {
  connectionWindowBytes,
  maxConcurrentStreams,
  serverPreface,
  streamWindowBytes,
  tightServerPreface,
  tightWindowBytes,
} from './server-preface.ts'

/** The part of a stream that is counted here. */
export interface ReceivingStream {
  readonly id: number
  readonly hasRemoteEnded: boolean
  readonly isClosed: boolean
  readonly isPaused: boolean
  /** How many bytes the client may still send. */
  receiveWindowBytes: number
  /** Bytes that were used and that the client may not send again yet; negative where it may send more than its window. */
  uncreditedBytes: number
}

/** Beginnings of messages that wait for their turns must not take the window of the connection from those that have theirs. */
const beginningsBytes = maxConcurrentStreams * tightWindowBytes

export class ReceiveWindows {
  readonly #memory: ConnectionMemory
  readonly #send: (frame: Buffer) => void
  /** Of a new stream, by the settings that the client has answered, and by those that were sent last. */
  #answeredBytes = streamWindowBytes
  #announcedBytes = streamWindowBytes
  readonly #unanswered: number[] = []
  #connectionBytes = connectionWindowBytes
  #uncreditedBytes = 0
  #hasRoomForBeginnings = false

  constructor(memory: ConnectionMemory, send: (frame: Buffer) => void) {
    this.#memory = memory
    this.#send = send
  }

  get streamBytes(): number {
    return this.#answeredBytes
  }

  /** The server's first frames. */
  greet(isTight: boolean): Buffer {
    this.#announcedBytes = isTight ? tightWindowBytes : streamWindowBytes
    this.#answeredBytes = this.#announcedBytes
    this.#unanswered.push(this.#announcedBytes)
    return isTight ? tightServerPreface : serverPreface
  }

  /** True: the client is told of another window. Its frames follow the old one until it answers. HOT: once per call. */
  announce(isTight: boolean): boolean {
    const bytes = isTight ? tightWindowBytes : streamWindowBytes
    if (bytes === this.#announcedBytes) return false
    this.#announcedBytes = bytes
    this.#unanswered.push(bytes)
    this.#send(encodeSettings([[settingIds.INITIAL_WINDOW_SIZE, bytes]]))
    // A window cannot be taken back: so many bytes are used first.
    if (this.#hasRoomForBeginnings) this.#uncreditedBytes -= beginningsBytes
    this.#hasRoomForBeginnings = false
    return true
  }

  /** The client has answered the oldest settings that it had not answered. */
  onAnswer(streams: Iterable<ReceivingStream>): void {
    const bytes = this.#unanswered.shift()
    if (bytes === undefined) return
    const change = bytes - this.#answeredBytes
    this.#answeredBytes = bytes
    if (change !== 0) for (const stream of streams) stream.receiveWindowBytes += change
    if (bytes !== tightWindowBytes || this.#announcedBytes !== bytes || this.#hasRoomForBeginnings) return
    this.#hasRoomForBeginnings = true
    this.#connectionBytes += beginningsBytes
    this.#send(encodeWindowUpdate(0, beginningsBytes))
  }

  /** False: the client has sent more than it may on the whole connection. */
  take(bytes: number): boolean {
    this.#connectionBytes -= bytes
    return this.#connectionBytes >= 0
  }

  /** HOT: once per piece of data. The client is told when half of its window is used up. */
  credit(stream: ReceivingStream, bytes: number): void {
    this.creditConnection(bytes)
    stream.uncreditedBytes += bytes
    if (stream.uncreditedBytes < this.#announcedBytes / 2 || stream.hasRemoteEnded || stream.isClosed) return
    if (!stream.isPaused) this.#open(stream, stream.uncreditedBytes)
  }

  /** The client may send so many bytes of a message, whatever the window. */
  openFor(stream: ReceivingStream, bytes: number): void {
    const windowBytes = stream.receiveWindowBytes + this.#announcedBytes - this.#answeredBytes
    if (bytes > windowBytes && !stream.hasRemoteEnded && !stream.isClosed) this.#open(stream, bytes - windowBytes)
  }

  #open(stream: ReceivingStream, bytes: number): void {
    stream.receiveWindowBytes += bytes
    stream.uncreditedBytes -= bytes
    this.#send(encodeWindowUpdate(stream.id, bytes))
  }

  creditConnection(bytes: number): void {
    this.#uncreditedBytes += bytes
    this.creditWhatIsUsed()
  }

  /** True: half of the window is used up, and the client was not told yet that it may send more. */
  get owesCredit(): boolean {
    return this.#uncreditedBytes >= connectionWindowBytes / 2
  }

  /** A client that is over its share may not send more, whatever stream it is for. */
  creditWhatIsUsed(): void {
    if (!this.owesCredit || this.#memory.isFull) return
    this.#connectionBytes += this.#uncreditedBytes
    this.#send(encodeWindowUpdate(0, this.#uncreditedBytes))
    this.#uncreditedBytes = 0
  }
}
