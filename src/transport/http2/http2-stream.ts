// One stream of a connection: the body that its client sends, kept while the call is paused, and the messages to send.

import type { ConnectionMemory } from '../client-memory.ts'
import type { OutgoingMessage } from '../grpc/grpc-transport.ts'
import { frameFlags, frameHeaderBytes, frameTypes, writeFrameHeader, type Http2ErrorCode } from './http2-format.ts'
import { streamWindowBytes } from './server-preface.ts'
import type { FrameOutput } from './frame-output.ts'
import { HeldPieces } from './held-pieces.ts'
import type { HpackEncoder } from './hpack-encoder.ts'

/** The user of a stream: a call. */
export interface StreamUser {
  /** Part of the body, valid during the call. Not called while paused. */
  onPiece(piece: Buffer): void
  /** Part of the body came while paused, and there is no memory to keep it. The part is lost. */
  onNoRoom(bytes: number): void
  /** Where the next bytes of the body belong, at most so many; null where they are to come as a piece. */
  target(mostBytes: number): Buffer | null
  /** The body is whole. */
  onBodyEnd(): void
  /** A message was handed over to the client's connection, and others still wait. */
  onProgress(): void
  /** Nothing waits to be sent any more. */
  onBacklogSent(): void
  /** Once: the stream is gone, for whatever reason. */
  onStreamClosed(): void
}

/** What a stream asks of its connection. */
export interface StreamHost {
  /** Counts what is held for the client. */
  readonly memory: ConnectionMemory
  /** The system has taken everything that was given to the socket. */
  readonly isWritten: boolean
  /** There is something to send. */
  readyToSend(stream: Http2Stream): void
  /** So many bytes of the body were used: the client may send as many again. */
  credit(stream: Http2Stream, bytes: number): void
  /** So many bytes of a message are still to come, and may. */
  openWindowFor(stream: Http2Stream, bytes: number): void
  /** Breaks the stream off. */
  resetStream(stream: Http2Stream, code: Http2ErrorCode): void
}

/** What all streams of a connection share when they send. */
export interface SendLimits {
  /** How many bytes the client still takes on the whole connection. */
  windowBytes: number
  /** Largest frame the client takes. */
  readonly maxFrameBytes: number
  readonly encoder: HpackEncoder
  /** A window made a frame very small. May throw Http2Error. */
  onTinyFrame(): void
}

/** `idle`: nothing more to send now. `… window`: the window is full. `turn`: others come first. `ended`: all is sent. */
type SendOutcome = 'idle' | 'stream window' | 'connection window' | 'turn' | 'ended'

type Outgoing = {
  message: OutgoingMessage
  /** The first byte of gRPC's prefix: whether the message is compressed. */
  readonly flag: 0 | 1
  release: (() => void) | null
  /** Bytes of prefix and body that are written. */
  sent: number
  partIndex: number
  partAt: number
  next: Outgoing | null
}

const prefixBytes = 5
/** Bytes one stream may write before another has its turn, and so the most of one frame. */
export const turnBytes = 128 * 1024
/** A piece of so many bytes or more is written as a view. A smaller one is copied, which costs less than one more write. */
const viewBytes = 8 * 1024
const tinyFrameBytes = 128

export class Http2Stream {
  readonly id: number
  user: StreamUser | null = null
  /** How many bytes the client still takes on this stream; negative after the client has made its window smaller. */
  sendWindowBytes: number
  /** How many bytes the client may still send. */
  receiveWindowBytes = streamWindowBytes
  /** Bytes that were used and that the client may not send again yet. */
  uncreditedBytes = 0
  /** Bytes still to come of a body whose length was announced; -1 where it was not. */
  expectedBytes: number
  /** 0: nobody looked at the clock. */
  openedNs = 0
  hasRemoteEnded = false
  isClosed = false
  /** True while the stream is in the connection's list of streams that want to send. */
  isQueued = false
  /** Bytes of messages, with their prefixes, that are not yet sent. */
  backlogBytes = 0
  /** Bytes of messages that were sent, and bytes of the body that arrived: who watches for a stall compares them. */
  sentBytes = 0
  receivedBytes = 0

  readonly #host: StreamHost
  #head: Buffer | null = null
  #trailers: Buffer | null = null
  #first: Outgoing | null = null
  #last: Outgoing | null = null
  /** True: what arrives is kept until the call goes on. */
  isPaused = false
  #held: HeldPieces | null = null

  constructor(host: StreamHost, id: number, sendWindowBytes: number, expectedBytes: number) {
    this.#host = host
    this.id = id
    this.sendWindowBytes = sendWindowBytes
    this.expectedBytes = expectedBytes
  }

  /** A header block of `encodeHeaderBlock`, before the first message. */
  sendHead(block: Buffer): void {
    this.#head = block
  }

  sendMessage(message: OutgoingMessage, flag: 0 | 1, release: (() => void) | null): void {
    if (this.isClosed) {
      release?.()
      return
    }
    const outgoing: Outgoing = { message, flag, release, sent: 0, partIndex: 0, partAt: 0, next: null }
    if (this.#last === null) this.#first = outgoing
    else this.#last.next = outgoing
    this.#last = outgoing
    this.backlogBytes += prefixBytes + message.byteLength
    this.#host.memory.changeAnswers(prefixBytes + message.byteLength)
    this.#host.readyToSend(this)
  }

  /** The last header block, after all messages. */
  sendTrailers(block: Buffer): void {
    this.#trailers = block
    this.#host.readyToSend(this)
  }

  reset(code: Http2ErrorCode): void {
    this.#host.resetStream(this, code)
  }

  openWindowFor(bytes: number): void {
    this.#host.openWindowFor(this, bytes)
  }

  /** From the connection: where the next bytes of the body may be read to. */
  target(mostBytes: number): Buffer | null {
    if (this.isPaused || (this.#held !== null && !this.#held.isEmpty)) return null
    return this.user?.target(mostBytes) ?? null
  }

  /** From the connection: part of the body has arrived. HOT. */
  receive(piece: Buffer): void {
    this.receivedBytes += piece.length
    if (this.isPaused || (this.#held !== null && !this.#held.isEmpty)) {
      if (this.#host.memory.reserve(piece.length)) {
        this.#held ??= new HeldPieces()
        this.#held.add(piece)
      } else {
        this.user?.onNoRoom(piece.length)
        this.#host.credit(this, piece.length)
      }
      return
    }
    this.user?.onPiece(piece)
    this.#host.credit(this, piece.length)
  }

  /** From the connection: no more will arrive. */
  receiveEnd(): void {
    this.hasRemoteEnded = true
    if (!this.isPaused && (this.#held === null || this.#held.isEmpty)) this.user?.onBodyEnd()
  }

  setPaused(isPaused: boolean): void {
    if (this.isPaused === isPaused) return
    this.isPaused = isPaused
    if (isPaused) return
    const held = this.#held
    if (held !== null) {
      while (!this.isPaused && !held.isEmpty) {
        const piece = this.#takeHeld(held)
        this.user?.onPiece(piece)
        this.#host.credit(this, piece.length)
      }
      if (this.isPaused) return
    }
    // What was used last before the pause is given back now.
    if (!this.isClosed) this.#host.credit(this, 0)
    if (this.hasRemoteEnded && !this.isClosed) this.user?.onBodyEnd()
  }

  #takeHeld(held: HeldPieces): Buffer {
    const piece = held.take()
    this.#host.memory.release(piece.length)
    return piece
  }

  /** Copies what waits in memory of models, so that a client that does not read takes no memory from them. */
  copyOut(): void {
    for (let outgoing = this.#first; outgoing !== null; outgoing = outgoing.next) {
      const { message, release, sent } = outgoing
      // The socket may still look at the first bytes of a message that it was given in part.
      if (release === null || (sent > 0 && !this.#host.isWritten)) continue
      const parts = message.parts.map((part) => Buffer.from(part))
      outgoing.message = { parts, byteLength: message.byteLength }
      outgoing.release = null
      release()
    }
  }

  /** Once, from the connection. */
  close(): void {
    this.isClosed = true
    for (let outgoing = this.#first; outgoing !== null; outgoing = outgoing.next) outgoing.release?.()
    this.#first = null
    this.#last = null
    this.#head = null
    this.#trailers = null
    this.#host.memory.changeAnswers(-this.backlogBytes)
    this.backlogBytes = 0
    if (this.#held !== null) {
      while (!this.#held.isEmpty) this.#host.credit(this, this.#takeHeld(this.#held).length)
    }
    this.user?.onStreamClosed()
  }

  /** Writes what windows and turns allow. HOT: once per answer. */
  writeTurn(output: FrameOutput, limits: SendLimits): SendOutcome {
    if (this.#head !== null) {
      this.#writeHeaders(output, limits.encoder.encode(this.#head), frameFlags.END_HEADERS)
      this.#head = null
    }
    if (this.#first !== null) {
      const outcome = this.#writeMessages(output, limits)
      if (outcome !== 'idle') return outcome
      // The user sent more when it heard that all was sent. Those messages wait for the next turn.
      if (this.#first !== null) return 'idle'
    }
    if (this.#trailers === null) return 'idle'
    const flags = frameFlags.END_HEADERS | frameFlags.END_STREAM
    this.#writeHeaders(output, limits.encoder.encode(this.#trailers), flags)
    this.#trailers = null
    return 'ended'
  }

  #writeMessages(output: FrameOutput, limits: SendLimits): SendOutcome {
    let written = 0
    const before = this.#first
    let outcome: SendOutcome = 'idle'
    while (this.#first !== null) {
      const bytes = Math.min(this.backlogBytes, limits.windowBytes, this.sendWindowBytes, limits.maxFrameBytes)
      if (bytes <= 0) {
        outcome = limits.windowBytes <= 0 ? 'connection window' : 'stream window'
        break
      }
      if (written >= turnBytes) {
        outcome = 'turn'
        break
      }
      if (bytes < tinyFrameBytes && bytes < this.backlogBytes) limits.onTinyFrame()
      limits.windowBytes -= bytes
      this.#writeData(output, bytes)
      written += bytes
    }
    if (this.#trailers === null && this.#first !== before) {
      if (this.#first === null) this.user?.onBacklogSent()
      else this.user?.onProgress()
    }
    return outcome
  }

  #writeHeaders(output: FrameOutput, block: Buffer, flags: number): void {
    const target = output.reserve(frameHeaderBytes + block.length)
    const at = writeFrameHeader(target, output.offset, block.length, frameTypes.HEADERS, flags, this.id)
    target.set(block, at)
    output.offset = at + block.length
  }

  /** One DATA frame of so many bytes, from one or more messages. */
  #writeData(output: FrameOutput, bytes: number): void {
    this.sendWindowBytes -= bytes
    this.backlogBytes -= bytes
    this.sentBytes += bytes
    this.#host.memory.changeAnswers(-bytes)
    const head = output.reserve(frameHeaderBytes)
    output.offset = writeFrameHeader(head, output.offset, bytes, frameTypes.DATA, 0, this.id)
    let left = bytes
    while (left > 0) {
      const outgoing = this.#first as Outgoing
      left = writeMessage(output, outgoing, left)
      if (outgoing.sent < prefixBytes + outgoing.message.byteLength) return
      this.#first = outgoing.next
      if (outgoing.next === null) this.#last = null
      if (outgoing.release !== null) output.whenWritten(outgoing.release)
    }
  }
}

/** Writes up to `left` bytes of a message; gives how many bytes of the frame are still free. */
function writeMessage(output: FrameOutput, outgoing: Outgoing, left: number): number {
  const { message } = outgoing
  let free = left
  if (outgoing.sent < prefixBytes) free = writePrefix(output, outgoing, free)
  while (free > 0 && outgoing.partIndex < message.parts.length) {
    const part = message.parts[outgoing.partIndex] as Uint8Array
    const from = outgoing.partAt
    const end = Math.min(part.length, from + free)
    const isWhole = from === 0 && end === part.length
    const slice = isWhole ? part : part.subarray(from, end)
    if (slice.length >= viewBytes) output.addView(slice)
    else output.copy(slice)
    free -= slice.length
    outgoing.sent += slice.length
    outgoing.partAt = end
    if (end === part.length) {
      outgoing.partIndex++
      outgoing.partAt = 0
    }
  }
  return free
}

function writePrefix(output: FrameOutput, outgoing: Outgoing, left: number): number {
  const target = output.reserve(prefixBytes)
  const at = output.offset
  const { byteLength } = outgoing.message
  if (outgoing.sent === 0 && left >= prefixBytes) {
    target[at] = outgoing.flag
    target[at + 1] = byteLength >>> 24
    target[at + 2] = byteLength >>> 16
    target[at + 3] = byteLength >>> 8
    target[at + 4] = byteLength
    output.offset = at + prefixBytes
    outgoing.sent = prefixBytes
    return left - prefixBytes
  }
  // The window ends inside the prefix.
  const prefix = Buffer.of(outgoing.flag, 0, 0, 0, 0)
  prefix.writeUInt32BE(byteLength, 1)
  const length = Math.min(left, prefixBytes - outgoing.sent)
  output.copy(prefix.subarray(outgoing.sent, outgoing.sent + length))
  outgoing.sent += length
  return left - length
}
