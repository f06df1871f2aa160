// One client's connection: bytes in, requests out one after the other, answers back. HOT: `take` and `respond`.
// A request whose head repeats the one before it is not parsed again, a body that arrives with its head is not copied,
// a small answer leaves in one write.

import type { Socket } from 'node:net'
import type { Clock } from '../../base/clock.ts'
import { turnBudget } from '../../base/turn-budget.ts'
import type { MistakenClients } from '../mistaken-clients.ts'
import { ConnectionMemory, type ClientMemory } from '../client-memory.ts'
import { peerCertificateOf, type PeerCertificate } from '../peer-certificate.ts'
import { RequestMemory } from '../request-memory.ts'
import { BodyCollector } from './body-collector.ts'
import { ChunkedAnswer } from './chunked-answer.ts'
import { ChunkedDecoder } from './chunked-decoder.ts'
import { SocketChunkWriter } from './socket-chunk-writer.ts'
import { headText, joined, noHead, wireOf } from './answer-bytes.ts'
import type { HttpResponse, ResponseStream } from './http-message.ts'
import type { HttpService } from './http-service.ts'
import { ReceivedRequest, type RequestHost } from './received-request.ts'
import { halfHeadFault, parseRequestHead, toldTwice, type HeadFault, type RequestHead } from './request-head.ts'

/** What a connection asks of the transport that holds it. */
export type ConnectionHost = {
  readonly clock: Clock
  readonly service: HttpService
  readonly clientMemory: ClientMemory
  readonly mistaken: MistakenClients
  readonly isDraining: boolean
  readonly bodyLimitBytes: number
  readonly maxHeaderBytes: number
  /** What must come of a body within the time limit of a pause. */
  readonly leastBodyBytes: number
}

/** Up to here the parts of an answer are copied together: one small write costs less than several pieces. */
const joinBytes = 16 * 1024
/** The body of a request that was not admitted is heard out up to here, so that its client reads the answer. */
const mostUnwantedBytes = 1024 * 1024
/** Requests of one connection that are begun in one turn of the event loop. Others have their turn before the next ones. */
const mostPerTurn = 16
/** Line ends that a client may send between two requests. */
const mostLineEnds = 64
const brokenChunks = 'a chunk of the body does not begin with its size, or does not end where that size says'
const headEnd = Buffer.from('\r\n\r\n')
const noBytes = Buffer.alloc(0)

const firstRequestGraceNs = 250e6

/** `idle`: between requests. `waiting`: a request is whole and not yet answered. */
type ConnectionPhase = 'idle' | 'head' | 'body' | 'waiting'

export class HttpConnection implements RequestHost {
  readonly #host: ConnectionHost
  readonly #socket: Socket
  #phase: ConnectionPhase = 'idle'
  /** When the phase began; of a body when enough bytes of it had come. The transport compares it with its time limits. */
  sinceNs: number
  /** Bytes of a body that came since then. */
  #bytesSince = 0
  /** Bytes that arrived and are not read yet: half a head, or a request that came before its predecessor was answered. */
  #pending: Buffer | null = null
  #isConsuming = false
  /** True: the next request waits until the client has taken its answers, or until others had their turn. */
  #isHeldBack = false
  #lineEnds = 0
  #isClosed = false
  readonly #memory: ConnectionMemory
  /** Bytes of the body that are counted. */
  #bodyBytes = 0

  /** The last head and its bytes. The next head is nearly always the same. */
  #headBytes: Buffer = noBytes
  #head: RequestHead | null = null
  /** The request that is being received or waits for its answer; null between requests. */
  #exchange: ReceivedRequest | null = null
  #collector: BodyCollector | null = null
  #decoder: ChunkedDecoder | null = null
  #leftBytes = 0
  /** The answer that is being written while it is made; null for all others. */
  #stream: ChunkedAnswer | null = null
  /** Memory of the last answer that is still being written. */
  #release: (() => void) | null = null

  constructor(host: ConnectionHost, socket: Socket) {
    this.#host = host
    this.#socket = socket
    this.#memory = new ConnectionMemory(host.clientMemory)
    this.sinceNs = host.clock.nowNs()
    socket.on('drain', () => this.#onDrain())
    // A client that ends its side has gone away: clients that want an answer keep their side open.
    socket.on('end', () => this.#onEnd())
    socket.on('error', () => socket.destroy())
    socket.on('close', () => this.#onClose())
  }

  /** Takes bytes of a buffer that is used again. They are copied, except for pieces of a body, which is collected anyway. */
  takeLent(bytes: Buffer): void {
    const isOfBody = this.#phase === 'body' && this.#decoder === null && bytes.length <= this.#leftBytes
    this.take(isOfBody && this.#collector?.hasBegun === true ? bytes : Buffer.from(bytes))
  }

  /** HOT: once per read of the socket. */
  target(): Buffer | null {
    return this.#phase === 'body' && this.#collector !== null ? this.#collector.target : null
  }

  isInLargeBody(): boolean {
    return this.target() !== null
  }

  get remoteAddress(): string {
    return this.#socket.remoteAddress ?? ''
  }

  peerCertificate(): PeerCertificate | null {
    return peerCertificateOf(this.#socket)
  }

  /** A client whose next request is held back waits, as one whose request is with a model. */
  get phase(): ConnectionPhase {
    return this.#isHeldBack ? 'waiting' : this.#phase
  }

  noteFault(request: ReceivedRequest, reason: unknown): void {
    this.#host.service.noteFault(request, reason)
  }

  memoryOfRequest(): RequestMemory {
    return new RequestMemory(this.#memory)
  }

  /** Counts what the client has not taken. Called after writes and now and then, so that no write needs a callback. */
  countUnread(): void {
    const unread = this.#socket.writableLength
    if (unread !== this.#memory.answerBytes) this.#memory.changeAnswers(unread - this.#memory.answerBytes)
  }

  #onDrain(): void {
    this.countUnread()
    if (this.#isHeldBack) this.#letGo()
  }

  #letGo(): void {
    this.#isHeldBack = false
    this.#countBody(0, true)
    this.#goOn()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  /**
   * Closes the connection after the answer to the request that is under way or on its way in. A connection on which no
   * request has come yet was just made for one: it is given a moment, so that the client gets an answer or a refusal.
   */
  leave(): void {
    if (this.phase !== 'idle') return
    if (this.#head !== null) this.#socket.destroySoon()
    else this.#host.clock.after(firstRequestGraceNs, () => this.#phase === 'idle' && this.#socket.destroySoon())
  }

  /** The head or the body did not come in time. */
  refuseStalled(): void {
    if (this.#phase === 'body') this.#exchange?.respond(this.#host.service.refuseStalledBody(this.#bytesSince))
    else if (this.#phase === 'head') this.#answerLast(this.#host.service.refuseHead(408))
    this.#socket.destroySoon()
  }

  /** Called once per exchange. */
  answer(exchange: ReceivedRequest, response: HttpResponse): void {
    if (this.#isClosed) {
      response.release?.()
      return
    }
    const { head } = exchange
    // Behind a body that was not read to its end, nobody knows where the next request begins.
    const isRead = this.#phase === 'waiting'
    const given = this.#withinBudget(response)
    turnBudget.spend(given.bodyBytes)
    const closes = given.closesConnection || !head.keepsAlive || !isRead || this.#host.isDraining
    this.#write(given, head, closes)
    this.#finish(closes)
  }

  /** The answer; or a refusal, where so much is unread that a large answer cannot be kept for its client. */
  #withinBudget(response: HttpResponse): HttpResponse {
    const { bodyBytes, release } = response
    if (bodyBytes <= joinBytes || this.#memory.hasRoomForAnswer(bodyBytes)) return response
    release?.()
    return this.#host.service.refuseMemory(bodyBytes)
  }

  /** Instead of `answer`: writes the head now and the body in pieces. */
  stream(exchange: ReceivedRequest, response: HttpResponse): ResponseStream {
    const { head } = exchange
    // Before HTTP/1.1 there are no chunks: the body ends where the connection does.
    const closes = response.closesConnection || !head.keepsAlive || head.isHttp10 || this.#host.isDraining
    const answer = new ChunkedAnswer(new SocketChunkWriter(this.#socket, !head.isHttp10), () => {
      exchange.isAnswered = true
      exchange.onDisconnect = null
      this.#stream = null
      this.#finish(closes || this.#host.isDraining)
    })
    if (this.#isClosed || exchange.isAnswered) {
      answer.drop()
      return answer
    }
    this.#stream = answer
    const framing = head.isHttp10 ? '' : 'Transfer-Encoding: chunked\r\n'
    this.#socket.write(headText(response, framing, head, closes), 'latin1')
    return answer
  }

  /** The answer is written: closes the connection, or goes on with the next request. */
  #finish(closes: boolean): void {
    this.#endRequest()
    if (this.#socket.writableLength > 0) this.countUnread()
    this.#phase = 'idle'
    this.sinceNs = this.#host.clock.nowNs()
    if (closes) {
      // What the client has sent behind the request is not read any more. Half a body keeps its memory as long as the socket may write there.
      this.#isClosed = true
      this.#pending = null
      this.#socket.end()
      return
    }
    this.#collector = null
    this.#decoder = null
    this.#goOn()
  }

  #endRequest(): void {
    this.#exchange?.endMemory()
    this.#exchange = null
    this.#memory.release(this.#bodyBytes)
    this.#bodyBytes = 0
  }

  /** Reads what arrived while the connection waited. */
  #goOn(): void {
    if (this.#isConsuming || this.#pending === null) return
    const pending = this.#pending
    this.#pending = null
    this.#consume(pending)
    // While requests wait here, nothing more is read; not the client's end either, which would come before their answers.
    const isWaiting = this.#isHeldBack || (this.#phase === 'waiting' && this.#pending !== null)
    if (!isWaiting) this.#socket.resume()
  }

  #write(response: HttpResponse, head: RequestHead, closes: boolean): void {
    const { parts, bodyBytes, release, opening } = response
    const isUsual = !closes && !head.isHttp10 && head.method !== 'HEAD'
    if (isUsual && response.isRepeated) {
      this.#socket.write((response.wire ??= wireOf(response, parts)))
      return
    }
    if (isUsual && opening !== null && bodyBytes <= joinBytes) {
      this.#socket.write(joined((opening.bytes ??= wireOf(response, parts.slice(0, 1))), response))
      release?.()
      return
    }
    const text = headText(response, `Content-Length: ${bodyBytes}\r\n`, head, closes)
    if (bodyBytes === 0 || head.method === 'HEAD') {
      this.#socket.write(text, 'latin1')
      release?.()
    } else if (bodyBytes <= joinBytes) {
      const out = Buffer.allocUnsafe(text.length + bodyBytes)
      let at = out.write(text, 'latin1')
      for (let i = 0; i < parts.length; i++) {
        out.set(parts[i] as Uint8Array, at)
        at += (parts[i] as Uint8Array).length
      }
      this.#socket.write(out)
      release?.()
    } else this.#writeParts(text, parts, release)
  }

  #writeParts(text: string, parts: readonly Uint8Array[], release: (() => void) | null): void {
    const socket = this.#socket
    socket.cork()
    socket.write(text, 'latin1')
    const last = parts.length - 1
    for (let i = 0; i < last; i++) socket.write(parts[i] as Uint8Array)
    if (release === null) socket.write(parts[last] as Uint8Array)
    else {
      // The callbacks come in order: when this answer is written, so is the one before it.
      const earlier = this.#release
      this.#release = earlier === null ? release : () => (earlier(), release())
      socket.write(parts[last] as Uint8Array, () => this.#releaseNow())
    }
    socket.uncork()
  }

  #releaseNow(): void {
    const release = this.#release
    this.#release = null
    release?.()
  }

  /** Bytes from the socket. Nobody changes them afterwards, so views on them are safe. */
  take(data: Buffer): void {
    if (this.#isClosed) return
    const before = this.#phase
    const exchange = this.#exchange
    if (before === 'waiting' || this.#isHeldBack) {
      // The next request came before this one was answered. It is kept, and nothing more is read.
      this.#pending = this.#pending === null ? data : Buffer.concat([this.#pending, data])
      this.#socket.pause()
      return
    }
    const pending = this.#pending
    this.#pending = null
    this.#consume(pending === null ? data : Buffer.concat([pending, data]))
    // A request that came whole has no time limit, so most reads need no look at the clock.
    if (this.#phase === 'body') this.#countBody(data.length, before !== 'body' || this.#exchange !== exchange)
    else if (this.#phase === 'head' && before !== 'head') this.sinceNs = this.#host.clock.nowNs()
  }

  /** A body that comes byte by byte is not alive: the time begins anew only when enough bytes have come. */
  #countBody(bytes: number, isNew: boolean): void {
    this.#bytesSince += bytes
    if (!isNew && this.#bytesSince < this.#host.leastBodyBytes) return
    this.#bytesSince = 0
    this.sinceNs = this.#host.clock.nowNs()
  }

  #consume(data: Buffer): void {
    this.#isConsuming = true
    let at = 0
    let begun = 0
    while (at < data.length && !this.#isClosed) {
      if (this.#phase === 'idle' && this.#mustWait(++begun)) this.#isHeldBack = true
      if (this.#phase === 'waiting' || this.#isHeldBack) {
        this.#pending = at === 0 ? data : data.subarray(at)
        this.#socket.pause()
        break
      }
      const next = this.#phase === 'body' ? this.#consumeBody(data, at) : this.#consumeHead(data, at)
      if (next < 0) break
      at = next
    }
    this.#isConsuming = false
  }

  /** Answers that the client does not take hold its next request back; so do many requests in one turn. */
  #mustWait(begun: number): boolean {
    if (this.#socket.writableNeedDrain) return true
    if (begun <= mostPerTurn) return false
    setImmediate(() => this.#letGo())
    return true
  }

  /** Gives where to go on; -1 when more bytes are needed or the connection is closed. */
  #consumeHead(data: Buffer, start: number): number {
    let at = start
    // Some old clients send a line end behind the body that its length does not count.
    while (this.#phase === 'idle' && (data[at] === 0x0d || data[at] === 0x0a)) at++
    if (at > start && this.#hasTooManyLineEnds(at - start)) return -1
    if (at >= data.length) return at
    const isRepeated = this.#isRepeatedHead(data, at)
    const end = isRepeated ? at + this.#headBytes.length - headEnd.length : data.indexOf(headEnd, at)
    if (end < 0) {
      this.#phase = 'head'
      this.#pending = data.subarray(at)
      this.#judgeHalfHead(this.#pending)
      return -1
    }
    if (end - at > this.#host.maxHeaderBytes) {
      this.#answerLast(this.#host.service.refuseHead(431))
      return -1
    }
    const fault = this.#takeHead(data, at, end, isRepeated)
    if (fault !== null) {
      this.#refuseMalformed(data.subarray(at), fault)
      return -1
    }
    return end + headEnd.length
  }

  #hasTooManyLineEnds(more: number): boolean {
    this.#lineEnds += more
    if (this.#lineEnds <= mostLineEnds) return false
    this.#socket.destroy()
    return true
  }

  #isRepeatedHead(data: Buffer, at: number): boolean {
    const { length } = this.#headBytes
    return length > 0 && at + length <= data.length && data.compare(this.#headBytes, 0, length, at, at + length) === 0
  }

  #takeHead(data: Buffer, at: number, end: number, isRepeated: boolean): HeadFault | null {
    const head = isRepeated ? (this.#head as RequestHead) : parseRequestHead(data.toString('latin1', at, end))
    if (typeof head === 'string') return head
    if (head.bodyBytes === toldTwice) {
      this.#answerLast(this.#host.service.refuseHead(400))
      return null
    }
    if (!isRepeated) {
      this.#head = head
      this.#headBytes = Buffer.from(data.subarray(at, end + headEnd.length))
    }
    const exchange = new ReceivedRequest(this, head)
    this.#exchange = exchange
    this.#lineEnds = 0
    const verdict = this.#host.service.admit(exchange)
    if (verdict instanceof Promise) this.#awaitVerdict(exchange, verdict)
    else this.#receive(exchange, verdict)
    return null
  }

  /** No byte of the body is read before the verdict is there. */
  #awaitVerdict(exchange: ReceivedRequest, verdict: Promise<HttpResponse | null>): void {
    this.#phase = 'waiting'
    void verdict.then((refusal) => {
      if (this.#isClosed) return
      this.#receive(exchange, refusal)
      this.#countBody(0, true)
      this.#goOn()
    })
  }

  #receive(exchange: ReceivedRequest, refusal: HttpResponse | null): void {
    const { bodyBytes } = exchange.head
    const isTaken = refusal === null && bodyBytes > 0 && bodyBytes <= this.#host.bodyLimitBytes
    const hasNoRoom = isTaken && !this.#memory.server.hasRoom(bodyBytes)
    exchange.refusal = hasNoRoom ? this.#host.service.refuseBody(exchange, 'over-budget', bodyBytes) : refusal
    if (exchange.head.bodyBytes !== 0) this.#startBody(exchange, exchange.head)
    else if (refusal === null) this.#handle(exchange)
    else {
      this.#phase = 'waiting'
      exchange.respond(refusal)
    }
  }

  #startBody(exchange: ReceivedRequest, { bodyBytes, expectsContinue }: RequestHead): void {
    this.#phase = 'body'
    this.#leftBytes = bodyBytes
    const { refusal } = exchange
    // Most bodies come whole with their head and need no collector, read or not.
    const mostBytes = refusal === null ? this.#host.bodyLimitBytes : mostUnwantedBytes
    if (bodyBytes > 0 && bodyBytes <= mostBytes && !expectsContinue) return
    const collector = refusal === null ? this.#newCollector(bodyBytes) : refusedBody(bodyBytes)
    this.#collector = collector
    this.#decoder = bodyBytes < 0 ? new ChunkedDecoder() : null
    // A client that asks before it sends is refused at once. Others read the answer only after they have sent the body.
    if (collector.state === 'too-large' && (expectsContinue || collector.isBeyondPatience))
      this.#refuseBody(exchange, collector)
    else if (expectsContinue) this.#socket.write('HTTP/1.1 100 Continue\r\n\r\n')
  }

  #newCollector(announcedBytes: number): BodyCollector {
    const { bodies } = this.#memory.server
    return new BodyCollector(announcedBytes, this.#host.bodyLimitBytes, {
      reserve: this.#reserve,
      kept: (bytes) => bodies.take(bytes),
      giveBack: (memory) => bodies.give(memory),
    })
  }

  /** HOT: once per body. False: the server has no room for it. */
  readonly #reserve = (bytes: number): boolean => {
    if (!this.#memory.reserve(bytes)) return false
    this.#bodyBytes += bytes
    return true
  }

  #consumeBody(data: Buffer, at: number): number {
    const exchange = this.#exchange as ReceivedRequest
    if (this.#decoder !== null) return this.#consumeChunks(exchange, this.#decoder, data, at)
    const end = Math.min(data.length, at + this.#leftBytes)
    const piece = data.subarray(at, end)
    if (this.#collector === null && piece.length === this.#leftBytes) {
      if (exchange.refusal !== null) this.#refuseUnread(exchange, exchange.refusal)
      else if (this.#reserve(piece.length)) this.#complete(exchange, piece)
      else this.#refuseWhole(exchange, piece.length)
      return end
    }
    this.#collector ??= exchange.refusal === null ? this.#newCollector(this.#leftBytes) : refusedBody(this.#leftBytes)
    this.#collector.add(piece)
    this.#leftBytes -= piece.length
    if (this.#collector.isBeyondPatience) this.#refuseBody(exchange, this.#collector)
    else if (this.#leftBytes === 0) this.#completeCollected(exchange, this.#collector)
    return end
  }

  #consumeChunks(exchange: ReceivedRequest, decoder: ChunkedDecoder, data: Buffer, at: number): number {
    const collector = this.#collector as BodyCollector
    const end = decoder.decode(data, at, (piece) => collector.add(piece))
    if (decoder.isBroken) {
      const refusal = exchange.refusal ?? this.#host.service.refuseMalformed(brokenChunks)
      if (refusal === null) this.#socket.destroy()
      else exchange.respond(refusal)
      return -1
    }
    if (collector.isBeyondPatience) this.#refuseBody(exchange, collector)
    else if (decoder.isComplete) this.#completeCollected(exchange, collector)
    return end
  }

  #completeCollected(exchange: ReceivedRequest, collector: BodyCollector): void {
    const body = collector.finish()
    this.#collector = null
    if (collector.state === 'complete') this.#complete(exchange, body)
    else {
      this.#phase = 'waiting'
      this.#refuseBody(exchange, collector)
    }
  }

  #complete(exchange: ReceivedRequest, body: Buffer): void {
    exchange.body = body
    this.#handle(exchange)
  }

  #refuseUnread(exchange: ReceivedRequest, refusal: HttpResponse): void {
    this.#phase = 'waiting'
    exchange.respond(refusal)
  }

  #handle(exchange: ReceivedRequest): void {
    this.#phase = 'waiting'
    // All connections share the turns of the event loop.
    if (turnBudget.isSpent) turnBudget.whenRenewed(() => this.#handleNow(exchange))
    else this.#handleNow(exchange)
  }

  #handleNow(exchange: ReceivedRequest): void {
    if (this.#isClosed || exchange.isAnswered) return
    turnBudget.spend(exchange.body.length)
    this.#host.service.handle(exchange)
  }

  #refuseBody(exchange: ReceivedRequest, collector: BodyCollector): void {
    const reason = collector.state === 'receiving' || collector.state === 'complete' ? 'too-large' : collector.state
    exchange.respond(exchange.refusal ?? this.#host.service.refuseBody(exchange, reason, collector.bodyBytes))
  }

  /** The body is there and cannot be kept. */
  #refuseWhole(exchange: ReceivedRequest, bodyBytes: number): void {
    this.#phase = 'waiting'
    exchange.respond(this.#host.service.refuseBody(exchange, 'over-budget', bodyBytes))
  }

  /** Ends the connection when the bytes so far cannot become a request. */
  #judgeHalfHead(half: Buffer): void {
    if (half.length > this.#host.maxHeaderBytes) return this.#answerLast(this.#host.service.refuseHead(431))
    const fault = halfHeadFault(half)
    if (fault !== null) this.#refuseMalformed(half, fault)
  }

  /** Clients of other protocols are told in theirs. */
  #refuseMalformed(first: Buffer, fault: HeadFault): void {
    const inTheirs = this.#head === null ? this.#host.mistaken.answerTo(first, this.remoteAddress) : null
    const answer = inTheirs === null && fault !== '' ? this.#host.service.refuseMalformed(fault) : null
    if (answer !== null) return this.#answerLast(answer)
    this.#pending = null
    this.#isClosed = true
    if (inTheirs !== null) this.#socket.end(inTheirs)
    else this.#socket.destroy()
  }

  /** Nothing that follows on the connection is read. */
  #answerLast(answer: HttpResponse): void {
    this.#pending = null
    this.#isClosed = true
    this.#write(answer, noHead, true)
    this.#socket.destroySoon()
  }

  #onEnd(): void {
    if (this.#exchange === null) this.#socket.end()
    else this.#socket.destroy()
  }

  #onClose(): void {
    this.#isClosed = true
    this.#pending = null
    this.#collector?.drop()
    this.#collector = null
    this.#stream?.drop()
    this.#stream = null
    const exchange = this.#exchange
    this.#endRequest()
    this.#memory.close()
    if (exchange !== null) {
      const { onDisconnect } = exchange
      exchange.onDisconnect = null
      onDisconnect?.()
    }
    this.#releaseNow()
  }
}

const refusedBody = (bodyBytes: number): BodyCollector =>
  new BodyCollector(bodyBytes, 0, { patienceBytes: mostUnwantedBytes })
