// The server's side of one HTTP/2 connection (RFC 9113): frames in, streams out. frame-rules.ts says what a frame may look
// like, send-queue.ts what is sent and when.

import type { Socket } from 'node:net'

import type { Clock } from '../../base/clock.ts'
import { NumberTable } from '../../base/number-table.ts'
import type { ConnectionMemory } from '../client-memory.ts'
import type { LentBytesReader } from '../lent-buffer-socket.ts'
import { ClosedStreams } from './closed-streams.ts'
import { FrameBudget } from './frame-budget.ts'
import {
  clientPreface,
  encodeGoaway,
  encodePing,
  encodeReset,
  errorCodes,
  frameFlags,
  frameTypes,
  largestWindowBytes,
  settingsAck,
  type Http2ErrorCode,
} from './http2-format.ts'
import { Http2Error } from './http2-error.ts'
import { maxConcurrentStreams, maxFrameBytes, maxHeaderListBytes } from './server-preface.ts'
import type { FrameOutput } from './frame-output.ts'
import { FrameReader, type FrameSink } from './frame-reader.ts'
import { validateFrameHeader } from './frame-rules.ts'
import { HeaderBlockMemo } from './header-block-memo.ts'
import { HeaderBlocks, type HeaderBlockSink } from './header-blocks.ts'
import { HpackDecoder } from './hpack-decoder.ts'
import { encodeHeaderBlock } from './hpack-encoder.ts'
import { Http2Stream, turnBytes, type StreamHost } from './http2-stream.ts'
import { PeerSettings } from './peer-settings.ts'
import { ReceiveWindows } from './receive-windows.ts'
import { areTrailersValid, parseRequestHead, type RequestHead } from './request-head.ts'
import { SendQueue } from './send-queue.ts'

/** Whoever holds the connection. */
export interface ConnectionUser {
  /** True: the client is to send little of a message before it is told to. */
  readonly isTight: boolean
  /** A valid request of gRPC. The callee sets `stream.user`. */
  onStream(stream: Http2Stream, head: RequestHead): void
  /** The last bytes for a client whose first bytes say that it speaks another protocol; null: it does not. */
  answerToForeign(first: Buffer): Buffer | null
  /** The client's first settings have arrived. */
  onSettings(): void
  onPing(): void
  onPingAnswer(payload: Buffer): void
  /** Some of what waited was written. */
  onFlushed(): void
  /** There is something to flush: at the end of this turn of the event loop, or now, because all that arrived was read. */
  onOutput(connection: Http2Connection, when: 'soon' | 'now'): void
  /** The client broke the rules of HTTP/2. No more frames are read; the connection ends after a last flush. */
  onFailed(reason: Http2Error): void
  onClosed(): void
}

const headersTooLarge = encodeHeaderBlock([[':status', '431']])
const pingBytes = 8

export class Http2Connection implements FrameSink, HeaderBlockSink, LentBytesReader, StreamHost {
  /** No more frames are read. */
  isClosed = false
  readonly memory: ConnectionMemory

  readonly #socket: Socket
  readonly #user: ConnectionUser
  readonly #reader = new FrameReader(this, maxFrameBytes, clientPreface)
  readonly #decoder = new HpackDecoder()
  readonly #blocks = new HeaderBlocks(this)
  readonly #heads = new HeaderBlockMemo(this.#decoder, maxHeaderListBytes, parseRequestHead)
  readonly #budget: FrameBudget
  readonly #queue: SendQueue
  readonly #client = new PeerSettings()
  readonly #streams = new NumberTable<Http2Stream>()
  readonly #closedStreams = new ClosedStreams()
  readonly #windows: ReceiveWindows
  #windowUpdates = 0
  /** `sentCount` when the client pinged last. */
  #sentAtPing = 0
  #hasGreeted = false
  #hasSettings = false
  #lastStreamId = 0
  /** Streams with a higher id are not answered: a GOAWAY has told the client so. */
  #lastWelcomeId = largestWindowBytes
  /** The stream of the DATA frame being read; null where the stream is gone. */
  #dataStream: Http2Stream | null = null
  #lastDataStream: Http2Stream | null = null
  #dataLeft = 0
  #isFlushWanted = false
  #isReading = false

  constructor(dependencies: { clock: Clock; memory: ConnectionMemory }, socket: Socket, user: ConnectionUser) {
    this.memory = dependencies.memory
    this.#socket = socket
    this.#user = user
    this.#budget = new FrameBudget(dependencies.clock)
    this.#queue = new SendQueue(socket, this.#budget, (stream) => this.#onAllSent(stream))
    this.#windows = new ReceiveWindows(this.memory, (frame) => {
      this.#windowUpdates++
      this.#sendControl(frame)
    })
    socket.on('drain', () => this.#wantFlush())
    // After an error comes 'close', which ends the connection.
    socket.on('error', () => undefined)
    socket.on('close', () => this.#onSocketClosed())
  }

  get isDestroyed(): boolean {
    return this.#socket.destroyed
  }

  get isWritten(): boolean {
    return this.#socket.writableLength === 0
  }

  get streamCount(): number {
    return this.#streams.size
  }

  /** Grows whenever frames of calls were sent, or leave to send more: not with pings, settings and their answers. */
  get sentCount(): number {
    return this.#queue.streamTurns + this.#windowUpdates
  }

  streams(): Iterable<Http2Stream> {
    return Array.from(this.#streams.entries(), ([, stream]) => stream)
  }

  /** `isLast`: calls that the client makes from now on are not answered. Otherwise they are. */
  sendGoaway(code: Http2ErrorCode, isLast: boolean, reason: string): void {
    if (isLast) this.#lastWelcomeId = this.#lastStreamId
    this.#sendControl(encodeGoaway(isLast ? this.#lastStreamId : largestWindowBytes, code, reason))
  }

  sendPing(payload: Buffer): void {
    this.#sendControl(encodePing(payload, false))
  }

  /** Ends the connection after everything that was sent so far. */
  end(): void {
    if (this.isClosed) return
    this.isClosed = true
    this.#wantFlush()
  }

  /** Ends the connection at once. No stream is left when `destroy` returns. */
  destroy(): void {
    this.isClosed = true
    this.#socket.destroy()
    this.#closeAllStreams()
  }

  /** HOT: once per turn of the event loop in which there was something to send. */
  flush(output: FrameOutput): void {
    this.#isFlushWanted = false
    if (this.#socket.destroyed || this.#socket.writableEnded) return
    if (!this.#hasGreeted) this.#greet()
    try {
      this.#queue.flush(output)
    } catch (reason) {
      this.#fail(reason)
    }
    if (this.isClosed && !this.#queue.hasControl) this.#socket.end()
    else if (this.#queue.isControlFull) this.destroy()
    this.#user.onFlushed()
  }

  #wantFlush(): void {
    if (this.#isFlushWanted) return
    this.#isFlushWanted = true
    if (!this.#isReading) this.#user.onOutput(this, 'soon')
  }

  #sendControl(frame: Buffer): void {
    this.#queue.addControl(frame)
    this.#wantFlush()
  }

  // From streams.

  readyToSend(stream: Http2Stream): void {
    this.#queue.addStream(stream)
    this.#wantFlush()
  }

  credit(stream: Http2Stream, bytes: number): void {
    if (!this.isClosed) this.#windows.credit(stream, bytes)
  }

  openWindowFor(stream: Http2Stream, bytes: number): void {
    if (!this.isClosed) this.#windows.openFor(stream, bytes)
  }

  /** True: the client was not told yet that it may send more. */
  get owesCredit(): boolean {
    return this.#windows.owesCredit
  }

  creditWhatIsUsed(): void {
    if (!this.isClosed) this.#windows.creditWhatIsUsed()
  }

  /** True: the client is told of another window for its streams. HOT: once per call. */
  setTight(isTight: boolean): boolean {
    return this.#hasGreeted && !this.isClosed && this.#windows.announce(isTight)
  }

  resetStream(stream: Http2Stream, code: Http2ErrorCode): void {
    if (stream.isClosed) return
    this.#sendControl(encodeReset(stream.id, code))
    this.#closeStream(stream, true)
  }

  #onAllSent(stream: Http2Stream): void {
    const isWhole = stream.hasRemoteEnded
    // The call is answered before its request was read to the end: the client may stop sending (RFC 9113, 8.1).
    if (!isWhole) this.#queue.addControl(encodeReset(stream.id, errorCodes.NO_ERROR))
    this.#closeStream(stream, !isWhole)
  }

  #closeStream(stream: Http2Stream, wasBrokenOff: boolean): void {
    this.#streams.delete(stream.id)
    this.#closedStreams.add(stream.id, wasBrokenOff)
    if (this.#dataStream === stream) this.#dataStream = null
    if (this.#lastDataStream === stream) this.#lastDataStream = null
    stream.close()
  }

  // From the socket.

  /** The bytes are valid during the call. */
  takeLent(chunk: Buffer): void {
    if (this.isClosed || (!this.#hasGreeted && this.#isForeign(chunk))) return
    const isFlushPlanned = this.#isFlushWanted
    this.#isReading = true
    try {
      this.#reader.push(chunk)
    } catch (reason) {
      this.#fail(reason)
    } finally {
      this.#isReading = false
    }
    // Calls that are answered at once need no further turn of the event loop: that would cost a tenth of a small call.
    if (this.#isFlushWanted && !isFlushPlanned) this.#user.onOutput(this, 'now')
  }

  /** HOT: once per read of the socket. */
  target(): Buffer | null {
    return this.isClosed ? null : this.#reader.target()
  }

  dataTarget(mostBytes: number): Buffer | null {
    return this.#dataStream?.target(mostBytes) ?? null
  }

  /** Between two frames of the same message as well. */
  isInLargeBody(): boolean {
    return !this.isClosed && (this.#lastDataStream?.target(Number.MAX_SAFE_INTEGER) ?? null) !== null
  }

  /** The client speaks first. What speaks another protocol gets an answer of that one, in place of frames. */
  #isForeign(first: Buffer): boolean {
    const answer = this.#user.answerToForeign(first)
    if (answer === null) this.#greet()
    else {
      this.isClosed = true
      this.#socket.end(answer)
      this.#user.onFailed(new Http2Error(errorCodes.PROTOCOL_ERROR, 'the client speaks another protocol'))
    }
    return answer !== null
  }

  #greet(): void {
    this.#hasGreeted = true
    this.#socket.write(this.#windows.greet(this.#user.isTight))
  }

  #fail(reason: unknown): void {
    if (!(reason instanceof Http2Error)) throw reason
    if (this.isClosed) return
    this.#queue.addControl(encodeGoaway(this.#lastStreamId, reason.code, reason.message))
    this.end()
    this.#user.onFailed(reason)
    this.#closeAllStreams()
  }

  #onSocketClosed(): void {
    this.isClosed = true
    this.#closeAllStreams()
    this.memory.close()
    this.#user.onClosed()
  }

  #closeAllStreams(): void {
    const streams = this.#streams.entries()
    this.#streams.clear()
    for (const [, stream] of streams) stream.close()
  }

  onFrameHeader(type: number, flags: number, streamId: number, length: number): void {
    validateFrameHeader(type, flags, streamId, length)
    if (!this.#hasSettings && (type !== frameTypes.SETTINGS || (flags & frameFlags.ACK) !== 0)) {
      throw new Http2Error(errorCodes.PROTOCOL_ERROR, 'the first frame is not SETTINGS')
    }
    this.#blocks.expect(type, streamId)
    if (type === frameTypes.DATA) this.#beginData(flags, streamId, length)
    else if (type > frameTypes.CONTINUATION) this.#budget.charge('idle frame')
  }

  /** The windows count padding as data, and count data that nobody takes. */
  #beginData(flags: number, streamId: number, length: number): void {
    if (this.#isIdle(streamId)) throw new Http2Error(errorCodes.PROTOCOL_ERROR, `data on idle stream ${streamId}`)
    if (!this.#windows.take(length)) {
      throw new Http2Error(errorCodes.FLOW_CONTROL_ERROR, 'more data than was asked for')
    }
    if (length === 0 && (flags & frameFlags.END_STREAM) === 0) this.#budget.charge('empty data')
    this.#dataLeft = length
    let stream = this.#streams.get(streamId) ?? null
    if (stream === null) this.#refuseClosed(streamId)
    else if (stream.hasRemoteEnded) {
      this.#breakOff(stream, errorCodes.STREAM_CLOSED)
      stream = null
    } else {
      stream.receiveWindowBytes -= length
      if (stream.receiveWindowBytes < 0) {
        this.#breakOff(stream, errorCodes.FLOW_CONTROL_ERROR)
        stream = null
      }
    }
    this.#dataStream = stream
    this.#lastDataStream = stream
  }

  #isIdle(streamId: number): boolean {
    return streamId > this.#lastStreamId || streamId % 2 === 0
  }

  /** A frame for a stream that is gone. The client may not know yet that the server broke the stream off. */
  #refuseClosed(streamId: number): void {
    this.#budget.charge('idle frame')
    if (this.#closedStreams.reasonOf(streamId) === 'broken off') return
    this.#budget.charge('reset')
    this.#sendControl(encodeReset(streamId, errorCodes.STREAM_CLOSED))
  }

  /** Resets a stream on which the client broke the rules. */
  #breakOff(stream: Http2Stream, code: Http2ErrorCode): void {
    this.#budget.charge('reset')
    this.resetStream(stream, code)
  }

  onDataPiece(flags: number, _streamId: number, piece: Buffer, isLast: boolean): void {
    const stream = this.#dataStream
    this.#dataLeft -= piece.length
    if (stream === null) this.#windows.creditConnection(piece.length)
    else if (stream.expectedBytes >= 0 && piece.length > stream.expectedBytes) {
      this.#windows.creditConnection(piece.length)
      this.#breakOff(stream, errorCodes.PROTOCOL_ERROR)
    } else if (piece.length > 0) {
      if (stream.expectedBytes > 0) stream.expectedBytes -= piece.length
      stream.receive(piece)
    }
    if (!isLast) return
    if (this.#dataLeft > 0) {
      // Nobody reads the padding: its bytes are given back to the windows at once.
      if (stream === null || stream.isClosed) this.#windows.creditConnection(this.#dataLeft)
      else this.credit(stream, this.#dataLeft)
    }
    this.#dataStream = null
    if (stream !== null && !stream.isClosed && (flags & frameFlags.END_STREAM) !== 0) this.#endBody(stream)
  }

  #endBody(stream: Http2Stream): void {
    if (stream.expectedBytes > 0) this.#breakOff(stream, errorCodes.PROTOCOL_ERROR)
    else stream.receiveEnd()
  }

  onFrame(type: number, flags: number, streamId: number, payload: Buffer): void {
    switch (type) {
      case frameTypes.HEADERS:
        this.#blocks.onHeaders(flags, streamId, payload)
        break
      // Priorities are ignored. A client that sends GOAWAY closes the connection itself after its last answer.
      case frameTypes.PRIORITY:
      case frameTypes.GOAWAY:
        this.#budget.charge('idle frame')
        break
      case frameTypes.RST_STREAM:
        this.#onReset(streamId)
        break
      case frameTypes.SETTINGS:
        this.#onSettings(flags, payload)
        break
      case frameTypes.PING:
        this.#onPing(flags, payload)
        break
      case frameTypes.WINDOW_UPDATE:
        this.#onWindowUpdate(streamId, payload.readUInt32BE(0) & 0x7fffffff)
        break
      case frameTypes.CONTINUATION:
        this.#blocks.onContinuation(flags, payload)
        break
      default:
    }
  }

  /** HOT: once per call. The block is decoded even if the stream is refused: later blocks build on its table. */
  onHeaderBlock(streamId: number, block: Buffer, endsStream: boolean): void {
    if (streamId <= this.#lastStreamId || streamId % 2 === 0) {
      this.#onTrailers(streamId, block, endsStream)
      return
    }
    const head = this.#heads.read(block)
    this.#lastStreamId = streamId
    if (streamId > this.#lastWelcomeId) {
      this.#closedStreams.add(streamId, true)
      return
    }
    if (head === null && !this.#decoder.isTooLarge) this.#refuseStream(streamId, errorCodes.PROTOCOL_ERROR)
    else if (this.#streams.size >= maxConcurrentStreams) this.#refuseStream(streamId, errorCodes.REFUSED_STREAM)
    else this.#openStream(streamId, head, endsStream)
  }

  #refuseStream(streamId: number, code: Http2ErrorCode): void {
    this.#budget.charge('reset')
    this.#closedStreams.add(streamId, true)
    this.#sendControl(encodeReset(streamId, code))
  }

  #openStream(streamId: number, head: RequestHead | null, endsStream: boolean): void {
    const stream = new Http2Stream(this, streamId, this.#client.initialWindowBytes, head?.contentBytes ?? -1)
    stream.receiveWindowBytes = this.#windows.streamBytes
    stream.openedNs = this.#budget.openedNs()
    this.#streams.set(streamId, stream)
    if (head === null) {
      this.#budget.charge('reset')
      stream.sendTrailers(headersTooLarge)
    } else if (head.refusalStatus !== 0) {
      stream.sendTrailers(encodeHeaderBlock([[':status', String(head.refusalStatus)]]))
    } else this.#user.onStream(stream, head)
    if (endsStream && !stream.isClosed) this.#endBody(stream)
  }

  #onTrailers(streamId: number, block: Buffer, endsStream: boolean): void {
    const stream = this.#streams.get(streamId)
    const reason = stream === undefined ? this.#closedStreams.reasonOf(streamId) : null
    if (stream === undefined && reason !== 'broken off') {
      const code = reason === 'ended' ? errorCodes.STREAM_CLOSED : errorCodes.PROTOCOL_ERROR
      throw new Http2Error(code, `headers on stream ${streamId}, which is not open`)
    }
    const fields = this.#decoder.decode(block, 0, block.length, maxHeaderListBytes)
    if (stream === undefined) this.#budget.charge('idle frame')
    else if (stream.hasRemoteEnded) this.#breakOff(stream, errorCodes.STREAM_CLOSED)
    else if (!endsStream || !areTrailersValid(fields)) this.#breakOff(stream, errorCodes.PROTOCOL_ERROR)
    else this.#endBody(stream)
  }

  #onReset(streamId: number): void {
    if (this.#isIdle(streamId)) throw new Http2Error(errorCodes.PROTOCOL_ERROR, `reset of idle stream ${streamId}`)
    const stream = this.#streams.get(streamId)
    if (stream !== undefined) {
      this.#budget.chargeCancel(stream.openedNs)
      this.#closeStream(stream, false)
    } else if (this.#closedStreams.reasonOf(streamId) === 'ended') {
      // The answer was on its way when the client gave up. That happens once for each call.
      this.#closedStreams.add(streamId, true)
    } else this.#budget.charge('reset')
  }

  #onSettings(flags: number, payload: Buffer): void {
    this.#budget.charge('settings')
    if ((flags & frameFlags.ACK) !== 0) {
      this.#windows.onAnswer(this.streams())
      return
    }
    const before = this.#client.initialWindowBytes
    this.#client.apply(payload)
    this.#queue.encoder.limitTable(this.#client.headerTableBytes)
    // gRPC's clients take frames of 16 MiB. All other streams, and the answers to pings, would wait for one.
    this.#queue.maxFrameBytes = Math.min(this.#client.maxFrameBytes, turnBytes)
    const change = this.#client.initialWindowBytes - before
    if (change !== 0) for (const [, stream] of this.#streams.entries()) this.#openStreamWindow(stream, change)
    this.#sendControl(settingsAck)
    if (this.#hasSettings) return
    this.#hasSettings = true
    this.#user.onSettings()
  }

  #onPing(flags: number, payload: Buffer): void {
    if ((flags & frameFlags.ACK) !== 0) {
      this.#user.onPingAnswer(payload)
      return
    }
    // Clients in Go and Java measure the connection: they ping once for each round trip in which something came.
    if (this.sentCount === this.#sentAtPing) this.#budget.charge('ping')
    this.#sentAtPing = this.sentCount
    this.#sendControl(encodePing(payload.subarray(0, pingBytes), true))
    this.#user.onPing()
  }

  #onWindowUpdate(streamId: number, bytes: number): void {
    if (streamId === 0) {
      if (this.#queue.openWindow(bytes)) this.#wantFlush()
      return
    }
    if (this.#isIdle(streamId)) throw new Http2Error(errorCodes.PROTOCOL_ERROR, `window of idle stream ${streamId}`)
    const stream = this.#streams.get(streamId)
    if (stream === undefined) return
    if (bytes === 0) this.#breakOff(stream, errorCodes.PROTOCOL_ERROR)
    else if (stream.sendWindowBytes + bytes > largestWindowBytes) this.#breakOff(stream, errorCodes.FLOW_CONTROL_ERROR)
    else this.#openStreamWindow(stream, bytes)
  }

  #openStreamWindow(stream: Http2Stream, bytes: number): void {
    stream.sendWindowBytes += bytes
    if (stream.sendWindowBytes > largestWindowBytes) {
      throw new Http2Error(errorCodes.FLOW_CONTROL_ERROR, 'the window of a stream is opened too far')
    }
    if (stream.sendWindowBytes > 0 && stream.backlogBytes > 0) this.readyToSend(stream)
  }
}
