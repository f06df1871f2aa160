// The client's side of one HTTP/2 connection, as far as gRPC needs it. Header blocks are prepared once, the frames of a
// turn are written together. node:http2 costs several times as much per call (bench/perf-load.bench.ts).

import type { Socket } from 'node:net'
import { NumberTable } from '../../base/number-table.ts'
import { messageOf } from '../../base/server-error.ts'
import { openSocket, type LoadTarget } from '../client-socket.ts'
import { readAnswerHeaders, requestBlocks, tableBytes, type AnswerHeaders } from './client-headers.ts'
import { FrameOutput } from './frame-output.ts'
import { FrameReader, type FrameSink } from './frame-reader.ts'
import { validateFrameHeader } from './frame-rules.ts'
import { HeaderBlockMemo } from './header-block-memo.ts'
import { HeaderBlocks, type HeaderBlockSink } from './header-blocks.ts'
import { HpackDecoder } from './hpack-decoder.ts'
import { emptyTable, type HeaderField } from './hpack-encoder.ts'
import {
  clientPreface,
  defaultHeaderTableBytes,
  defaultWindowBytes,
  encodePing,
  encodeSettings,
  encodeWindowUpdate,
  frameFlags,
  frameHeaderBytes,
  frameTypes,
  largestWindowBytes,
  leastMaxFrameBytes,
  settingIds,
  settingsAck,
  writeFrameHeader,
} from './http2-format.ts'
import { PeerSettings } from './peer-settings.ts'

/** One call, as its connection sees it. The object serves again for later calls. */
export abstract class Http2ClientStream {
  streamId = 0
  /** Bytes that may still be sent on the stream. */
  sendWindow = 0
  /** Bytes received since the server was last given room. */
  receivedBytes = 0
  abstract onHeaders(headers: AnswerHeaders, isEnd: boolean): void
  /** The bytes are valid during the call only. */
  abstract onData(bytes: Buffer, isEnd: boolean): void
  /** The server reset the stream, or the connection is gone. */
  abstract onReset(reason: string, isConnection: boolean): void
}

type PendingMessage = { readonly stream: Http2ClientStream; parts: Buffer[]; readonly isEnd: boolean }

/** Parts of a message below this are copied into the output; above, the socket gets a view. */
const copiedBytes = 8 * 1024
const prefixBytes = 5
const maxStreamId = 2 ** 31 - 1
const maxHeaderListBytes = 256 * 1024
/** The server's window is opened again when the server has used this many bytes of it. */
const windowTopUp = 2 ** 29
const nothing = Buffer.alloc(0)

/** The preface, the settings (no table, no pushes, the largest window per stream) and the window of the connection. */
const openingBytes: Buffer = Buffer.concat([
  clientPreface,
  encodeSettings([
    [settingIds.HEADER_TABLE_SIZE, 0],
    [settingIds.ENABLE_PUSH, 0],
    [settingIds.INITIAL_WINDOW_SIZE, largestWindowBytes],
  ]),
  encodeWindowUpdate(0, largestWindowBytes - defaultWindowBytes),
])

export class Http2ClientConnection implements FrameSink, HeaderBlockSink {
  readonly ready: Promise<void>
  isClosed = false
  readonly #fields: readonly HeaderField[]
  readonly #socket: Socket
  readonly #reader = new FrameReader(this, leastMaxFrameBytes, nothing)
  readonly #blocks = new HeaderBlocks(this)
  readonly #answers = new HeaderBlockMemo(new HpackDecoder(), maxHeaderListBytes, readAnswerHeaders)
  readonly #output = new FrameOutput()
  readonly #server = new PeerSettings()
  readonly #streams = new NumberTable<Http2ClientStream>()
  readonly #pending = new Set<PendingMessage>()
  /** Streams that wait because the server allows no more at once. */
  readonly #waiting: { stream: Http2ClientStream; begin: () => void }[] = []
  #requests: { readonly first: Buffer; readonly later: Buffer }
  #usesTable: boolean
  #isFirst = true
  #mustEmptyTable = false
  #nextId = 1
  #isReading = false
  #sendWindow: number = defaultWindowBytes
  #receivedBytes = 0
  #isUsable = true
  #tellReady: (failure: Error | null) => void = () => undefined

  constructor(target: LoadTarget, fields: readonly HeaderField[]) {
    this.#fields = fields
    this.#usesTable = tableBytes(fields) <= defaultHeaderTableBytes
    this.#requests = requestBlocks(fields, this.#usesTable)
    this.ready = new Promise((resolve, reject) => {
      this.#tellReady = (failure) => (failure === null ? resolve() : reject(failure))
    })
    // Without a handler a failure that nobody waits for would end the process.
    this.ready.catch(() => undefined)
    this.#socket = openSocket(target, 'h2', {
      onConnect: () => undefined,
      onBytes: (bytes) => this.#read(bytes),
      onEnd: (reason) => this.#break(reason),
    })
    this.#socket.write(openingBytes)
  }

  /** False once the server has sent GOAWAY, the connection broke, or all stream ids are used. */
  get isUsable(): boolean {
    return this.#isUsable
  }

  /** Begins a call and sends its first message. */
  // HOT: once per request. 1 copy of a small message into the output, none of a large one.
  begin(stream: Http2ClientStream, head: Buffer, tail: Buffer, isEnd: boolean, isPacked: boolean): void {
    if (this.#streams.size >= this.#server.maxStreams) {
      this.#waiting.push({ stream, begin: () => this.begin(stream, head, tail, isEnd, isPacked) })
      return
    }
    const id = this.#nextId
    this.#nextId += 2
    if (this.#nextId > maxStreamId - 2) this.#isUsable = false
    stream.streamId = id
    stream.sendWindow = this.#server.initialWindowBytes
    stream.receivedBytes = 0
    this.#streams.set(id, stream)
    const block = this.#isFirst ? this.#requests.first : this.#requests.later
    this.#isFirst = false
    this.#writeHeader(block.length + (this.#mustEmptyTable ? 1 : 0), frameTypes.HEADERS, frameFlags.END_HEADERS, id)
    if (this.#mustEmptyTable) this.#output.copy(emptyTable)
    this.#mustEmptyTable = false
    this.#output.copy(block)
    this.send(stream, head, tail, isEnd, isPacked)
  }

  /** Sends a message behind gRPC's prefix of five bytes: whether it is compressed, and its length. */
  send(stream: Http2ClientStream, head: Buffer, tail: Buffer, isEnd: boolean, isPacked: boolean): void {
    const messageBytes = head.length + tail.length
    const total = prefixBytes + messageBytes
    const isSmall = total <= copiedBytes && total <= this.#server.maxFrameBytes
    if (isSmall && total <= this.#sendWindow && total <= stream.sendWindow) {
      this.#sendWindow -= total
      stream.sendWindow -= total
      const target = this.#output.reserve(frameHeaderBytes + total)
      const flags = isEnd ? frameFlags.END_STREAM : 0
      const at = writeFrameHeader(target, this.#output.offset, total, frameTypes.DATA, flags, stream.streamId)
      target[at] = isPacked ? 1 : 0
      target.writeUInt32BE(messageBytes, at + 1)
      head.copy(target, at + prefixBytes)
      tail.copy(target, at + prefixBytes + head.length)
      this.#output.offset = at + total
    } else {
      const prefix = Buffer.alloc(prefixBytes)
      prefix[0] = isPacked ? 1 : 0
      prefix.writeUInt32BE(messageBytes, 1)
      const message = { stream, parts: [prefix, head, tail].filter((part) => part.length > 0), isEnd }
      if (!this.#advance(message)) this.#pending.add(message)
    }
    if (!this.#isReading) this.#flush()
  }

  /** Half-closes a call. */
  finish(stream: Http2ClientStream): void {
    if (this.#streams.get(stream.streamId) === undefined) return
    this.#writeHeader(0, frameTypes.DATA, frameFlags.END_STREAM, stream.streamId)
    if (!this.#isReading) this.#flush()
  }

  close(): void {
    this.#isUsable = false
    this.isClosed = true
    this.#streams.clear()
    this.#waiting.length = 0
    this.#socket.destroy()
  }

  #writeHeader(length: number, type: number, flags: number, id: number): void {
    const target = this.#output.reserve(frameHeaderBytes)
    this.#output.offset = writeFrameHeader(target, this.#output.offset, length, type, flags, id)
  }

  #flush(): void {
    if (this.#output.byteLength > 0) this.#output.writeTo(this.#socket)
  }

  /** Sends what the windows allow; true when the whole message was sent. */
  #advance(message: PendingMessage): boolean {
    const { stream, isEnd } = message
    let left = message.parts.reduce((sum, part) => sum + part.length, 0)
    while (left > 0) {
      const size = Math.min(left, this.#server.maxFrameBytes, this.#sendWindow, stream.sendWindow)
      if (size <= 0) break
      left -= size
      this.#sendWindow -= size
      stream.sendWindow -= size
      this.#writeHeader(size, frameTypes.DATA, isEnd && left === 0 ? frameFlags.END_STREAM : 0, stream.streamId)
      this.#writeParts(message, size)
    }
    this.#flush()
    return left === 0
  }

  #writeParts(message: PendingMessage, size: number): void {
    let left = size
    while (left > 0) {
      const part = message.parts[0] as Buffer
      const taken = part.subarray(0, left)
      left -= taken.length
      if (taken.length === part.length) message.parts.shift()
      else message.parts[0] = part.subarray(taken.length)
      if (taken.length <= copiedBytes) this.#output.copy(taken)
      else this.#output.addView(taken)
    }
  }

  #read(chunk: Buffer): void {
    // Lanes send their next requests while answers are read. These requests are written together afterwards.
    this.#isReading = true
    try {
      this.#reader.push(chunk)
    } catch (reason) {
      this.#break(messageOf(reason))
      return
    } finally {
      this.#isReading = false
    }
    this.#flush()
  }

  onFrameHeader(type: number, flags: number, id: number, length: number): void {
    validateFrameHeader(type, flags, id, length)
    this.#blocks.expect(type, id)
    if (type !== frameTypes.DATA) return
    this.#receivedBytes += length
    if (this.#receivedBytes > windowTopUp) {
      this.#output.copy(encodeWindowUpdate(0, this.#receivedBytes))
      this.#receivedBytes = 0
    }
    const stream = this.#streams.get(id)
    if (stream === undefined) return
    stream.receivedBytes += length
    if (stream.receivedBytes <= windowTopUp || (flags & frameFlags.END_STREAM) !== 0) return
    this.#output.copy(encodeWindowUpdate(id, stream.receivedBytes))
    stream.receivedBytes = 0
  }

  onDataPiece(flags: number, id: number, piece: Buffer, isLast: boolean): void {
    const stream = this.#streams.get(id)
    if (stream === undefined) return
    const isEnd = isLast && (flags & frameFlags.END_STREAM) !== 0
    if (isEnd) this.#forget(id)
    stream.onData(piece, isEnd)
  }

  onFrame(type: number, flags: number, id: number, payload: Buffer): void {
    const isAnswer = (flags & frameFlags.ACK) !== 0
    switch (type) {
      case frameTypes.HEADERS:
        return this.#blocks.onHeaders(flags, id, payload)
      case frameTypes.CONTINUATION:
        return this.#blocks.onContinuation(flags, payload)
      case frameTypes.SETTINGS:
        return isAnswer ? undefined : this.#onSettings(payload)
      case frameTypes.PING:
        return isAnswer ? undefined : this.#output.copy(encodePing(payload, true))
      case frameTypes.WINDOW_UPDATE:
        return this.#onWindowUpdate(id, payload.readUInt32BE(0) & 0x7fffffff)
      case frameTypes.RST_STREAM: {
        const stream = this.#streams.get(id)
        this.#forget(id)
        return stream?.onReset(`the server reset the stream with code ${payload.readUInt32BE(0)}`, false)
      }
      case frameTypes.GOAWAY:
        return this.#onGoaway(payload.readUInt32BE(0) & 0x7fffffff)
      default:
    }
  }

  #onGoaway(lastId: number): void {
    this.#isUsable = false
    for (const [id, stream] of this.#streams.entries()) {
      if (id <= lastId) continue
      this.#forget(id)
      stream.onReset('the server takes no more calls on this connection', true)
    }
  }

  onHeaderBlock(id: number, block: Buffer, isEnd: boolean): void {
    const headers = this.#answers.read(block)
    if (headers === null) throw new Error(`the server sent headers of more than ${maxHeaderListBytes} bytes`)
    const stream = this.#streams.get(id)
    if (stream === undefined) return
    if (isEnd) this.#forget(id)
    stream.onHeaders(headers, isEnd)
  }

  #onSettings(payload: Buffer): void {
    const before = this.#server.initialWindowBytes
    this.#server.apply(payload)
    const change = this.#server.initialWindowBytes - before
    if (change !== 0) for (const [, stream] of this.#streams.entries()) stream.sendWindow += change
    if (this.#usesTable && this.#server.headerTableBytes < tableBytes(this.#fields)) {
      this.#usesTable = false
      this.#mustEmptyTable = true
      this.#requests = requestBlocks(this.#fields, false)
    }
    this.#output.copy(settingsAck)
    this.#tellReady(null)
    this.#advanceAll()
  }

  #onWindowUpdate(id: number, increment: number): void {
    const stream = this.#streams.get(id)
    if (id === 0) this.#sendWindow += increment
    else if (stream !== undefined) stream.sendWindow += increment
    this.#advanceAll()
  }

  #advanceAll(): void {
    for (const message of this.#pending) if (this.#advance(message)) this.#pending.delete(message)
  }

  #forget(id: number): void {
    this.#streams.delete(id)
    if (this.#pending.size > 0) {
      // An answer may come before the whole request is sent. The server does not want the rest.
      for (const message of this.#pending) if (message.stream.streamId === id) this.#pending.delete(message)
    }
    this.#waiting.shift()?.begin()
  }

  #break(reason: string): void {
    const streams = [
      ...this.#streams.entries().map(([, stream]) => stream),
      ...this.#waiting.map((waiting) => waiting.stream),
    ]
    this.#pending.clear()
    this.close()
    this.#tellReady(new Error(reason))
    for (const stream of streams) stream.onReset(reason, true)
  }
}
