// POST …/generate and …/generate_stream: plain JSON in, one JSON object or a stream of server-sent events out.

import type { Caller } from '../../access/caller.ts'
import type { Log } from '../../base/log.ts'
import type { ServerError } from '../../base/server-error.ts'
import type { ExchangeParts, Preparation } from '../../exchange/inference-exchange.ts'
import type { RequestHead } from '../../model/request-origin.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { worded } from '../../model/worded-error.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { httpStatusOf, retryHeaders } from '../../ports/http/error-response.ts'
import { HttpExchange } from '../../ports/http/http-exchange.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import type { JsonOffload } from '../../ports/http/json-offload.ts'
import { isLargeAnswer, largeRequestJsonBytes } from '../../ports/http/large-json.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import { encodeErrorBody } from '../../protocol/error-body.ts'
import { readGenerateRequest, type ParsedGenerate } from '../../protocol/generate-request.ts'
import {
  encodeErrorEvent,
  encodeGenerateEvent,
  encodeGenerateResponse,
  eventStreamType,
  type GenerateContext,
} from '../../protocol/generate-response.ts'
import type { PrintedOutputs } from '../../protocol/infer-response-writer.ts'
import { readJsonRequestHead } from '../../protocol/json-request-head.ts'
import type { RequestLimits } from '../../protocol/request-limits.ts'
import { HttpResponse, jsonType, type ResponseStream } from '../../transport/http1/http-message.ts'
import { endpointLoadMetrics, type LoadMetricSource } from './endpoint-load-metrics.ts'

/** As in Triton, an error as the first answer is a 400, also for other error codes. */
const firstErrorStatus = 400

export type GenerateParts = ExchangeParts & {
  readonly log: Log
  readonly offload: JsonOffload
  /** Left out: no answer has the load header. */
  readonly customMetrics?: LoadMetricSource
}

export class GenerateEndpoints {
  readonly parts: GenerateParts
  readonly limits: RequestLimits
  readonly log: Log

  constructor(parts: GenerateParts, options: HttpOptions) {
    this.parts = parts
    this.log = parts.log.from('generate-endpoints.ts')
    this.limits = { ...options.requestLimits, maxInputBytes: options.maxInputBytes }
  }

  readonly generate: RouteHandler = (http, name, version, caller) =>
    new GenerateOnce(this, http, caller, true).begin(name, version)
  readonly generateStream: RouteHandler = (http, name, version, caller) =>
    new GenerateStream(this, http, caller, false).begin(name, version)
}

const noHeaders: readonly string[] = []

/** Reads a request of both endpoints, and holds the common parts of their answers. */
abstract class GenerateExchange extends HttpExchange {
  protected readonly endpoints: GenerateEndpoints

  constructor(endpoints: GenerateEndpoints, http: PortRequest, caller: Caller, answersOnce: boolean) {
    super(endpoints.parts, http, caller, answersOnce)
    this.endpoints = endpoints
  }

  override head(): RequestHead {
    return readJsonRequestHead(this.http.body, this.http.body.length, true)
  }

  protected override read({ signature }: ModelVersion): void {
    this.requirePlainBody()
    const { body } = this.http
    const { limits, parts } = this.endpoints
    if (body.length <= largeRequestJsonBytes) this.submit(readGenerateRequest(body, signature, limits))
    else {
      this.readLater<ParsedGenerate>(
        (done) => parts.offload.read('generate', body, { headerLength: null, signature, limits }, done),
        (parsed) => this.submit(parsed),
      )
    }
  }

  protected get context(): GenerateContext & PrintedOutputs {
    const { modelName } = this
    const { version, signature } = this.version
    const id = this.request?.id ?? ''
    return { modelName, modelVersion: version, id, signature, outputs: [], binaryOutputDefault: false }
  }

  protected abstract readonly writer: 'generate' | 'generateEvent'
  /** What a thread has written of the answer that is next; null when the answer is small. */
  #written: Buffer | null = null

  /** A thread writes large answers. */
  protected override prepare(response: InferenceResponse): Preparation | null {
    const { context } = this
    if (!isLargeAnswer(response.outputs, context)) return null
    return (done) => {
      try {
        this.encodeLater(this.endpoints.parts.offload, this.writer, response, context, (error, encoded) => {
          this.#written = encoded?.head ?? null
          done(error, encoded === null ? null : response)
        })
      } catch (reason) {
        done(reason, null)
      }
    }
  }

  protected bodyOf(response: InferenceResponse): Buffer {
    const written = this.#written
    this.#written = null
    const encode = this.writer === 'generate' ? encodeGenerateResponse : encodeGenerateEvent
    const body = written ?? encode(response, this.context)
    response.release()
    return body
  }

  protected openStream(status: number, contentType: string, headers: readonly string[] = noHeaders): ResponseStream {
    const all = [...headers, ...this.#loadHeaders()]
    return this.answering.stream(new HttpResponse(status, contentType, [], { headers: all }))
  }

  /** Triton has statuses of its own for an error as the first answer. */
  protected errorStatus(error: ServerError, tritonStatus: number): number {
    return this.parts.engine.wording.isTriton ? tritonStatus : httpStatusOf[error.code]
  }

  #loadHeaders(): readonly string[] {
    const format = this.header('endpoint-load-metrics-format')
    const metrics = this.endpoints.parts.customMetrics ?? null
    // With `--orca` every answer has the whole report; without it there is what Triton tells.
    if (format === null || metrics === null || (this.parts.load ?? null) !== null) return noHeaders
    const value = endpointLoadMetrics(format, metrics)
    if (value !== null) return ['endpoint-load-metrics', value]
    this.endpoints.log.verbose('no endpoint-load-metrics: unknown format, or no model tells of its cache', { format })
    return noHeaders
  }
}

/** Answers with one JSON object. The first response decides the status; none or several are an error. */
class GenerateOnce extends GenerateExchange {
  protected readonly writer = 'generate'
  #errorStatus = firstErrorStatus

  protected override errorOf(_: InferenceResponse, first: InferenceResponse | null, count: number): ServerError | null {
    const error = first?.error ?? null
    if (count === 1) return error
    if (error === null) this.#errorStatus = 200
    return worded('notOneResponse', { count })
  }

  protected override write(response: InferenceResponse): void {
    this.#send(200, this.bodyOf(response))
  }

  protected override fail(error: ServerError): void {
    if (this.isUnscheduled) this.refused(error)
    else this.#send(this.errorStatus(error, this.#errorStatus), encodeErrorBody(error.message), retryHeaders(error))
  }

  #send(status: number, body: Buffer, headers: readonly string[] = noHeaders): void {
    const stream = this.openStream(status, jsonType, headers)
    stream.write(body)
    stream.end()
  }
}

/** Sends every response as it comes. While the client does not read, the model is paused. */
class GenerateStream extends GenerateExchange {
  protected readonly writer = 'generateEvent'
  #stream: ResponseStream | null = null

  protected override write(response: InferenceResponse, isFinal: boolean): void {
    this.#add(response.isFlagOnly ? null : this.bodyOf(response), 200, isFinal)
  }

  protected override fail(error: ServerError, isFinal: boolean): void {
    if (this.isUnscheduled && this.#stream === null) this.refused(error)
    else
      this.#add(
        encodeErrorEvent(error.message),
        this.errorStatus(error, firstErrorStatus),
        isFinal,
        retryHeaders(error),
      )
  }

  #add(event: Buffer | null, status: number, isFinal: boolean, headers: readonly string[] = noHeaders): void {
    this.#stream ??= this.openStream(status, eventStreamType, headers)
    if (event !== null) this.sendPiece(this.#stream, event)
    if (isFinal) this.#stream.end()
  }

  protected override overrun(unreadBytes: number): void {
    const facts = { model: this.version.name, unread_bytes: unreadBytes }
    this.endpoints.log.warning('generate_stream given up: its client does not read and the model does not wait', facts)
    this.#stream ??= this.openStream(200, eventStreamType)
    this.#stream.abort()
  }
}
