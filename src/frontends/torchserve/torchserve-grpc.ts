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
import { takeOne, type GrpcFrontEnd, type GrpcMethod } from '../../ports/grpc/grpc-method.ts'
import type { PortCall } from '../../ports/grpc/port-call.ts'
import type { MessageValue } from '../../protocol/grpc/message-codec.ts'
import { decodeTorch, encodeTorch } from '../../protocol/torchserve/torch-messages.ts'
import { fieldTensors, torchAnswer } from '../../protocol/torchserve/torch-request.ts'
import { GrpcStatus, statusCodes, statusOk, type StatusCode } from '../../transport/grpc/grpc-status.ts'
import type { PredictionParts } from './prediction-endpoint.ts'
import { TorchserveError, torchserveError } from './torchserve-answers.ts'
import {
  TorchserveManagement,
  type Actor,
  type Change,
  type Fields,
  type TorchserveSettings,
} from './torchserve-management.ts'
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

/** The class of Java that stands on the second line of a description. */
const classOf = (type: string): string =>
  /^Model(Version)?NotFound/.test(type) ? `org.pytorch.serve.archive.model.${type}` : `org.pytorch.serve.http.${type}`

function statusOf(reason: unknown): GrpcStatus {
  const error = reason instanceof TorchserveError ? reason : torchserveError(ServerError.from(reason))
  const code = codes[error.status] ?? (error.status < 500 ? statusCodes.FAILED_PRECONDITION : statusCodes.INTERNAL)
  return new GrpcStatus(code, `${error.message}\n${classOf(error.type)}`)
}

const pretty = (value: unknown): string => JSON.stringify(value, null, 2)

/** Calls `act` with each request. What it throws is answered in TorchServe's form. */
function method(
  parts: GrpcParts,
  path: string,
  api: GrpcMethod['api'],
  type: string,
  act: (request: MessageValue, call: PortCall, caller: Caller, message: Buffer) => void,
): GrpcMethod {
  const refuse = (call: PortCall, reason: unknown): void => {
    if (reason instanceof ServerError) parts.engine.refusals.count(reason)
    call.finish(statusOf(reason))
  }
  const begin: GrpcMethod['begin'] = (call, caller) => {
    if (api === 'inference') call.allowLargeMessages()
    takeOne(call, parts.log, (message) => {
      try {
        act(decodeTorch(type, message), call, caller, message)
      } catch (reason) {
        if (!(reason instanceof TorchserveError || reason instanceof ServerError)) throw reason
        refuse(call, reason)
      }
    })
  }
  return { path, api, begin }
}

function send(call: PortCall, type: string, value: MessageValue): void {
  const bytes = encodeTorch(type, value)
  call.sendLast({ parts: [bytes], byteLength: bytes.length }, null)
}

export function torchserveInferenceGrpc(parts: GrpcParts): GrpcFrontEnd {
  const service = '/org.pytorch.serve.grpc.inference.InferenceAPIsService'
  const predict = (rpc: string, streams: boolean): GrpcMethod =>
    method(parts, `${service}/${rpc}`, 'inference', 'PredictionsRequest', (request, call, caller, message) => {
      const asked = { message, request, streams, sink: new CallSink(call) }
      try {
        beginPrediction(parts, call, caller, asked)
      } catch (reason) {
        if (!(reason instanceof TorchserveError)) throw reason
        // TorchServe has one code for what is wrong before the model is asked.
        call.finish(new GrpcStatus(statusCodes.INTERNAL, statusOf(reason).message))
      }
    })
  const streams = new Set<PredictionStream>()
  return {
    methods: [
      method(parts, `${service}/Ping`, 'health', 'Empty', (_, call) =>
        send(call, 'TorchServeHealthResponse', {
          health: pretty({ status: parts.engine.isReady ? 'Healthy' : 'Unhealthy' }),
        }),
      ),
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

/** Throws TorchserveError for a model that is not there. */
function beginPrediction(parts: GrpcParts, call: PortCall, caller: Caller, asked: Prediction): void {
  const name = asked.request['modelName'] as string
  if (name === '') throw new TorchserveError(400, 'BadRequestException', 'Parameter model_name is required.')
  // Who may not use a model is not told whether it is there.
  requireRight(caller, 'inference', name)
  const number = parts.models.resolve(name, asked.request['modelVersion'] as string)
  new GrpcPrediction(parts, call, caller, asked).begin(name, number)
}

export function torchserveManagementGrpc(parts: GrpcParts, settings: TorchserveSettings): GrpcFrontEnd {
  const service = '/org.pytorch.serve.grpc.management.ManagementAPIsService'
  const management = new TorchserveManagement(parts.models, settings)
  const tell = (rpc: string, type: string, value: (request: MessageValue, caller: Caller) => unknown): GrpcMethod =>
    method(parts, `${service}/${rpc}`, 'model-repository', type, (request, call, caller) =>
      send(call, 'ManagementResponse', { msg: pretty(value(request, caller)) }),
    )
  const change = (rpc: string, type: string, act: (request: MessageValue, actor: Actor) => Change): GrpcMethod =>
    method(parts, `${service}/${rpc}`, 'model-repository', type, (request, call, caller) => {
      const { done, waits } = act(request, { caller, origin: grpcChangeOrigin(call, caller) })
      const answer = (msg: string): void => send(call, 'ManagementResponse', { msg })
      if (!waits) answer('Processing worker updates...')
      void ended(done, (reason, text) => {
        if (!waits) return
        if (text === null) call.finish(statusOf(reason))
        else answer(text)
      })
    })
  const modelOf = (request: MessageValue): [string, string] => [
    request['modelName'] as string,
    request['modelVersion'] as string,
  ]
  return {
    methods: [
      tell('DescribeModel', 'DescribeModelRequest', (request, caller) =>
        management.describe(...modelOf(request), caller),
      ),
      tell('ListModels', 'ListModelsRequest', (request, caller) => management.list(fieldsOf(request), caller)),
      change('RegisterModel', 'RegisterModelRequest', (request, actor) =>
        management.register(fieldsOf(request), actor),
      ),
      change('ScaleWorker', 'ScaleWorkerRequest', (request, actor) =>
        management.scale(...modelOf(request), fieldsOf(request), actor),
      ),
      change('SetDefault', 'SetDefaultRequest', (request, actor) => management.setDefault(...modelOf(request), actor)),
      change('UnregisterModel', 'UnregisterModelRequest', (request, actor) =>
        management.unregister(...modelOf(request), actor),
      ),
    ],
  }
}

async function ended(done: Promise<string>, tell: (reason: unknown, text: string | null) => void): Promise<void> {
  let text: string | null = null
  let error: unknown = null
  try {
    text = await done
  } catch (reason) {
    error = reason
  }
  tell(error, text)
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
  /** One piece of the answer. */
  piece(body: Buffer): void
  /** The last piece is out. */
  end(): void
  fail(error: unknown): void
}

/** The call is one prediction. */
class CallSink implements PredictionSink {
  readonly #call: PortCall

  constructor(call: PortCall) {
    this.#call = call
  }

  piece(body: Buffer): void {
    const bytes = encodeTorch('PredictionResponse', { prediction: body })
    this.#call.send({ parts: [bytes], byteLength: bytes.length }, null)
  }
  end(): void {
    this.#call.finish(statusOk)
  }
  fail(error: unknown): void {
    this.#call.finish(statusOf(error))
  }
}

/**
 * StreamPredictions2: any number of predictions on one call, one after the other, so that those of a sequence keep their order. The
 * next message waits in the client until the one before it is answered. An error is an answer and does not end the stream.
 */
class PredictionStream implements PredictionSink {
  readonly #parts: GrpcParts
  readonly #call: PortCall
  readonly #caller: Caller
  #message: Buffer | null = null
  #sequenceId = ''
  #endStatus: GrpcStatus | null = null

  constructor(parts: GrpcParts, call: PortCall, caller: Caller) {
    this.#parts = parts
    this.#call = call
    this.#caller = caller
    call.allowLargeMessages()
    call.onMessage = (message) => this.#begin(message)
    call.onHalfClose = () => this.drain(statusOk)
  }

  /** No further messages; the stream ends after the one under way. */
  drain(status: GrpcStatus): void {
    this.#endStatus ??= status
    if (this.#message === null) this.#call.finish(this.#endStatus)
  }

  #begin(message: Buffer): void {
    this.#message = message
    this.#sequenceId = ''
    this.#call.setPaused(true)
    try {
      const request = decodeTorch('PredictionsRequest', message)
      this.#sequenceId = request['sequenceId'] as string
      const asked = { message, request, streams: true, sink: this }
      beginPrediction(this.#parts, this.#call, this.#caller, asked)
    } catch (reason) {
      if (!(reason instanceof TorchserveError || reason instanceof ServerError)) throw reason
      if (reason instanceof ServerError) this.#parts.engine.refusals.count(reason)
      this.fail(reason)
    }
  }

  piece(body: Buffer): void {
    this.#send({ prediction: body })
  }
  fail(error: unknown): void {
    const { code, message } = statusOf(error)
    this.#send({ status: { code, message } })
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

  #send(answer: MessageValue): void {
    const bytes = encodeTorch('PredictionResponse', { ...answer, sequenceId: this.#sequenceId })
    this.#call.send({ parts: [bytes], byteLength: bytes.length }, null)
  }
}

type Prediction = {
  readonly message: Buffer
  /** PredictionsRequest */
  readonly request: MessageValue
  /** The answer may come in pieces, as the handler makes them. */
  readonly streams: boolean
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
    if (signature.isDecoupled && !this.#asked.streams) {
      throw ServerError.withoutStack('INVALID_ARG', `model '${name}' answers in pieces: call StreamPredictions`)
    }
    this.answersOnce = !signature.isDecoupled
    this.reserve(this.received.length)
    const { request } = this.#asked
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
