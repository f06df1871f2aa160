// TorchServe's gRPC services: org.pytorch.serve.grpc.inference and org.pytorch.serve.grpc.management.

import { randomUUID } from 'node:crypto'
import type { Caller } from '../../access/caller.ts'
import { requireRight } from '../../access/require-right.ts'
import { ServerError } from '../../base/server-error.ts'
import { sendPiece } from '../../exchange/send-piece.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { RequestHead } from '../../model/request-origin.ts'
import { CallExchange } from '../../ports/grpc/call-exchange.ts'
import { grpcChangeOrigin } from '../../ports/grpc/grpc-change-origin.ts'
import {
  streamMethod,
  takeOne,
  unaryMethod,
  type GrpcFrontEnd,
  type GrpcMethod,
  type UnaryMethod,
} from '../../ports/grpc/grpc-method.ts'
import type { PortCall } from '../../ports/grpc/port-call.ts'
import type { MessageValue } from '../../protocol/grpc/message-codec.ts'
import { torchCodec } from '../../protocol/torchserve/torch-messages.ts'
import { fieldTensors, torchAnswer } from '../../protocol/torchserve/torch-request.ts'
import { GrpcStatus, statusCodes, statusOk, type StatusCode } from '../../transport/grpc/grpc-status.ts'
import type { PredictionParts } from './prediction-endpoint.ts'
import { badRequest, ModelApiIsOff, prettyJson, TorchserveError, torchserveError } from './torchserve-answers.ts'
import { managementOperations, type Fields, type ManagementOptions } from './torchserve-management.ts'
import type { TorchserveModels } from './torchserve-models.ts'

type GrpcParts = PredictionParts & { readonly models: TorchserveModels }

/** TorchServe's table; what is not in it is FAILED_PRECONDITION or INTERNAL. */
const codes: Readonly<Record<number, StatusCode>> = {
  400: statusCodes.INVALID_ARGUMENT,
  401: statusCodes.UNAUTHENTICATED,
  403: statusCodes.PERMISSION_DENIED,
  404: statusCodes.NOT_FOUND,
  409: statusCodes.ABORTED,
  413: statusCodes.RESOURCE_EXHAUSTED,
  416: statusCodes.OUT_OF_RANGE,
  429: statusCodes.RESOURCE_EXHAUSTED,
  499: statusCodes.CANCELLED,
  501: statusCodes.UNIMPLEMENTED,
  503: statusCodes.UNAVAILABLE,
  504: statusCodes.DEADLINE_EXCEEDED,
}

/** The class of Java stands on the second line of a description. */
function statusOf(reason: unknown): GrpcStatus {
  const { status, type, message } = torchserveError(reason)
  if (reason instanceof ModelApiIsOff) return new GrpcStatus(statusCodes.PERMISSION_DENIED, reason.toldByGrpc)
  const code = codes[status] ?? (status < 500 ? statusCodes.FAILED_PRECONDITION : statusCodes.INTERNAL)
  const where = /^(Model(Version)?NotFound|InvalidModel)/.test(type) ? 'archive.model' : 'http'
  return new GrpcStatus(code, `${message}\norg.pytorch.serve.${where}.${type}`)
}

/** What TorchServe says before the model is asked: one code, and short names of two classes. */
function refusalOf(reason: TorchserveError): GrpcStatus {
  const { message } = statusOf(reason)
  const short = { 400: 'BadRequest', 503: 'InternalServer' }[reason.status]
  return new GrpcStatus(
    statusCodes.INTERNAL,
    short === undefined ? message : message.replace(/\n.*$/, `\n${short}Exception.()`),
  )
}

const codec = { ...torchCodec, statusOf }

export function torchserveInferenceGrpc(parts: GrpcParts): GrpcFrontEnd {
  const { log, engine } = parts
  const service = '/org.pytorch.serve.grpc.inference.InferenceAPIsService'
  const ping: UnaryMethod = () => ({ health: prettyJson({ status: engine.isReady ? 'Healthy' : 'Unhealthy' }) })
  const types = ['Empty', 'TorchServeHealthResponse'] as const
  const predict = (rpc: string, takesPieces: boolean): GrpcMethod => ({
    path: `${service}/${rpc}`,
    api: 'inference',
    begin: (call, caller) => {
      call.allowLargeMessages()
      takeOne(call, log, (message) => new GrpcPrediction(parts, call, caller, message, takesPieces).start())
    },
  })
  const streams = streamMethod(
    `${service}/StreamPredictions2`,
    (call, caller) => new PredictionStream(parts, call, caller),
  )
  return {
    methods: [
      unaryMethod(parts, `${service}/Ping`, 'health', types, ping, false, codec),
      predict('Predictions', false),
      predict('StreamPredictions', true),
      streams.method,
    ],
    drain: streams.drain,
  }
}

/** A call that is one prediction. */
class GrpcPrediction extends CallExchange {
  readonly #parts: GrpcParts
  /** The answer may come in pieces, as the handler makes them. */
  readonly #takesPieces: boolean
  readonly #id = randomUUID()
  /** PredictionsRequest; empty until it is decoded. */
  protected asked: MessageValue = {}
  isBehind = false

  constructor(parts: GrpcParts, call: PortCall, caller: Caller, message: Buffer, takesPieces: boolean) {
    super(parts, call, caller, message)
    this.#parts = parts
    this.#takesPieces = takesPieces
    call.onCancel = () => this.cancel()
  }

  start(): void {
    const { engine, models } = this.#parts
    try {
      this.asked = torchCodec.decode('PredictionsRequest', this.received)
      const name = this.asked['modelName'] as string
      if (name === '') throw badRequest('Parameter model_name is required.')
      // Who may not use a model is not told whether it is there.
      requireRight(this.caller, 'inference', name)
      this.begin(name, models.resolve(name, this.asked['modelVersion'] as string))
    } catch (reason) {
      if (!(reason instanceof ServerError)) throw reason
      if (!(reason instanceof TorchserveError)) engine.refusals.count(reason)
      this.tell(reason)
    }
  }

  override head(): RequestHead {
    return { id: this.#id, parameters: new Map(), correlationId: 0n, isSequenceStart: false }
  }

  protected override read({ signature, config, name }: ModelVersion): void {
    if (config.backend !== 'torchserve') {
      const text = `model '${name}' is no archive of TorchServe: call it by HTTP, /predictions/${name}, or by v2`
      throw ServerError.withoutStack('UNSUPPORTED', text)
    }
    if (signature.isDecoupled && !this.#takesPieces) {
      throw ServerError.withoutStack('INVALID_ARG', `model '${name}' answers in pieces: call StreamPredictions`)
    }
    this.answersOnce = !signature.isDecoupled
    this.reserve(this.received.length)
    const given = this.asked['input'] as ReadonlyMap<string, Buffer>
    const fields = [...given].map(([field, value]) => ({ name: field, contentType: '', value }))
    const sequenceId = this.asked['sequenceId'] as string
    const headers = JSON.stringify(sequenceId === '' ? {} : { ts_request_sequence_id: sequenceId })
    const steps = fieldTensors(fields, { id: this.#id, headers }, config.maxBatchSize > 0)
    this.readSteps(steps, (inputs) => this.submit({ id: this.#id, inputs }))
  }

  protected override fail(error: ServerError): void {
    this.#parts.counts.answered(torchserveError(error).status)
    this.tellMarks()
    this.tellLoad()
    this.tell(error)
  }

  protected override write(response: InferenceResponse, isFinal: boolean): void {
    this.tellMarks()
    if (isFinal || this.answersOnce) this.tellLoad()
    if (!response.isFlagOnly) {
      const { head, body } = torchAnswer(response)
      this.#parts.counts.answered(head.status)
      sendPiece(this, this.call, this.call.backlogBytes, () => {
        this.send({ prediction: body })
        return this.answersOnce || this.call.backlogBytes === 0
      })
    }
    response.release()
    if (isFinal || this.answersOnce) this.end()
  }

  giveUp(): void {
    this.cancel()
    this.call.giveUp()
  }

  /** One answer, or one piece of it. */
  protected send(answer: MessageValue): void {
    const bytes = torchCodec.encode('PredictionResponse', answer)
    this.call.send({ parts: [bytes], byteLength: bytes.length }, null)
  }

  protected end(): void {
    this.call.finish(statusOk)
  }

  protected tell(error: unknown): void {
    this.call.finish(error instanceof TorchserveError ? refusalOf(error) : statusOf(error))
  }
}

/**
 * StreamPredictions2: any number of predictions on one call, one after the other, so that those of a sequence keep their order. The
 * next message waits in the client until the one before it is answered. An error is an answer and does not end the stream.
 */
class PredictionStream {
  readonly #call: PortCall
  /** That is being answered. */
  #message: Buffer | null = null
  #endStatus: GrpcStatus | null = null

  constructor(parts: GrpcParts, call: PortCall, caller: Caller) {
    this.#call = call
    let known = caller
    call.onRenewed = (renewed) => (known = renewed)
    call.onMessage = (message) => {
      this.#message = message
      call.setPaused(true)
      new StreamedPrediction(parts, call, known, message, this).start()
    }
    call.onHalfClose = () => this.drain(statusOk)
  }

  /** No further messages; the stream ends after the one under way. */
  drain(status: GrpcStatus): void {
    this.#endStatus ??= status
    if (this.#message === null) this.#call.finish(this.#endStatus)
  }

  /** False: it has failed, and what its model goes on to say comes too late. */
  isAnswering(message: Buffer): boolean {
    return message === this.#message
  }

  answered(message: Buffer): void {
    if (!this.isAnswering(message)) return
    this.#message = null
    this.#call.messageDone(message)
    if (this.#endStatus !== null) this.#call.finish(this.#endStatus)
    else this.#call.setPaused(false)
  }
}

class StreamedPrediction extends GrpcPrediction {
  readonly #stream: PredictionStream

  constructor(parts: GrpcParts, call: PortCall, caller: Caller, message: Buffer, stream: PredictionStream) {
    super(parts, call, caller, message, true)
    this.#stream = stream
  }

  protected override send(answer: MessageValue): void {
    if (this.#stream.isAnswering(this.received)) super.send({ ...answer, sequenceId: this.asked['sequenceId'] })
  }

  protected override tell(error: unknown): void {
    const { code, message } = statusOf(error)
    this.send({ status: { code, message } })
    this.end()
  }

  protected override end(): void {
    this.#stream.answered(this.received)
  }
}

export function torchserveManagementGrpc(parts: GrpcParts, management: ManagementOptions): GrpcFrontEnd {
  const service = '/org.pytorch.serve.grpc.management.ManagementAPIsService'
  const operations = Object.entries(managementOperations(parts.models, management))
  const methods = operations.map(([rpc, operation]) => {
    const types = [`${rpc}Request`, 'ManagementResponse'] as const
    const act: UnaryMethod = async (request, call, caller) => {
      const [name, version] = [request['modelName'] as string, request['modelVersion'] as string]
      const origin = grpcChangeOrigin(call, caller)
      const told = await operation({ name, version, fields: fieldsOf(request), headers: [], caller, origin })
      return { msg: 'json' in told ? prettyJson(told.json) : told.text }
    }
    return unaryMethod(parts, `${service}/${rpc}`, 'model-repository', types, act, false, codec)
  })
  return { methods }
}

/** A number that is 0 or less was not given; `synchronous` is false where it is not given. */
function fieldsOf(request: MessageValue): Fields {
  return (name) => {
    const value = request[name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())]
    if (typeof value === 'number') return value > 0 ? String(value) : ''
    return value === null || value === undefined ? '' : String(value as string | boolean)
  }
}
