// HTTP/2 as far as a gRPC client needs it, on a plain socket: header blocks prepared once, frames written into one buffer
// per turn, both sides' flow-control windows honoured. node:http2 costs several times as much per call
// (bench/perf-load.bench.ts).

import type { Socket } from 'node:net'
import {
  clientPreface,
  defaultHeaderTableBytes,
  defaultWindowBytes,
  encodeSettings,
  encodeWindowUpdate,
  frameFlags,
  frameHeaderBytes,
  frameTypes,
  largestWindowBytes,
  leastMaxFrameBytes,
  settingIds,
  writeFrameHeader,
} from './http2-format.ts'
import { NumberTable } from '../../base/number-table.ts'
import { messageOf } from '../../base/server-error.ts'
import {
  readAnswerHeaders,
  requestBlocks,
  tableBytes,
  type AnswerHeaders,
  type HeaderField,
} from './client-header-block.ts'
import { openSocket, type LoadTarget } from '../client-socket.ts'

/** One call, as its connection sees it. A lane is one, again and again. */
export abstract class Http2Stream {
  streamId = 0
  /** Bytes that may still be sent on it. */
  sendWindow = 0
  /** Bytes received since the server was last given room. */
  receivedBytes = 0
  abstract onHeaders(headers: AnswerHeaders, isEnd: boolean): void
  /** The bytes are valid during the call only. */
  abstract onData(bytes: Buffer, isEnd: boolean): void
  /** The server reset it, or the connection is gone. */
  abstract onReset(reason: string, isConnection: boolean): void
}

type PendingMessage = { readonly stream: Http2Stream; parts: Buffer[]; readonly isEnd: boolean }

const slabBytes = 64 * 1024
/** Parts of a message below this are copied into the slab; above, the socket gets a view. */
const copiedBytes = 8 * 1024
const maxStreamId = 2 ** 31 - 1
const maxHeaderBytes = 256 * 1024
/** The server gets new room when it has used this much of what it had. */
const windowTopUp = 2 ** 29

/** The preface, settings (no table, no pushes, as much room as there is) and room for the connection as a whole. */
const openingBytes: Buffer = Buffer.concat([
  clientPreface,
  encodeSettings([
    [settingIds.HEADER_TABLE_SIZE, 0],
    [settingIds.ENABLE_PUSH, 0],
    [settingIds.INITIAL_WINDOW_SIZE, largestWindowBytes],
  ]),
  encodeWindowUpdate(0, largestWindowBytes - defaultWindowBytes),
])

export class Http2Connection {
  readonly ready: Promise<void>
  readonly #fields: readonly HeaderField[]
  readonly #socket: Socket
  readonly #streams = new NumberTable<Http2Stream>()
  readonly #pending = new Set<PendingMessage>()
  /** Streams that wait because the server allows no more at once. */
  readonly #waiting: { stream: Http2Stream; begin: () => void }[] = []
  readonly #knownBlocks: { readonly bytes: Buffer; readonly headers: AnswerHeaders }[] = []
  #blocks: { readonly first: Buffer; readonly later: Buffer }
  #isFirst = true
  #resizesTable = false
  #nextId = 1
  #slab = Buffer.allocUnsafeSlow(slabBytes)
  #slabStart = 0
  #slabEnd = 0
  #isReading = false
  #partial: Buffer = Buffer.alloc(0)
  #headerParts: Buffer[] = []
  #isEndAfterHeaders = false
  #sendWindow: number = defaultWindowBytes
  #initialWindow: number = defaultWindowBytes
  #maxFrame: number = leastMaxFrameBytes
  #maxStreams = Infinity
  #receivedBytes = 0
  #isUsable = true
  #tellReady: (failure: Error | null) => void = () => undefined

  constructor(target: LoadTarget, fields: readonly HeaderField[]) {
    this.#fields = fields
    this.#blocks = requestBlocks(fields, tableBytes(fields) <= defaultHeaderTableBytes)
    this.ready = new Promise((resolve, reject) => {
      this.#tellReady = (failure) => (failure === null ? resolve() : reject(failure))
    })
    // Whoever waits for it is told; nobody may be waiting any more.
    this.ready.catch(() => undefined)
    this.#socket = openSocket(target, 'h2', {
      onConnect: () => undefined,
      onBytes: (bytes) => this.#read(bytes),
      onEnd: (reason) => this.#break(reason),
    })
    this.#socket.write(openingBytes)
  }

  /** False once the server has said goodbye, the connection broke, or its numbers are used up. */
  get isUsable(): boolean {
    return this.#isUsable
  }

  /** Begins a call and sends its first message. */
  // HOT: once per request. 1 copy of a small message into the slab, none of a large one.
  begin(stream: Http2Stream, head: Buffer, tail: Buffer, isEnd: boolean, isPacked: boolean): void {
    if (this.#streams.size >= this.#maxStreams) {
      this.#waiting.push({ stream, begin: () => this.begin(stream, head, tail, isEnd, isPacked) })
      return
    }
    const id = this.#nextId
    this.#nextId += 2
    if (this.#nextId > maxStreamId - 2) this.#isUsable = false
    stream.streamId = id
    stream.sendWindow = this.#initialWindow
    stream.receivedBytes = 0
    this.#streams.set(id, stream)
    const block = this.#isFirst ? this.#blocks.first : this.#blocks.later
    this.#isFirst = false
    const blockBytes = block.length + (this.#resizesTable ? 1 : 0)
    let at = this.#reserve(frameHeaderBytes + blockBytes)
    writeFrameHeader(this.#slab, at, blockBytes, frameTypes.HEADERS, frameFlags.END_HEADERS, id)
    at += frameHeaderBytes
    if (this.#resizesTable) this.#slab[at++] = 0x20
    this.#resizesTable = false
    block.copy(this.#slab, at)
    this.send(stream, head, tail, isEnd, isPacked)
  }

  /** A message with gRPC's five bytes before it, which say whether it is compressed. */
  send(stream: Http2Stream, head: Buffer, tail: Buffer, isEnd: boolean, isPacked: boolean): void {
    const messageBytes = head.length + tail.length
    const total = 5 + messageBytes
    if (total <= this.#maxFrame && total <= copiedBytes && total <= this.#sendWindow && total <= stream.sendWindow) {
      this.#sendWindow -= total
      stream.sendWindow -= total
      let at = this.#reserve(frameHeaderBytes + total)
      writeFrameHeader(this.#slab, at, total, frameTypes.DATA, isEnd ? frameFlags.END_STREAM : 0, stream.streamId)
      at += frameHeaderBytes
      this.#slab[at] = isPacked ? 1 : 0
      this.#slab.writeUInt32BE(messageBytes, at + 1)
      head.copy(this.#slab, at + 5)
      tail.copy(this.#slab, at + 5 + head.length)
    } else {
      const prefix = Buffer.alloc(5)
      prefix[0] = isPacked ? 1 : 0
      prefix.writeUInt32BE(messageBytes, 1)
      this.#sendLarge(stream, [prefix, head, tail], isEnd)
    }
    if (!this.#isReading) this.#flush()
  }

  /** Half-closes a call. */
  finish(stream: Http2Stream): void {
    if (this.#streams.get(stream.streamId) === undefined) return
    const at = this.#reserve(frameHeaderBytes)
    writeFrameHeader(this.#slab, at, 0, frameTypes.DATA, frameFlags.END_STREAM, stream.streamId)
    if (!this.#isReading) this.#flush()
  }

  close(): void {
    this.#isUsable = false
    this.#streams.clear()
    this.#waiting.length = 0
    this.#socket.destroy()
  }

  #sendLarge(stream: Http2Stream, parts: Buffer[], isEnd: boolean): void {
    const message: PendingMessage = { stream, parts: parts.filter((part) => part.length > 0), isEnd }
    if (!this.#advance(message)) this.#pending.add(message)
  }

  /** Sends what the windows allow; true when that was all of it. */
  #advance(message: PendingMessage): boolean {
    const { stream, isEnd } = message
    let left = message.parts.reduce((sum, part) => sum + part.length, 0)
    this.#socket.cork()
    while (left > 0) {
      const size = Math.min(left, this.#maxFrame, this.#sendWindow, stream.sendWindow)
      if (size <= 0) break
      left -= size
      this.#sendWindow -= size
      stream.sendWindow -= size
      const at = this.#reserve(frameHeaderBytes)
      const flags = isEnd && left === 0 ? frameFlags.END_STREAM : 0
      writeFrameHeader(this.#slab, at, size, frameTypes.DATA, flags, stream.streamId)
      this.#writeParts(message, size)
    }
    this.#flush()
    this.#socket.uncork()
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
      if (taken.length <= copiedBytes) {
        taken.copy(this.#slab, this.#reserve(taken.length))
      } else {
        this.#flush()
        this.#socket.write(taken)
      }
    }
  }

  /** Room in the slab. What is written stays untouched until the socket has it: a full slab is left to it. */
  #reserve(bytes: number): number {
    if (this.#slabEnd + bytes > this.#slab.length) {
      this.#flush()
      this.#slab = Buffer.allocUnsafeSlow(Math.max(slabBytes, bytes))
      this.#slabStart = 0
      this.#slabEnd = 0
    }
    const at = this.#slabEnd
    this.#slabEnd += bytes
    return at
  }

  #flush(): void {
    if (this.#slabStart === this.#slabEnd) return
    this.#socket.write(this.#slab.subarray(this.#slabStart, this.#slabEnd))
    this.#slabStart = this.#slabEnd
  }

  #read(chunk: Buffer): void {
    const bytes = this.#partial.length === 0 ? chunk : Buffer.concat([this.#partial, chunk])
    let at = 0
    // Requests that answers give rise to leave together, when all answers are read.
    this.#isReading = true
    try {
      while (bytes.length - at >= frameHeaderBytes) {
        const length = ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number)
        const end = at + frameHeaderBytes + length
        if (length > leastMaxFrameBytes) {
          throw new Error(`the server sent a frame of ${length} bytes, over the limit of ${leastMaxFrameBytes}`)
        }
        if (end > bytes.length) break
        const id = bytes.readUInt32BE(at + 5) & 0x7fffffff
        this.#onFrame(bytes[at + 3] as number, bytes[at + 4] as number, id, bytes, at + frameHeaderBytes, end)
        at = end
      }
      this.#partial = at === bytes.length ? Buffer.alloc(0) : Buffer.from(bytes.subarray(at))
    } catch (reason) {
      this.#break(messageOf(reason))
      return
    } finally {
      this.#isReading = false
    }
    this.#flush()
  }

  #onFrame(type: number, flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    switch (type) {
      case frameTypes.DATA:
        return this.#onData(flags, id, bytes, start, end)
      case frameTypes.HEADERS:
      case frameTypes.CONTINUATION:
        return this.#onHeaders(type, flags, id, bytes, start, end)
      case frameTypes.SETTINGS:
        if ((flags & frameFlags.ACK) === 0) this.#onSettings(bytes, start, end)
        return
      case frameTypes.PING:
        if ((flags & frameFlags.ACK) === 0) this.#write(frameTypes.PING, frameFlags.ACK, 0, bytes.subarray(start, end))
        return
      case frameTypes.WINDOW_UPDATE:
        return this.#onWindowUpdate(id, bytes.readUInt32BE(start) & 0x7fffffff)
      case frameTypes.RST_STREAM: {
        const stream = this.#streams.get(id)
        this.#forget(id)
        stream?.onReset(`the server reset the stream with code ${bytes.readUInt32BE(start)}`, false)
        return
      }
      case frameTypes.GOAWAY: {
        this.#isUsable = false
        const last = bytes.readUInt32BE(start) & 0x7fffffff
        for (const [streamId, stream] of this.#streams.entries()) {
          if (streamId <= last) continue
          this.#forget(streamId)
          stream.onReset('the server takes no more calls on this connection', true)
        }
        return
      }
      default:
    }
  }

  #onData(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    this.#receivedBytes += end - start
    if (this.#receivedBytes > windowTopUp) {
      this.#giveRoom(0, this.#receivedBytes)
      this.#receivedBytes = 0
    }
    const stream = this.#streams.get(id)
    if (stream === undefined) return
    stream.receivedBytes += end - start
    const isEnd = (flags & frameFlags.END_STREAM) !== 0
    if (stream.receivedBytes > windowTopUp && !isEnd) {
      this.#giveRoom(id, stream.receivedBytes)
      stream.receivedBytes = 0
    }
    if (isEnd) this.#forget(id)
    const isPadded = (flags & frameFlags.PADDED) !== 0
    const from = isPadded ? start + 1 : start
    const to = isPadded ? end - (bytes[start] as number) : end
    stream.onData(bytes.subarray(from, to), isEnd)
  }

  #onHeaders(type: number, flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    let from = start
    let to = end
    if (type === frameTypes.HEADERS) {
      this.#headerParts = []
      if ((flags & frameFlags.PADDED) !== 0) {
        to -= bytes[from] as number
        from++
      }
      if ((flags & frameFlags.PRIORITY) !== 0) from += 5
      this.#isEndAfterHeaders = (flags & frameFlags.END_STREAM) !== 0
    }
    if ((flags & frameFlags.END_HEADERS) === 0 || this.#headerParts.length > 0) {
      this.#headerParts.push(Buffer.from(bytes.subarray(from, to)))
      const size = this.#headerParts.reduce((sum, part) => sum + part.length, 0)
      if (size > maxHeaderBytes) throw new Error(`the server sent headers of more than ${maxHeaderBytes} bytes`)
      if ((flags & frameFlags.END_HEADERS) === 0) return
      const whole = Buffer.concat(this.#headerParts)
      this.#headerParts = []
      return this.#deliverHeaders(id, this.#headersOf(whole, 0, whole.length))
    }
    this.#deliverHeaders(id, this.#headersOf(bytes, from, to))
  }

  #deliverHeaders(id: number, headers: AnswerHeaders): void {
    const stream = this.#streams.get(id)
    if (stream === undefined) return
    const isEnd = this.#isEndAfterHeaders
    if (isEnd) this.#forget(id)
    stream.onHeaders(headers, isEnd)
  }

  #headersOf(bytes: Buffer, start: number, end: number): AnswerHeaders {
    const size = end - start
    for (const known of this.#knownBlocks) {
      if (known.bytes.length === size && bytes.compare(known.bytes, 0, size, start, end) === 0) return known.headers
    }
    const block = Buffer.from(bytes.subarray(start, end))
    const headers = readAnswerHeaders(block)
    // The first headers and the trailers of good answers; whatever else comes is rare.
    if (this.#knownBlocks.length >= 4) this.#knownBlocks.shift()
    this.#knownBlocks.push({ bytes: block, headers })
    return headers
  }

  #onSettings(bytes: Buffer, start: number, end: number): void {
    for (let at = start; at + 6 <= end; at += 6) {
      const value = bytes.readUInt32BE(at + 2)
      switch (bytes.readUInt16BE(at)) {
        case settingIds.HEADER_TABLE_SIZE:
          if (value < tableBytes(this.#fields)) {
            this.#blocks = requestBlocks(this.#fields, false)
            this.#resizesTable = true
          }
          break
        case settingIds.MAX_CONCURRENT_STREAMS:
          this.#maxStreams = value
          break
        case settingIds.INITIAL_WINDOW_SIZE:
          for (const [, stream] of this.#streams.entries()) stream.sendWindow += value - this.#initialWindow
          this.#initialWindow = value
          break
        case settingIds.MAX_FRAME_SIZE:
          this.#maxFrame = value
          break
        default:
      }
    }
    this.#write(frameTypes.SETTINGS, frameFlags.ACK, 0, Buffer.alloc(0))
    this.#tellReady(null)
    this.#advanceAll()
  }

  #onWindowUpdate(id: number, increment: number): void {
    if (id === 0) this.#sendWindow += increment
    else {
      const stream = this.#streams.get(id)
      if (stream !== undefined) stream.sendWindow += increment
    }
    this.#advanceAll()
  }

  #advanceAll(): void {
    for (const message of this.#pending) if (this.#advance(message)) this.#pending.delete(message)
  }

  #giveRoom(id: number, bytes: number): void {
    const payload = Buffer.alloc(4)
    payload.writeUInt32BE(bytes)
    this.#write(frameTypes.WINDOW_UPDATE, 0, id, payload)
  }

  #write(type: number, flags: number, id: number, payload: Buffer): void {
    const at = this.#reserve(frameHeaderBytes + payload.length)
    writeFrameHeader(this.#slab, at, payload.length, type, flags, id)
    payload.copy(this.#slab, at + frameHeaderBytes)
  }

  #forget(id: number): void {
    this.#streams.delete(id)
    if (this.#pending.size > 0) {
      // An answer may come before all of a request is sent: the rest is not wanted.
      for (const message of this.#pending) if (message.stream.streamId === id) this.#pending.delete(message)
    }
    this.#waiting.shift()?.begin()
  }

  #break(reason: string): void {
    this.#isUsable = false
    this.#socket.destroy()
    this.#tellReady(new Error(reason))
    const streams = [
      ...this.#streams.entries().map(([, stream]) => stream),
      ...this.#waiting.map((waiting) => waiting.stream),
    ]
    this.#streams.clear()
    this.#pending.clear()
    this.#waiting.length = 0
    for (const stream of streams) stream.onReset(reason, true)
  }
}
