// Lanes of gRPC: each request a call of its own (ModelInfer), or one after another on one stream (ModelStreamInfer).
// Several lanes share a connection.

import { deflateSync, gzipSync } from 'node:zlib'
import { messageOf } from '../../base/server-error.ts'
import type { AnswerHeaders } from '../../transport/http2/client-headers.ts'
import type { HeaderField } from '../../transport/http2/hpack-encoder.ts'
import { GrpcMessageReader } from './grpc-message-reader.ts'
import { Http2ClientConnection, Http2ClientStream } from '../../transport/http2/http2-client-connection.ts'
import { Lane, type LaneSink } from './lane.ts'
import { stampedHead, type PreparedRequest, type SequenceStamp } from './prepared-request.ts'
import type { LoadTarget } from '../../transport/client-socket.ts'
import { readStreamResponse } from './stream-response.ts'

/** As many as Triton's own client uses per connection. */
const lanesPerConnection = 6
const nothing = Buffer.alloc(0)
const packers = { gzip: gzipSync, deflate: deflateSync }

/** Connections by number, made when a lane first needs them and made anew when they are used up. */
export class GrpcConnections {
  readonly #target: LoadTarget
  readonly #fields: readonly HeaderField[]
  readonly #connections: Http2ClientConnection[] = []

  constructor(target: LoadTarget, fields: readonly HeaderField[]) {
    this.#target = target
    this.#fields = fields
  }

  forLane(index: number): Http2ClientConnection {
    const at = Math.floor(index / lanesPerConnection)
    const known = this.#connections[at]
    if (known?.isUsable === true) return known
    return (this.#connections[at] = new Http2ClientConnection(this.#target, this.#fields))
  }

  close(): void {
    for (const connection of this.#connections) connection?.close()
    this.#connections.length = 0
  }
}

/** The common part of both kinds of lanes. Its inner object is the HTTP/2 stream. */
abstract class GrpcLane extends Lane {
  protected readonly connections: GrpcConnections
  protected readonly keepsBodies: boolean
  protected readonly stream: LaneStream
  protected isBusy = false
  protected encoding = ''

  constructor(index: number, sink: LaneSink, connections: GrpcConnections, keepsBodies: boolean) {
    super(index, sink)
    this.connections = connections
    this.keepsBodies = keepsBodies
    this.stream = new LaneStream(this)
  }

  open(): Promise<void> {
    return this.connections.forLane(this.index).ready
  }

  close(): void {
    this.isBusy = false
  }

  protected messageOf(request: PreparedRequest, stamp: SequenceStamp | null): Buffer {
    const head = stamp === null ? request.head : stampedHead(request, stamp)
    if (request.compression === 'none' || request.stamp === null) return head
    return packers[request.compression](Buffer.concat([head, request.tail]))
  }

  protected tailOf(request: PreparedRequest): Buffer {
    return request.compression !== 'none' && request.stamp !== null ? nothing : request.tail
  }

  protected fail(text: string, isConnection: boolean): void {
    if (!this.isBusy) return
    this.isBusy = false
    this.sink.onDone(this, performance.now(), { text, isConnection })
  }

  abstract onHeaders(headers: AnswerHeaders, isEnd: boolean): void
  abstract onData(bytes: Buffer, isEnd: boolean): void
  abstract onReset(reason: string, isConnection: boolean): void
}

/** Passes the events of the connection on to the lane. */
class LaneStream extends Http2ClientStream {
  readonly #lane: GrpcLane

  constructor(lane: GrpcLane) {
    super()
    this.#lane = lane
  }

  onHeaders(headers: AnswerHeaders, isEnd: boolean): void {
    this.#lane.onHeaders(headers, isEnd)
  }

  onData(bytes: Buffer, isEnd: boolean): void {
    this.#lane.onData(bytes, isEnd)
  }

  onReset(reason: string, isConnection: boolean): void {
    this.#lane.onReset(reason, isConnection)
  }
}

/** One call per request: its trailers tell success or failure. */
export class GrpcUnaryLane extends GrpcLane {
  #reader: GrpcMessageReader | null = null
  #hasMessage = false

  protected transmit(request: PreparedRequest, stamp: SequenceStamp | null): void {
    this.isBusy = true
    this.#hasMessage = false
    this.#reader = this.keepsBodies ? new GrpcMessageReader() : null
    const connection = this.connections.forLane(this.index)
    const head = this.messageOf(request, stamp)
    connection.begin(this.stream, head, this.tailOf(request), true, request.compression !== 'none')
  }

  onHeaders(headers: AnswerHeaders, isEnd: boolean): void {
    if (this.firstByteMs === 0) this.firstByteMs = performance.now()
    if (headers.encoding !== '') this.encoding = headers.encoding
    if (!isEnd) return
    this.#end(headers)
  }

  onData(bytes: Buffer, isEnd: boolean): void {
    this.#hasMessage = true
    try {
      this.#reader?.feed(bytes, this.encoding, (message) => (this.body = Buffer.from(message)))
    } catch (reason) {
      this.fail(messageOf(reason), true)
    }
    if (isEnd) this.fail('the call ended without a status', true)
  }

  onReset(reason: string, isConnection: boolean): void {
    this.fail(reason, isConnection)
  }

  #end({ grpcStatus, grpcMessage, httpStatus }: AnswerHeaders): void {
    if (grpcStatus !== 0) return this.fail(statusText(grpcStatus, grpcMessage, httpStatus), false)
    if (!this.#hasMessage) return this.fail('the call ended well but without an answer', false)
    if (!this.isBusy) return
    this.isBusy = false
    const nowMs = performance.now()
    this.sink.onResponse(this, nowMs, false)
    this.sink.onDone(this, nowMs, null)
  }
}

/** Requests one after another on one stream, which is opened with the first. */
export class GrpcStreamLane extends GrpcLane {
  readonly #isDecoupled: boolean
  #reader = new GrpcMessageReader()
  #connection: Http2ClientConnection | null = null
  /** The first error among the responses; '' while there is none. */
  #error = ''

  constructor(index: number, sink: LaneSink, connections: GrpcConnections, keepsBodies: boolean, isDecoupled: boolean) {
    super(index, sink, connections, keepsBodies)
    this.#isDecoupled = isDecoupled
  }

  protected transmit(request: PreparedRequest, stamp: SequenceStamp | null): void {
    this.isBusy = true
    this.#error = ''
    const head = this.messageOf(request, stamp)
    const isPacked = request.compression !== 'none'
    if (this.#connection !== null) {
      this.#connection.send(this.stream, head, this.tailOf(request), false, isPacked)
      return
    }
    this.#reader = new GrpcMessageReader()
    this.#connection = this.connections.forLane(this.index)
    this.#connection.begin(this.stream, head, this.tailOf(request), false, isPacked)
  }

  override close(): void {
    super.close()
    this.#connection?.finish(this.stream)
    this.#connection = null
  }

  onHeaders(headers: AnswerHeaders, isEnd: boolean): void {
    if (headers.encoding !== '') this.encoding = headers.encoding
    if (!isEnd) return
    this.#connection = null
    this.fail(`the stream ended: ${statusText(headers.grpcStatus, headers.grpcMessage, headers.httpStatus)}`, true)
  }

  onData(bytes: Buffer, isEnd: boolean): void {
    if (this.firstByteMs === 0) this.firstByteMs = performance.now()
    try {
      this.#reader.feed(bytes, this.encoding, this.#onMessage)
    } catch (reason) {
      this.fail(messageOf(reason), true)
    }
    if (isEnd) this.onReset('the stream ended without a status', true)
  }

  onReset(reason: string, isConnection: boolean): void {
    this.#connection = null
    this.fail(reason, isConnection)
  }

  readonly #onMessage = (message: Buffer): void => {
    if (!this.isBusy) return
    const { error, isFinal, isEmpty } = readStreamResponse(message)
    const nowMs = performance.now()
    if (error === '') {
      if (this.keepsBodies && !isEmpty) this.body = Buffer.from(message)
      this.sink.onResponse(this, nowMs, isEmpty)
    } else if (this.#error === '') this.#error = error
    // Wait for the end: responses after an error would count as the answer to the next request.
    if (this.#isDecoupled && !isFinal) return
    if (this.#error !== '') return this.fail(this.#error, false)
    this.isBusy = false
    this.sink.onDone(this, nowMs, null)
  }
}

const statusText = (status: number, message: string, httpStatus: number): string =>
  status < 0 ? `expected a gRPC server, got HTTP status ${httpStatus}` : `[${status}] ${message}`
