// ModelStreamInfer: any number of requests to any models on one call. Answers of models that answer once leave in the
// order of their requests, answers of decoupled models as they come. An error is an answer and does not end the stream.

import type { Caller } from '../../access/caller.ts'
import { PlacedSet, type Placed } from '../../base/placed-set.ts'
import { ServerError } from '../../base/server-error.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { loadFormatHeader } from '../../model/load-source.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { PortCall } from '../../ports/grpc/port-call.ts'
import {
  readInferRequest,
  readInferRequestId,
  type WireInferRequest,
} from '../../protocol/grpc/infer-request-reader.ts'
import {
  writeEmptyFinal,
  writeStreamError,
  writeStreamResponse,
  type MessageParts,
} from '../../protocol/grpc/infer-response-writer.ts'
import { GrpcStatus, statusCodes, statusOk, type StatusCode } from '../../transport/grpc/grpc-status.ts'
import { metadataValue } from '../../transport/grpc/grpc-transport.ts'
import { GrpcExchange, type GrpcExchangeParts } from './grpc-exchange.ts'

/** How many requests of one stream are under way at a time; at this number the client is held back. */
const mostUnderWay = 256
/** A client that reads nothing for so long while its backlog is full has stopped reading. */
const stalledNs = 1e9

/** One request of the stream whose answer has its place in the order. */
interface Turn {
  message: MessageParts | null
  release: (() => void) | null
  isDone: boolean
}

export class InferStream {
  readonly #parts: GrpcExchangeParts
  readonly #call: PortCall
  #caller: Caller
  readonly #endsOnError: boolean
  readonly #underWay = new PlacedSet<StreamedExchange>()
  #turns: Turn[] = []
  /** Bytes of answers that wait for one before them. */
  #turnBytes = 0
  #hasHalfClosed = false
  #endStatus: GrpcStatus = statusOk
  #fullSinceNs = 0
  #isFilling = false
  #isHeldBack = false
  /** Requests that are being read. Later requests wait for them, so that no request overtakes another of its sequence. */
  #arriving = 0

  constructor(parts: GrpcExchangeParts, call: PortCall, caller: Caller) {
    this.#parts = parts
    this.#call = call
    this.#caller = caller
    this.#endsOnError = metadataValue(call.metadata, 'triton_grpc_error') === 'true'
    call.onMessage = (message) => this.#onMessage(message)
    call.onHalfClose = () => {
      this.#hasHalfClosed = true
      this.#endIfDone()
    }
    call.onCancel = () => this.#abandon()
    call.onDrain = () => this.#regulate()
    call.onRenewed = (known) => (this.#caller = known)
  }

  /** Answers wait for the client to read, so that models should wait, too. */
  get isFilling(): boolean {
    return this.#isFilling
  }

  /** No further requests; the stream ends with `status` after the answers under way. */
  drain(status: GrpcStatus): void {
    this.#endStatus = this.#hasHalfClosed ? statusOk : status
    this.#hasHalfClosed = true
    this.#endIfDone()
  }

  #onMessage(message: Buffer): void {
    const { engine, options } = this.#parts
    let wire: WireInferRequest
    try {
      wire = readInferRequest(message, options.requestLimits)
    } catch (reason) {
      const error = ServerError.from(reason)
      engine.refusals.count(error)
      this.refuse(readInferRequestId(message, options.requestLimits), error)
      this.#call.messageDone(message)
      return
    }
    const exchange = new StreamedExchange(this.#parts, this.#call, this.#caller, wire, this, message)
    exchange.begin(wire.modelName, wire.modelVersion)
  }

  /** The request is read, and its answers will come. */
  requestBegun(exchange: StreamedExchange, request: InferenceRequest): void {
    if (exchange.hasTurn) this.#turns.push(exchange)
    this.#underWay.add(exchange)
    if (this.#isFilling) request.setPaused(true)
    this.#regulate()
  }

  readingChanged(isReading: boolean): void {
    this.#arriving += isReading ? 1 : -1
    this.#regulate()
    this.#endIfDone()
  }

  refuse(id: string, error: ServerError): void {
    const context = { modelName: '', modelVersion: '', id }
    const turn: Turn = { message: writeStreamError(error.message, context, null), release: null, isDone: false }
    this.#turns.push(turn)
    this.turnDone(turn)
  }

  /** Sends this answer, if no earlier answer is outstanding, and then the answers that waited for it. */
  turnDone(turn: Turn): void {
    turn.isDone = true
    this.#turnBytes += turn.message?.byteLength ?? 0
    let sent = 0
    while (sent < this.#turns.length) {
      const next = this.#turns[sent] as Turn
      if (!next.isDone) break
      sent++
      if (next.message === null) continue
      this.#turnBytes -= next.message.byteLength
      this.send(next.message, next.release)
    }
    if (sent === this.#turns.length) this.#turns.length = 0
    else if (sent > 0) this.#turns = this.#turns.slice(sent)
  }

  send(message: MessageParts, release: (() => void) | null): void {
    this.#call.send(message, release)
    if (this.#call.backlogBytes > this.#parts.options.maxBacklogBytes / 4) this.#regulate()
  }

  /** Ends the stream after an error, when the client asked for that. True: the stream has ended. */
  endsWith(error: ServerError): boolean {
    if (!this.#endsOnError) return false
    this.#call.finish(GrpcStatus.of(error))
    this.#abandon()
    return true
  }

  requestDone(exchange: StreamedExchange, request: InferenceRequest, version: string, code: StatusCode): void {
    this.#underWay.delete(exchange)
    this.#call.inferenceEnded?.(request, version, code)
    this.#regulate()
    this.#endIfDone()
  }

  /**
   * Holds the client's requests back while the client does not read answers, and ends a client that has stopped reading.
   * HOT: several times per message, nearly always with nothing to do.
   */
  #regulate(): void {
    const { backlogBytes } = this.#call
    const { maxBacklogBytes, maxMessageBytes } = this.#parts.options
    const isFull = backlogBytes > maxBacklogBytes
    // Models that can wait are paused early; a backlog that still grows comes from a model that cannot wait.
    const isFilling = backlogBytes > maxBacklogBytes / 4
    if (isFilling !== this.#isFilling) {
      this.#isFilling = isFilling
      for (const exchange of this.#underWay.members()) exchange.setPaused(isFilling)
    }
    const isHeldBack =
      isFull || this.#turnBytes > maxBacklogBytes || this.#arriving > 0 || this.#underWay.size >= mostUnderWay
    if (isHeldBack !== this.#isHeldBack) {
      this.#isHeldBack = isHeldBack
      this.#call.setPaused(isHeldBack)
    }
    if (!isFull) {
      this.#fullSinceNs = 0
      return
    }
    const nowNs = this.#parts.clock.nowNs()
    if (this.#fullSinceNs === 0) this.#fullSinceNs = nowNs
    const sinceNs = Math.max(this.#fullSinceNs, this.#call.lastProgressNs)
    if (nowNs - sinceNs < stalledNs && backlogBytes <= maxMessageBytes) return
    this.#call.giveUp()
    this.#abandon()
  }

  #endIfDone(): void {
    const isDone = this.#underWay.size === 0 && this.#turns.length === 0 && this.#arriving === 0
    if (!this.#hasHalfClosed || !isDone) return
    this.#tellLoad()
    this.#call.finish(this.#endStatus)
  }

  /** Once, at the end of the stream. */
  #tellLoad(): void {
    const { load = null } = this.#parts
    if (load === null) return
    const format = load.isTold ? 'bin' : metadataValue(this.#call.metadata, loadFormatHeader)
    const header = format === null ? null : load.header(format, this.#caller)
    if (header !== null) this.#call.trailWith(header)
  }

  #abandon(): void {
    for (const turn of this.#turns) turn.release?.()
    this.#turns = []
    for (const exchange of this.#underWay.members()) exchange.cancel()
  }
}

/** One request of a stream, from its message to its last answer. It is also its Turn: one object less per message. */
class StreamedExchange extends GrpcExchange implements Turn, Placed {
  message: MessageParts | null = null
  release: (() => void) | null = null
  isDone = false
  /** The index among the requests of the stream that are under way. */
  place = -1
  readonly #stream: InferStream
  /** The code of the last error among its answers. */
  #code: StatusCode = statusCodes.OK

  constructor(
    parts: GrpcExchangeParts,
    call: PortCall,
    caller: Caller,
    wire: WireInferRequest,
    stream: InferStream,
    received: Buffer,
  ) {
    super(parts, call, caller, wire, received)
    this.#stream = stream
  }

  protected override get isMessageOfStream(): boolean {
    return true
  }

  /** Whether the one answer has a place in the order of answers. */
  get hasTurn(): boolean {
    return this.answersOnce
  }

  protected override check({ signature }: ModelVersion): void {
    this.answersOnce = !signature.isDecoupled
  }

  /** The access log has a line for each request of a stream, which is written when the request ends. */
  protected override replaced(): void {}

  protected override started(request: InferenceRequest): void {
    this.#stream.requestBegun(this, request)
  }

  protected override readingChanged(isReading: boolean): void {
    this.#stream.readingChanged(isReading)
  }

  /** When a model that should answer once answers several times, the first answer is used. */
  protected override errorOf(final: InferenceResponse, first: InferenceResponse | null): ServerError | null {
    return final.error ?? first?.error ?? null
  }

  protected override write(response: InferenceResponse, isFinal: boolean): void {
    if (response.isFlagOnly) {
      this.#give(this.wantsEmptyFinal ? writeEmptyFinal(this.#askedFor) : null, null)
      return
    }
    const { clock } = this.parts
    this.tellMarks()
    const trace = this.request?.trace ?? null
    const message = writeStreamResponse(response, this.answerContext, isFinal)
    trace?.stamp('GRPC_SEND_START', clock.nowNs())
    if (message.hasViews) this.#give(message, () => response.release())
    else {
      response.release()
      this.#give(message, null)
    }
    trace?.stamp('GRPC_SEND_END', clock.nowNs())
  }

  protected override fail(error: ServerError, isFinal: boolean): void {
    this.#code = GrpcStatus.of(error).code
    const { isUnscheduled } = this
    if (!isUnscheduled && this.#stream.endsWith(error)) return
    this.#give(writeStreamError(error.message, this.#askedFor, isUnscheduled ? null : isFinal), null)
  }

  protected override caughtUp(): void {
    this.setPaused(this.#stream.isFilling)
  }

  protected override overrun(): void {
    this.call.giveUp()
  }

  protected override refused(error: ServerError): void {
    this.#stream.refuse(this.id, error)
    this.call.messageDone(this.received)
  }

  protected override ended(): void {
    this.call.messageDone(this.received)
    if (this.request !== null) this.#stream.requestDone(this, this.request, this.version.version, this.#code)
  }

  #give(message: MessageParts | null, release: (() => void) | null): void {
    if (this.hasTurn) {
      this.message = message
      this.release = release
      this.#stream.turnDone(this)
    } else if (message !== null) this.#stream.send(message, release)
  }

  /** An answer that comes from no model carries the version that the client asked for. */
  get #askedFor(): { modelName: string; modelVersion: string; id: string } {
    return { modelName: this.modelName, modelVersion: this.askedVersion, id: this.id }
  }
}
