// TorchServe's gRPC services: org.pytorch.serve.grpc.inference and org.pytorch.serve.grpc.management.

import { randomUUID } from 'node:crypto'
import type { Caller } from '../../access/caller.ts'
import { requireRight } from '../../access/require-right.ts'
import { ServerError } from '../../base/server-error.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { RequestHead } from '../../model/request-origin.ts'
import { CallExchange } from '../../ports/grpc/call-exchange.ts'
import { grpcChangeOrigin } from '../../ports/grpc/grpc-change-origin.ts'
import {
  takeOne,
  unaryMethod,
  type GrpcFrontEnd,
  type GrpcMethod,
  type UnaryMethod,
} from '../../ports/grpc/grpc-method.ts'
import type { PortCall } from '../../ports/grpc/port-call.ts'
import type { MessageValue } from '../../protocol/grpc/message-codec.ts'
import { decodeTorch, encodeTorch } from '../../protocol/torchserve/torch-messages.ts'
import { fieldTensors, torchAnswer } from '../../protocol/torchserve/torch-request.ts'
import { GrpcStatus, statusCodes, statusOk, type StatusCode } from '../../transport/grpc/grpc-status.ts'
import type { PredictionParts } from './prediction-endpoint.ts'
import { badRequest, prettyJson, TorchserveError, torchserveError } from './torchserve-answers.ts'
import { managementOperations, type Fields, type TorchserveSettings } from './torchserve-management.ts'
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
  const code = codes[status] ?? (status < 500 ? statusCodes.FAILED_PRECONDITION : statusCodes.INTERNAL)
  const where = /^Model(Version)?NotFound/.test(type) ? 'archive.model' : 'http'
  return new GrpcStatus(code, `${message}\norg.pytorch.serve.${where}.${type}`)
}

const codec = { decode: decodeTorch, encode: encodeTorch, statusOf }

function unary(
  { log, clock, engine }: GrpcParts,
  path: string,
  api: GrpcMethod['api'],
  types: readonly [string, string],
  act: UnaryMethod,
): GrpcMethod {
  return unaryMethod({ log, clock, wording: engine.wording }, path, api, types, act, false, codec)
}

export function torchserveInferenceGrpc(parts: GrpcParts): GrpcFrontEnd {
  const service = '/org.pytorch.serve.grpc.inference.InferenceAPIsService'
  const predict = (rpc: string, takesPieces: boolean): GrpcMethod => ({
    path: `${service}/${rpc}`,
    api: 'inference',
    begin: (call, caller) => {
      call.allowLargeMessages()
      takeOne(call, parts.log, (message) => beginPrediction(parts, call, caller, message, takesPieces, sinkOf(call)))
    },
  })
  const streams = new Set<PredictionStream>()
  return {
    methods: [
      unary(parts, `${service}/Ping`, 'health', ['Empty', 'TorchServeHealthResponse'], () => ({
        health: prettyJson({ status: parts.engine.isReady ? 'Healthy' : 'Unhealthy' }),
      })),
      predict('Predictions', false),
      predict('StreamPredictions', true),
      {
        path: `${service}/StreamPredictions2`,
        api: 'inference',
        isStream: true,
        begin: (call, caller) => {
          const stream = new PredictionStream(parts, call, caller)
          streams.add(stream)
          call.onClosed = () => streams.delete(stream)
        },
      },
    ],
    drain: (status) => {
      for (const stream of streams) stream.drain(status)
    },
  }
}

function beginPrediction(
  parts: GrpcParts,
  call: PortCall,
  caller: Caller,
  message: Buffer,
  takesPieces: boolean,
  sink: PredictionSink,
): void {
  try {
    const request = decodeTorch('PredictionsRequest', message)
    sink.begin?.(request)
    const name = request['modelName'] as string
    if (name === '') throw badRequest('Parameter model_name is required.')
    // Who may not use a model is not told whether it is there.
    requireRight(caller, 'inference', name)
    const number = parts.models.resolve(name, request['modelVersion'] as string)
    new GrpcPrediction(parts, call, caller, { message, request, takesPieces, sink }).begin(name, number)
  } catch (reason) {
    if (!(reason instanceof TorchserveError || reason instanceof ServerError)) throw reason
    if (reason instanceof ServerError) parts.engine.refusals.count(reason)
    sink.fail(reason)
  }
}

function send(call: PortCall, answer: MessageValue): void {
  const bytes = encodeTorch('PredictionResponse', answer)
  call.send({ parts: [bytes], byteLength: bytes.length }, null)
}

/** The call is one prediction. */
const sinkOf = (call: PortCall): PredictionSink => ({
  piece: (prediction) => send(call, { prediction }),
  end: () => call.finish(statusOk),
  fail: (error) => {
    const status = statusOf(error)
    // TorchServe has one code for what is wrong before the model is asked.
    call.finish(error instanceof TorchserveError ? new GrpcStatus(statusCodes.INTERNAL, status.message) : status)
  },
})

/**
 * StreamPredictions2: any number of predictions on one call, one after the other, so that those of a sequence keep their order. The
 * next message waits in the client until the one before it is answered. An error is an answer and does not end the stream.
 */
class PredictionStream implements PredictionSink {
  readonly #call: PortCall
  #message: Buffer | null = null
  #sequenceId = ''
  #endStatus: GrpcStatus | null = null

  constructor(parts: GrpcParts, call: PortCall, caller: Caller) {
    this.#call = call
    call.allowLargeMessages()
    call.onMessage = (message) => {
      this.#message = message
      this.#sequenceId = ''
      call.setPaused(true)
      beginPrediction(parts, call, caller, message, true, this)
    }
    call.onHalfClose = () => this.drain(statusOk)
  }

  /** No further messages; the stream ends after the one under way. */
  drain(status: GrpcStatus): void {
    this.#endStatus ??= status
    if (this.#message === null) this.#call.finish(this.#endStatus)
  }

  begin(request: MessageValue): void {
    this.#sequenceId = request['sequenceId'] as string
  }
  piece(prediction: Buffer): void {
    send(this.#call, { prediction, sequenceId: this.#sequenceId })
  }
  fail(error: unknown): void {
    const { code, message } = statusOf(error)
    send(this.#call, { status: { code, message }, sequenceId: this.#sequenceId })
    this.end()
  }
  end(): void {
    const message = this.#message
    if (message === null) return
    this.#message = null
    this.#call.messageDone(message)
    if (this.#endStatus !== null) this.#call.finish(this.#endStatus)
    else this.#call.setPaused(false)
  }
}

export function torchserveManagementGrpc(parts: GrpcParts, settings: TorchserveSettings): GrpcFrontEnd {
  const service = '/org.pytorch.serve.grpc.management.ManagementAPIsService'
  const operations = Object.entries(managementOperations(parts.models, settings))
  const methods = operations.map(([rpc, operation]) => {
    const types = [`${rpc}Request`, 'ManagementResponse'] as const
    return unary(parts, `${service}/${rpc}`, 'model-repository', types, async (request, call, caller) => {
      const [name, version] = [request['modelName'] as string, request['modelVersion'] as string]
      const origin = grpcChangeOrigin(call, caller)
      const told = await operation({ name, version, fields: fieldsOf(request), caller, origin })
      return { msg: 'json' in told ? prettyJson(told.json) : told.text }
    })
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

/** Where the answers of a prediction go. */
interface PredictionSink {
  /** The message is read. */
  begin?(request: MessageValue): void
  /** One piece of the answer. */
  piece(body: Buffer): void
  /** The last piece is out. */
  end(): void
  fail(error: unknown): void
}

type Prediction = {
  readonly message: Buffer
  /** PredictionsRequest */
  readonly request: MessageValue
  /** The answer may come in pieces, as the handler makes them. */
  readonly takesPieces: boolean
  readonly sink: PredictionSink
}

/** When a client leaves this much unread and the model cannot be paused, the request is given up. */
const mostUnreadBytes = 16 * 1024 * 1024

class GrpcPrediction extends CallExchange {
  readonly #asked: Prediction
  readonly #counts: PredictionParts['counts']
  readonly #id = randomUUID()

  constructor(parts: PredictionParts, call: PortCall, caller: Caller, asked: Prediction) {
    super(parts, call, caller, asked.message)
    this.#asked = asked
    this.#counts = parts.counts
    call.onCancel = () => this.cancel()
  }

  override head(): RequestHead {
    return { id: this.#id, parameters: new Map(), correlationId: 0n, isSequenceStart: false }
  }

  protected override read({ signature, config, name }: ModelVersion): void {
    if (config.backend !== 'torchserve') {
      const text = `model '${name}' is no archive of TorchServe: call it by HTTP, /predictions/${name}, or by v2`
      throw ServerError.withoutStack('UNSUPPORTED', text)
    }
    const { request, takesPieces } = this.#asked
    if (signature.isDecoupled && !takesPieces) {
      throw ServerError.withoutStack('INVALID_ARG', `model '${name}' answers in pieces: call StreamPredictions`)
    }
    this.answersOnce = !signature.isDecoupled
    this.reserve(this.received.length)
    const given = request['input'] as ReadonlyMap<string, Buffer>
    const fields = [...given].map(([field, value]) => ({ name: field, contentType: '', value }))
    const sequenceId = request['sequenceId'] as string
    const headers = JSON.stringify(sequenceId === '' ? {} : { ts_request_sequence_id: sequenceId })
    const inputs = fieldTensors(fields, { id: this.#id, headers }, config.maxBatchSize > 0)
    this.submit({ id: this.#id, inputs })
  }

  protected override refused(error: ServerError): void {
    this.fail(error)
  }

  protected override fail(error: ServerError): void {
    this.#counts.answered(torchserveError(error).status)
    this.tellLoad()
    this.#asked.sink.fail(error)
  }

  protected override write(response: InferenceResponse, isFinal: boolean): void {
    if (isFinal || this.answersOnce) this.tellLoad()
    if (!response.isFlagOnly) {
      const { head, body } = torchAnswer(response)
      this.#counts.answered(head.status)
      this.#send(body)
    }
    response.release()
    if (isFinal || this.answersOnce) this.#asked.sink.end()
  }

  #send(body: Buffer): void {
    if (this.call.backlogBytes > mostUnreadBytes) {
      this.cancel()
      this.call.giveUp()
      return
    }
    this.#asked.sink.piece(body)
    if (this.answersOnce || this.call.backlogBytes === 0) return
    this.setPaused(true)
    this.call.onDrain = () => this.setPaused(false)
  }
}
