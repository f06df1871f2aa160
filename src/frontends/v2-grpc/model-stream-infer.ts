// ModelStreamInfer: any number of requests to any models on one call. Models that answer once are answered in the order
// of their requests; decoupled ones as their answers come. An error is an answer like another and ends nothing.

import { PlacedSet, type Placed } from '../../base/placed-set.ts'
import { ServerError } from '../../base/server-error.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { hasLargeContents, type DecodedContents } from '../../protocol/grpc/infer-request-fields.ts'
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
import { metadataValue, type GrpcCall } from '../../transport/grpc/grpc-transport.ts'
import {
  prepareInference,
  readLargeContents,
  type InferenceContext,
  type PreparedInference,
} from './inference-preparation.ts'

/** Requests of one stream under way at a time; the client is held back at more. */
const mostUnderWay = 256
/** A client that takes nothing for so long while its backlog is full has stopped reading. */
const stalledNs = 1e9

/** One request of the stream whose answer has its place in the order. */
interface Turn {
  message: MessageParts | null
  release: (() => void) | null
  isDone: boolean
}

export class InferStream {
  readonly #context: InferenceContext
  readonly #call: GrpcCall
  readonly #endsOnError: boolean
  readonly #underWay = new PlacedSet<StreamedInference>()
  #turns: Turn[] = []
  #hasHalfClosed = false
  #endStatus: GrpcStatus = statusOk
  #fullSinceNs = 0
  #isFilling = false
  #isHeldBack = false
  /** Requests that are still being read. Those behind them wait, so that none overtakes another of its sequence. */
  #arriving = 0

  constructor(context: InferenceContext, call: GrpcCall) {
    this.#context = context
    this.#call = call
    this.#endsOnError = metadataValue(call.metadata, 'triton_grpc_error') === 'true'
    call.onMessage = (message) => this.#onMessage(message)
    call.onHalfClose = () => {
      this.#hasHalfClosed = true
      this.#endIfDone()
    }
    call.onCancel = () => this.#abandon()
    call.onDrain = () => this.#regulate()
  }

  /** No further requests; the stream ends with `status` after the answers under way. */
  drain(status: GrpcStatus): void {
    this.#endStatus = this.#hasHalfClosed ? statusOk : status
    this.#hasHalfClosed = true
    this.#endIfDone()
  }

  #onMessage(message: Buffer): void {
    const { engine, options } = this.#context
    let wire: WireInferRequest
    try {
      wire = readInferRequest(message, options.requestLimits)
    } catch (reason) {
      this.#refuse(readInferRequestId(message, options.requestLimits), reason)
      return
    }
    try {
      const version = engine.findVersion(wire.modelName, wire.modelVersion)
      if (hasLargeContents(wire)) this.#readLarge(wire, version)
      else this.#submit(wire, version, null)
    } catch (reason) {
      this.#refuse(wire.id, reason)
    }
  }

  #readLarge(wire: WireInferRequest, version: ModelVersion): void {
    const isWanted = (): boolean => !this.#call.isEnded
    readLargeContents(this.#context, wire, version.name, isWanted, (decoded) => {
      try {
        this.#submit(wire, version, decoded)
      } catch (reason) {
        this.#refuse(wire.id, reason)
      }
      this.#arrived()
      this.#endIfDone()
    })
    this.#arriving++
    this.#regulate()
  }

  #submit(wire: WireInferRequest, version: ModelVersion, decoded: DecodedContents | null): void {
    const answers = new StreamedInference(this, this.#context, !version.signature.isDecoupled)
    const prepared = prepareInference(this.#context, wire, version, this.#call.metadata, answers.onResponse, decoded)
    if (answers.hasTurn) this.#turns.push(answers)
    this.#underWay.add(answers)
    if (this.#isFilling) prepared.inference.setPaused(true)
    if (prepared.regions === null) answers.begin(prepared, decoded !== null, null)
    else {
      this.#arriving++
      answers.begin(prepared, decoded !== null, this.#arrived)
    }
    this.#regulate()
  }

  readonly #arrived = (): void => {
    this.#arriving--
    this.#regulate()
  }

  #refuse(id: string, reason: unknown): void {
    const context = { modelName: '', modelVersion: '', id }
    const error = ServerError.from(reason)
    this.#context.engine.refusals.count(error)
    const turn: Turn = { message: writeStreamError(error.message, context, null), release: null, isDone: false }
    this.#turns.push(turn)
    this.turnDone(turn)
  }

  /** Sends what is due: this answer if none before it is outstanding, and those that waited for it. */
  turnDone(turn: Turn): void {
    turn.isDone = true
    let sent = 0
    while (sent < this.#turns.length) {
      const next = this.#turns[sent] as Turn
      if (!next.isDone) break
      sent++
      if (next.message !== null) this.send(next.message, next.release)
    }
    if (sent === this.#turns.length) this.#turns.length = 0
    else if (sent > 0) this.#turns = this.#turns.slice(sent)
  }

  send(message: MessageParts, release: (() => void) | null): void {
    this.#call.send(message, release)
    if (this.#call.backlogBytes > this.#context.options.maxBacklogBytes / 4) this.#regulate()
  }

  /** Ends the stream for an error, where its client asked for that. True when it did. */
  endsWith(error: ServerError): boolean {
    if (!this.#endsOnError) return false
    this.#call.finish(GrpcStatus.of(error))
    this.#abandon()
    return true
  }

  requestDone(answers: StreamedInference, { inference, version }: PreparedInference, code: StatusCode): void {
    this.#underWay.delete(answers)
    this.#call.inferenceEnded?.(inference, version.version, code)
    this.#regulate()
    this.#endIfDone()
  }

  /**
   * Holds the client's requests back while it does not take its answers, and lets go of one that has stopped reading.
   * HOT: several times per message, nearly always with nothing to do.
   */
  #regulate(): void {
    const { backlogBytes } = this.#call
    const { maxBacklogBytes, maxMessageBytes } = this.#context.options
    const isFull = backlogBytes > maxBacklogBytes
    // Models that can wait do so long before; a backlog that grows all the same is of one that cannot.
    const isFilling = backlogBytes > maxBacklogBytes / 4
    if (isFilling !== this.#isFilling) {
      this.#isFilling = isFilling
      for (const { inference } of this.#underWay.members()) inference?.setPaused(isFilling)
    }
    const isHeldBack = isFull || this.#arriving > 0 || this.#underWay.size >= mostUnderWay
    if (isHeldBack !== this.#isHeldBack) {
      this.#isHeldBack = isHeldBack
      this.#call.setPaused(isHeldBack)
    }
    if (!isFull) {
      this.#fullSinceNs = 0
      return
    }
    const nowNs = this.#context.clock.nowNs()
    if (this.#fullSinceNs === 0) this.#fullSinceNs = nowNs
    const sinceNs = Math.max(this.#fullSinceNs, this.#call.lastProgressNs)
    if (nowNs - sinceNs < stalledNs && backlogBytes <= maxMessageBytes) return
    this.#call.giveUp()
    this.#abandon()
  }

  #endIfDone(): void {
    const isDone = this.#underWay.size === 0 && this.#turns.length === 0 && this.#arriving === 0
    if (this.#hasHalfClosed && isDone) this.#call.finish(this.#endStatus)
  }

  #abandon(): void {
    for (const turn of this.#turns) turn.release?.()
    this.#turns = []
    for (const { inference } of this.#underWay.members()) inference?.cancel()
  }
}

/** One request of a stream between its message and its last answer. It is its own turn: one object less per message. */
class StreamedInference implements Turn, Placed {
  /** Whether its one answer has its place in the order. */
  readonly hasTurn: boolean
  message: MessageParts | null = null
  release: (() => void) | null = null
  isDone = false
  /** Among those of its stream that are under way. */
  place = -1
  readonly #stream: InferStream
  readonly #context: InferenceContext
  #prepared: PreparedInference | null = null
  /** Of a model that answers once: kept until it says that this was all. */
  #held: InferenceResponse | null = null
  /** Writes into shared memory that are under way; the request is done after them. */
  #writes = 0
  #hasEnded = false
  /** Of the last error among its answers. */
  #code: StatusCode = statusCodes.OK

  constructor(stream: InferStream, context: InferenceContext, hasTurn: boolean) {
    this.#stream = stream
    this.#context = context
    this.hasTurn = hasTurn
  }

  /** Null before it has begun. */
  get inference(): InferenceRequest | null {
    return this.#prepared?.inference ?? null
  }

  begin(prepared: PreparedInference, isExpected: boolean, handedOver: (() => void) | null): void {
    this.#prepared = prepared
    prepared.submit(this.#context, isExpected, handedOver)
  }

  /** The Engine's sink. */
  readonly onResponse = (response: InferenceResponse): void => {
    const prepared = this.#prepared as PreparedInference
    if (response.error !== null) this.#code = GrpcStatus.of(response.error).code
    if (!this.hasTurn) this.#answer(prepared, response, response.isFinal)
    else {
      if (!response.isFlagOnly) {
        if (this.#held === null) this.#held = response
        else response.release()
      }
      if (response.isFinal) this.#answer(prepared, response.error === null ? (this.#held ?? response) : response, true)
    }
    if (!response.isFinal) return
    this.#hasEnded = true
    this.#endIfDone(prepared)
  }

  #answer(prepared: PreparedInference, response: InferenceResponse, isFinal: boolean): void {
    if (response.isFlagOnly) {
      if (prepared.wantsEmptyFinal) this.#give(writeEmptyFinal(askedFor(prepared)), null)
      else this.#give(null, null)
      return
    }
    if (response.error !== null) {
      this.#giveError(prepared, response.error, isFinal)
      return
    }
    if (prepared.regions === null) {
      this.#giveOutputs(prepared, response, isFinal)
      return
    }
    this.#writes++
    // The outputs may take their time to be written, and the end of the trace waits for that.
    prepared.inference.trace?.retain()
    prepared.placeOutputs(response, (problem) => {
      this.#writes--
      if (problem === null) this.#giveOutputs(prepared, response, isFinal)
      else {
        response.release()
        this.#giveError(prepared, problem, isFinal)
      }
      prepared.inference.trace?.release()
      if (this.#hasEnded) this.#endIfDone(prepared)
    })
  }

  #giveOutputs(prepared: PreparedInference, response: InferenceResponse, isFinal: boolean): void {
    let message: MessageParts
    try {
      message = writeStreamResponse(response, prepared.answerContext, isFinal)
    } catch (reason) {
      response.release()
      this.#giveError(prepared, ServerError.from(reason), isFinal)
      return
    }
    const { trace } = prepared.inference
    trace?.stamp('GRPC_SEND_START', this.#context.clock.nowNs())
    if (message.hasViews) this.#give(message, () => response.release())
    else {
      response.release()
      this.#give(message, null)
    }
    trace?.stamp('GRPC_SEND_END', this.#context.clock.nowNs())
  }

  #giveError(prepared: PreparedInference, error: ServerError, isFinal: boolean): void {
    const { isUnscheduled } = prepared
    if (!isUnscheduled && this.#stream.endsWith(error)) return
    this.#give(writeStreamError(error.message, askedFor(prepared), isUnscheduled ? null : isFinal), null)
  }

  #give(message: MessageParts | null, release: (() => void) | null): void {
    if (this.hasTurn) {
      this.message = message
      this.release = release
      this.#stream.turnDone(this)
    } else if (message !== null) this.#stream.send(message, release)
  }

  #endIfDone(prepared: PreparedInference): void {
    if (this.#writes > 0) return
    prepared.regions?.release()
    this.#stream.requestDone(this, prepared, this.#code)
  }
}

/** In answers that come from no model the version is the one that was asked for. */
const askedFor = (prepared: PreparedInference): { modelName: string; modelVersion: string; id: string } => ({
  modelName: prepared.inference.modelName,
  modelVersion: prepared.inference.modelVersion,
  id: prepared.inference.id,
})
