// ModelStreamInfer: any number of requests to any models on one call. Models that answer once are answered in the order
// of their requests; decoupled ones as their answers come. An error is an answer like another and ends nothing.

import { ServerError } from '../../base/server-error.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
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
import { GrpcStatus, statusOk } from './grpc-status.ts'
import { metadataValue, type GrpcCall } from './grpc-transport.ts'
import { prepareInference, type InferenceContext, type PreparedInference } from './inference-preparation.ts'

/** Requests of one stream under way at a time; the client is held back at more. */
const mostUnderWay = 256
/** A client that takes nothing for so long while its backlog is full has stopped reading. */
const stalledNs = 1e9

/** One request of the stream whose answer has its place in the order. */
type Turn = { message: MessageParts | null; release: (() => void) | null; isDone: boolean }

export class InferStream {
  readonly #context: InferenceContext
  readonly #call: GrpcCall
  readonly #endsOnError: boolean
  readonly #underWay = new Set<InferenceRequest>()
  #turns: Turn[] = []
  #hasHalfClosed = false
  #endStatus: GrpcStatus = statusOk
  #fullSinceNs = 0
  #isFilling = false

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
    const answers = new StreamedInference(this, this.#context)
    let prepared: PreparedInference
    try {
      const version = engine.findVersion(wire.modelName, wire.modelVersion)
      prepared = prepareInference(this.#context, wire, version, this.#call.metadata, answers.onResponse)
    } catch (reason) {
      this.#refuse(wire.id, reason)
      return
    }
    const turn = prepared.version.signature.isDecoupled ? null : this.#takeTurn()
    this.#underWay.add(prepared.inference)
    if (this.#isFilling) prepared.inference.setPaused(true)
    answers.begin(prepared, turn)
    this.#regulate()
  }

  #refuse(id: string, reason: unknown): void {
    const context = { modelName: '', modelVersion: '', id }
    const turn = this.#takeTurn()
    turn.message = writeStreamError(ServerError.from(reason).message, context, null)
    this.turnDone(turn)
  }

  #takeTurn(): Turn {
    const turn: Turn = { message: null, release: null, isDone: false }
    this.#turns.push(turn)
    return turn
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
    if (sent > 0) this.#turns = this.#turns.slice(sent)
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

  requestDone(inference: InferenceRequest): void {
    this.#underWay.delete(inference)
    this.#regulate()
    this.#endIfDone()
  }

  /** Holds the client's requests back while it does not take its answers, and lets go of one that has stopped reading. */
  #regulate(): void {
    const { backlogBytes } = this.#call
    const { maxBacklogBytes, maxMessageBytes } = this.#context.options
    const isFull = backlogBytes > maxBacklogBytes
    // Models that can wait do so long before; a backlog that grows all the same is of one that cannot.
    const isFilling = backlogBytes > maxBacklogBytes / 4
    if (isFilling !== this.#isFilling) {
      this.#isFilling = isFilling
      for (const inference of this.#underWay) inference.setPaused(isFilling)
    }
    this.#call.setPaused(isFull || this.#underWay.size >= mostUnderWay)
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
    if (this.#hasHalfClosed && this.#underWay.size === 0 && this.#turns.length === 0) this.#call.finish(this.#endStatus)
  }

  #abandon(): void {
    for (const turn of this.#turns) turn.release?.()
    this.#turns = []
    for (const inference of this.#underWay) inference.cancel()
  }
}

/** One request of a stream between its message and its last answer. */
class StreamedInference {
  readonly #stream: InferStream
  readonly #context: InferenceContext
  #prepared: PreparedInference | null = null
  #turn: Turn | null = null
  /** Of a model that answers once: kept until it says that this was all. */
  #held: InferenceResponse | null = null
  /** Writes into shared memory that are under way; the request is done after them. */
  #writes = 0
  #hasEnded = false

  constructor(stream: InferStream, context: InferenceContext) {
    this.#stream = stream
    this.#context = context
  }

  begin(prepared: PreparedInference, turn: Turn | null): void {
    this.#prepared = prepared
    this.#turn = turn
    prepared.submit(this.#context)
  }

  /** The Engine's sink. */
  readonly onResponse = (response: InferenceResponse): void => {
    const prepared = this.#prepared as PreparedInference
    if (this.#turn === null) this.#answer(prepared, response, response.isFinal)
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
    this.#writes++
    prepared.placeOutputs(response, (problem) => {
      this.#writes--
      if (problem === null) this.#giveOutputs(prepared, response, isFinal)
      else {
        response.release()
        this.#giveError(prepared, problem, isFinal)
      }
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
    if (message.hasViews) this.#give(message, () => response.release())
    else {
      response.release()
      this.#give(message, null)
    }
  }

  #giveError(prepared: PreparedInference, error: ServerError, isFinal: boolean): void {
    const { isUnscheduled } = prepared
    if (!isUnscheduled && this.#stream.endsWith(error)) return
    this.#give(writeStreamError(error.message, askedFor(prepared), isUnscheduled ? null : isFinal), null)
  }

  #give(message: MessageParts | null, release: (() => void) | null): void {
    const turn = this.#turn
    if (turn !== null) {
      turn.message = message
      turn.release = release
      this.#stream.turnDone(turn)
    } else if (message !== null) this.#stream.send(message, release)
  }

  #endIfDone(prepared: PreparedInference): void {
    if (this.#writes > 0) return
    prepared.regions?.release()
    this.#stream.requestDone(prepared.inference)
  }
}

/** In answers that come from no model the version is the one that was asked for. */
const askedFor = (prepared: PreparedInference): { modelName: string; modelVersion: string; id: string } => ({
  modelName: prepared.inference.modelName,
  modelVersion: prepared.inference.modelVersion,
  id: prepared.inference.id,
})
