// POST …/generate and …/generate_stream: plain JSON in, one JSON object or a stream of server-sent events out.

import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import { InferenceRequest } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { TraceStamp } from '../../model/trace-stamp.ts'
import { encodeErrorBody } from '../../protocol/error-body.ts'
import { readGenerateRequest, type ParsedGenerate } from '../../protocol/generate-request.ts'
import {
  encodeErrorEvent,
  encodeGenerateEvent,
  encodeGenerateResponse,
  eventStreamType,
  notOneResponseText,
  type GenerateContext,
} from '../../protocol/generate-response.ts'
import type { RequestLimits } from '../../protocol/request-limits.ts'
import { requestEncoding } from '../../ports/http/content-encoding.ts'
import { endpointLoadMetrics, type LoadMetricSource } from '../../ports/http/endpoint-load-metrics.ts'
import { errorResponse } from '../../ports/http/error-response.ts'
import {
  headerOf,
  HttpResponse,
  jsonType,
  type HttpRequest,
  type ResponseStream,
} from '../../transport/http1/http-message.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import type { JsonOffload } from '../../ports/http/json-offload.ts'
import { largeRequestJsonBytes } from '../../ports/http/large-json.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import { traceOriginOf } from '../../ports/http/trace-origin.ts'
import { TracedRequest } from '../../ports/http/traced-request.ts'

/** A model that cannot be paused and a client that does not read: the request is given up with this much unread. */
const mostUnreadBytes = 16 * 1024 * 1024

/** An error as the first answer is a 400 whatever its code, as in Triton. */
const firstErrorStatus = 400

export type GenerateParts = {
  readonly engine: Engine
  readonly clock: Clock
  readonly log: Log
  readonly offload: JsonOffload
  /** Without them no answer tells of a model's load. */
  readonly customMetrics?: LoadMetricSource
}

export class GenerateEndpoints {
  readonly #engine: Engine
  readonly #clock: Clock
  readonly #log: Log
  readonly #limits: RequestLimits
  readonly #offload: JsonOffload
  readonly #metrics: LoadMetricSource | null

  constructor(dependencies: GenerateParts, options: HttpOptions) {
    this.#metrics = dependencies.customMetrics ?? null
    this.#engine = dependencies.engine
    this.#clock = dependencies.clock
    this.#offload = dependencies.offload
    this.#log = dependencies.log.from('generate-endpoints.ts')
    this.#limits = { ...options.requestLimits, maxInputBytes: options.maxInputBytes }
  }

  readonly generate: RouteHandler = (http, name, version) =>
    this.#begin(
      http,
      name,
      version,
      (exchange, context) => new SingleAnswer(exchange, context, this.#headers(exchange)),
    )
  readonly generateStream: RouteHandler = (http, name, version) =>
    this.#begin(
      http,
      name,
      version,
      (exchange, context) => new EventStream(exchange, context, this.#headers(exchange), this.#log),
    )

  /** Read when the head of the answer is written. */
  #headers(http: HttpRequest): () => readonly string[] {
    const format = headerOf(http.headers, 'endpoint-load-metrics-format')
    const metrics = this.#metrics
    if (format === null || metrics === null) return () => noHeaders
    return () => {
      const value = endpointLoadMetrics(format, metrics)
      if (value !== null) return ['endpoint-load-metrics', value]
      this.#log.verbose('no endpoint-load-metrics: unknown format, or no model tells of its cache', { format })
      return noHeaders
    }
  }

  #begin(http: HttpRequest, name: string, modelVersion: string, createAnswer: CreateAnswer): void {
    try {
      const version = this.#engine.findVersion(name, modelVersion)
      if (requestEncoding(headerOf(http.headers, 'content-encoding')) !== 'identity') {
        throw ServerError.withoutStack('INVALID_ARG', "Unsupported content-encoding, only 'identity' is supported.")
      }
      const arrivedNs = this.#engine.isTracing ? this.#clock.nowNs() : 0
      const pending = { http, version, modelVersion, arrivedNs, createAnswer }
      if (http.body.length > largeRequestJsonBytes) this.#readLarge(pending)
      else this.#submit(pending, readGenerateRequest(http.body, version.signature, this.#limits), false)
    } catch (reason) {
      this.#refuse(http, reason)
    }
  }

  /** For what never reaches the Engine. */
  #refuse(http: HttpRequest, reason: unknown): void {
    const error = ServerError.from(reason)
    this.#engine.refusals.count(error)
    http.respond(errorResponse(error, jsonType))
  }

  /** Other requests are served while a thread reads this one. */
  #readLarge(pending: PendingGenerate): void {
    const { http, version } = pending
    const job = this.#offload.readGenerate(http.body, version.signature, this.#limits, (error, parsed) => {
      http.onDisconnect = null
      if (parsed === null) this.#refuse(http, error)
      else this.#submit(pending, parsed, true)
      passedOn()
    })
    const passedOn = this.#engine.expectRequest()
    http.onDisconnect = () => {
      job.cancel()
      passedOn()
    }
  }

  #submit(pending: PendingGenerate, parsed: ParsedGenerate, isExpected: boolean): void {
    const { http, version, modelVersion, arrivedNs, createAnswer } = pending
    const { id, inputs, parameters } = parsed
    let isSubmitting = true
    let answer: Answer | null = null
    const answerTo = ({ trace }: InferenceRequest): Answer => {
      // Whether the request was picked for tracing is known once the Engine has it.
      const exchange = trace === null ? http : new TracedRequest(http, trace, this.#clock)
      return createAnswer(exchange, { modelName: version.name, modelVersion: version.version, id })
    }
    const inference = new InferenceRequest({
      modelName: version.name,
      modelVersion,
      id,
      inputs,
      parameters,
      sink: (response, request) => {
        const isUnscheduled = isSubmitting || !request.isAdmitted
        const wasRefused = isUnscheduled && response.error !== null && request.computeStartNs === 0
        if (wasRefused && answer?.isBegun !== true) http.respond(errorResponse(response.error, jsonType))
        else (answer ??= answerTo(request)).add(response, request)
      },
    })
    if (arrivedNs !== 0) {
      const stamps: TraceStamp[] = [
        ['HTTP_RECV_START', arrivedNs],
        ['HTTP_RECV_END', this.#clock.nowNs()],
      ]
      inference.arrivalStamps = stamps
      inference.traceOrigin = traceOriginOf(http.headers)
    }
    http.noteInference?.(inference, version.version)
    http.onDisconnect = () => inference.cancel()
    this.#engine.infer(inference, version, isExpected)
    isSubmitting = false
  }
}

type PendingGenerate = {
  readonly http: HttpRequest
  readonly version: ModelVersion
  readonly modelVersion: string
  /** 0 while nothing is traced. */
  readonly arrivedNs: number
  readonly createAnswer: CreateAnswer
}

interface Answer {
  /** Whether the model has said anything yet. */
  readonly isBegun: boolean
  /** Does not throw; the response's memory goes back. */
  add(response: InferenceResponse, request: InferenceRequest): void
}

type CreateAnswer = (http: HttpRequest, context: GenerateContext) => Answer

const noHeaders: readonly string[] = []

/** The first response decides the status, the last one whether it was the only one. */
class SingleAnswer implements Answer {
  readonly #http: HttpRequest
  readonly #context: GenerateContext
  readonly #headers: () => readonly string[]
  #status = 200
  #body: Buffer | null = null
  #count = 0

  constructor(http: HttpRequest, context: GenerateContext, headers: () => readonly string[]) {
    this.#http = http
    this.#context = context
    this.#headers = headers
  }

  get isBegun(): boolean {
    return this.#count > 0
  }

  add(response: InferenceResponse): void {
    if (!response.isFlagOnly) {
      this.#count++
      if (this.#count === 1) this.#encode(response)
      response.release()
    }
    if (!response.isFinal) return
    const stream = this.#http.stream(new HttpResponse(this.#status, jsonType, [], { headers: this.#headers() }))
    stream.write(this.#count === 1 && this.#body !== null ? this.#body : encodeErrorBody(notOneResponseText))
    stream.end()
  }

  #encode(response: InferenceResponse): void {
    try {
      if (response.error !== null) throw response.error
      this.#body = encodeGenerateResponse(response, this.#context)
    } catch (reason) {
      this.#status = firstErrorStatus
      this.#body = encodeErrorBody(ServerError.from(reason).message)
    }
  }
}

/** Every response as it comes. While the client does not read, the model is asked to wait. */
class EventStream implements Answer {
  readonly #http: HttpRequest
  readonly #context: GenerateContext
  readonly #headers: () => readonly string[]
  readonly #log: Log
  #stream: ResponseStream | null = null

  constructor(http: HttpRequest, context: GenerateContext, headers: () => readonly string[], log: Log) {
    this.#http = http
    this.#context = context
    this.#headers = headers
    this.#log = log
  }

  get isBegun(): boolean {
    return this.#stream !== null
  }

  add(response: InferenceResponse, request: InferenceRequest): void {
    let isError = false
    let event: Buffer | null = null
    if (!response.isFlagOnly) {
      try {
        if (response.error !== null) throw response.error
        event = encodeGenerateEvent(response, this.#context)
      } catch (reason) {
        isError = true
        event = encodeErrorEvent(ServerError.from(reason).message)
      }
      response.release()
    }
    this.#stream ??= this.#begin(isError ? firstErrorStatus : 200)
    if (event !== null) this.#write(this.#stream, event, request)
    if (response.isFinal) this.#stream.end()
  }

  #begin(status: number): ResponseStream {
    return this.#http.stream(new HttpResponse(status, eventStreamType, [], { headers: this.#headers() }))
  }

  #write(stream: ResponseStream, event: Buffer, request: InferenceRequest): void {
    if (stream.unreadBytes > mostUnreadBytes) {
      this.#log.warning('generate_stream given up: its client does not read and the model does not wait', {
        model: this.#context.modelName,
        unread_bytes: stream.unreadBytes,
      })
      request.cancel()
      stream.abort()
      return
    }
    if (stream.write(event) || request.isPaused) return
    stream.onDrain = () => request.setPaused(false)
    request.setPaused(true)
  }
}
