// POST …/infer: one body in, exactly one answer out. The order of the checks is Triton's, and so is the content type of
// an error: text/plain before the JSON is read and after execution, application/json in between.

import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import { RequestRegions } from '../../engine/shared-memory/request-regions.ts'
import type { SharedMemoryRegistry } from '../../engine/shared-memory/shared-memory-registry.ts'
import { InferenceRequest } from '../../model/inference-request.ts'
import type { Parameters } from '../../model/parameters.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { TraceStamp } from '../../model/trace-stamp.ts'
import type { ParsedInfer } from '../../protocol/parsed-infer.ts'
import {
  notASingleResponse,
  type EncodedInferResponse,
  type InferResponseContext,
} from '../../protocol/infer-response-writer.ts'
import type { RequestLimits } from '../../protocol/request-limits.ts'
import { BodyInflater, deflateBody, requestEncoding, responseEncoding } from '../../ports/http/content-encoding.ts'
import { errorResponse, httpStatusOf, messageResponse } from '../../ports/http/error-response.ts'
import { HeaderForwarding } from './header-forwarding.ts'
import {
  binaryType,
  headerOf,
  HttpResponse,
  jsonType,
  plainType,
  type HttpRequest,
} from '../../transport/http1/http-message.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import { InferHeadMemo } from './infer-head-memo.ts'
import { parseHeaderLength } from '../../protocol/inference-header-length.ts'
import type { JsonOffload } from '../../ports/http/json-offload.ts'
import { copyOutputs, isLargeAnswer, isLargeRequest } from '../../ports/http/large-json.ts'
import { ResponseHeadMemo } from './response-head-memo.ts'
import { traceOriginOf } from '../../ports/http/trace-origin.ts'
import { TracedRequest } from '../../ports/http/traced-request.ts'

export class InferEndpoint {
  readonly engine: Engine
  readonly clock: Clock
  readonly limits: RequestLimits
  readonly inflater: BodyInflater
  readonly heads = new InferHeadMemo()
  readonly answers = new ResponseHeadMemo()
  readonly offload: JsonOffload
  readonly sharedMemory: SharedMemoryRegistry
  readonly forwarding: HeaderForwarding | null

  constructor(
    dependencies: {
      readonly engine: Engine
      readonly clock: Clock
      readonly log: Log
      readonly sharedMemory: SharedMemoryRegistry
      readonly offload: JsonOffload
    },
    options: HttpOptions,
  ) {
    this.engine = dependencies.engine
    this.sharedMemory = dependencies.sharedMemory
    this.clock = dependencies.clock
    this.offload = dependencies.offload
    this.limits = { ...options.requestLimits, maxInputBytes: options.maxInputBytes }
    this.inflater = new BodyInflater(options.maxInputBytes)
    this.forwarding = options.headerForwardPattern === '' ? null : new HeaderForwarding(options.headerForwardPattern)
  }

  /** HOT: once per inference. */
  readonly handle = (request: HttpRequest, modelName: string, modelVersion: string): void => {
    try {
      const version = this.engine.findVersion(modelName, modelVersion)
      if (version.signature.isDecoupled) throw ServerError.withoutStack('UNSUPPORTED', decoupledText)
      const pending = new PendingInference(this, request, version, modelVersion)
      const encoding = requestEncoding(headerOf(request.headers, 'content-encoding'))
      if (encoding === 'identity') pending.begin(request.body)
      else if (encoding === null) {
        this.engine.refusals.countAs('unsupported')
        request.respond(unsupportedEncoding())
      } else this.inflater.inflate(request.body, (error, body) => pending.beginInflated(error, body))
    } catch (reason) {
      this.refuse(request, reason, plainType)
    }
  }

  /** For what never reaches the Engine. */
  refuse(request: HttpRequest, reason: unknown, contentType: string): void {
    const error = ServerError.from(reason)
    this.engine.refusals.count(error)
    request.respond(errorResponse(error, contentType))
  }
}

const decoupledText = "HTTP end point doesn't support models with decoupled transaction policy"

const unsupportedEncoding = (): HttpResponse =>
  messageResponse(httpStatusOf.UNSUPPORTED, 'Unsupported compression type', plainType, {
    headers: ['Accept-Encoding', 'gzip, deflate'],
  })

/** One request between its body and its answer. */
class PendingInference {
  readonly #endpoint: InferEndpoint
  #http: HttpRequest
  /** 0 while nothing is traced. */
  readonly #arrivedNs: number
  readonly #version: ModelVersion
  readonly #modelVersion: string
  #parsed: ParsedInfer | null = null
  /** Null unless inputs or outputs lie in shared memory. */
  #regions: RequestRegions | null = null
  /** What the model answered; kept until it says that this was all. */
  #response: InferenceResponse | null = null
  #responseCount = 0
  /** True once the Engine was told that this request will come. */
  #isExpected = false
  /** True while the Engine takes the request over: what fails then was never executed. */
  #isSubmitting = false

  constructor(endpoint: InferEndpoint, http: HttpRequest, version: ModelVersion, modelVersion: string) {
    this.#endpoint = endpoint
    this.#http = http
    this.#arrivedNs = endpoint.engine.isTracing ? endpoint.clock.nowNs() : 0
    this.#version = version
    this.#modelVersion = modelVersion
  }

  beginInflated(error: ServerError | null, body: Buffer): void {
    if (error !== null) this.#endpoint.refuse(this.#http, error, plainType)
    else this.begin(body)
  }

  begin(body: Buffer): void {
    let contentType = plainType
    let parsed: ParsedInfer
    try {
      const headerText = headerOf(this.#http.headers, 'inference-header-content-length')
      const headerLength = headerText === null ? null : parseHeaderLength(headerText, body.length)
      contentType = jsonType
      const { signature } = this.#version
      if (isLargeRequest(body.length, headerLength, signature)) {
        this.#readLarge(body, headerLength)
        return
      }
      parsed = this.#endpoint.heads.read(body, { headerLength, signature, limits: this.#endpoint.limits })
    } catch (reason) {
      this.#endpoint.refuse(this.#http, reason, contentType)
      return
    }
    this.#submit(parsed)
  }

  /** Other requests are served while a thread reads this one. */
  #readLarge(body: Buffer, headerLength: number | null): void {
    const options = { headerLength, signature: this.#version.signature, limits: this.#endpoint.limits }
    const job = this.#endpoint.offload.read(body, options, (error, parsed) => {
      this.#http.onDisconnect = null
      if (parsed !== null) this.#submit(parsed)
      else this.#endpoint.refuse(this.#http, error, jsonType)
      passedOn()
    })
    const passedOn = this.#expect()
    this.#http.onDisconnect = () => {
      job.cancel()
      passedOn()
    }
  }

  /** The request was there before it can be passed on: should the server exit meanwhile, it waits for it. */
  #expect(): () => void {
    this.#isExpected = true
    return this.#endpoint.engine.expectRequest()
  }

  #submit(parsed: ParsedInfer): void {
    this.#parsed = parsed
    let regions: RequestRegions | null
    try {
      regions = RequestRegions.of(this.#endpoint.sharedMemory, parsed.sharedMemoryInputs, parsed.outputs)
    } catch (reason) {
      this.#endpoint.refuse(this.#http, reason, jsonType)
      return
    }
    if (regions === null) this.#infer(parsed)
    else this.#readRegions(parsed, regions)
  }

  #readRegions(parsed: ParsedInfer, regions: RequestRegions): void {
    this.#regions = regions
    let isGone = false
    this.#http.onDisconnect = () => (isGone = true)
    const passedOn = this.#expect()
    regions.readInputs(parsed.inputs, (error) => {
      if (error === null && !isGone) this.#infer(parsed)
      else {
        regions.release()
        if (error !== null) this.#endpoint.refuse(this.#http, error, jsonType)
      }
      passedOn()
    })
  }

  #infer(parsed: ParsedInfer): void {
    let inference: InferenceRequest
    try {
      inference = this.#toInference(parsed)
    } catch (reason) {
      this.#regions?.release()
      this.#endpoint.refuse(this.#http, reason, jsonType)
      return
    }
    if (this.#arrivedNs !== 0) {
      const stamps: TraceStamp[] = [
        ['HTTP_RECV_START', this.#arrivedNs],
        ['HTTP_RECV_END', this.#endpoint.clock.nowNs()],
      ]
      inference.arrivalStamps = stamps
      inference.traceOrigin = traceOriginOf(this.#http.headers)
    }
    this.#http.noteInference?.(inference, this.#version.version)
    this.#http.onDisconnect = () => inference.cancel()
    this.#isSubmitting = true
    this.#endpoint.engine.infer(inference, this.#version, this.#isExpected)
    this.#isSubmitting = false
  }

  #toInference(parsed: ParsedInfer): InferenceRequest {
    const { outputs } = parsed
    const requestedOutputs: string[] = []
    for (let i = 0; i < outputs.length; i++) requestedOutputs.push((outputs[i] as (typeof outputs)[number]).name)
    return new InferenceRequest({
      modelName: this.#version.name,
      modelVersion: this.#modelVersion,
      id: parsed.id,
      inputs: parsed.inputs,
      requestedOutputs,
      parameters: this.#parametersOf(parsed),
      correlationId: parsed.correlationId,
      isSequenceStart: parsed.isSequenceStart,
      isSequenceEnd: parsed.isSequenceEnd,
      priority: parsed.priority,
      timeoutUs: parsed.timeoutUs,
      sink: (response, inference) => this.#onResponse(response, inference),
    })
  }

  #parametersOf(parsed: ParsedInfer): Parameters {
    const { forwarding } = this.#endpoint
    if (forwarding === null) return parsed.parameters
    const parameters = new Map(parsed.parameters)
    forwarding.forward(this.#http.headers, parameters)
    return parameters
  }

  /** The Engine's sink: it does not throw, and memory of every response goes back, wanted or not. */
  #onResponse(response: InferenceResponse, inference: InferenceRequest): void {
    if (!response.isFlagOnly) {
      this.#responseCount++
      if (this.#responseCount === 1) this.#response = response
      else response.release()
    }
    if (!response.isFinal) return
    const { trace } = inference
    if (trace !== null) this.#http = new TracedRequest(this.#http, trace, this.#endpoint.clock)
    const error = response.error ?? this.#response?.error ?? null
    if (error === null) {
      this.#finish()
      return
    }
    this.#response?.release()
    this.#regions?.release()
    // What no model was given (validation of long inputs ends later) is refused as what the Engine refuses at once.
    const wasAdmitted = inference.isAdmitted && !this.#isSubmitting
    const wasExecuted = inference.computeStartNs !== 0 || wasAdmitted
    this.#http.respond(errorResponse(error, wasExecuted ? plainType : jsonType))
  }

  #finish(): void {
    const response = this.#response
    const regions = this.#regions
    if (response === null || this.#responseCount !== 1) {
      response?.release()
      regions?.release()
      this.#http.respond(errorResponse(notASingleResponse(this.#responseCount), plainType))
      return
    }
    if (regions === null) {
      this.#finishWith(response, null)
      return
    }
    regions.writeOutputs(response.outputs, (error) => {
      regions.release()
      this.#finishWith(response, error)
    })
  }

  #finishWith(response: InferenceResponse, error: ServerError | null): void {
    try {
      if (error !== null) throw error
      this.#respond(response)
    } catch (reason) {
      response.release()
      this.#http.respond(errorResponse(ServerError.from(reason), plainType))
    }
  }

  #respond(response: InferenceResponse): void {
    const parsed = this.#parsed as ParsedInfer
    const context = {
      modelName: this.#version.name,
      modelVersion: this.#version.version,
      id: parsed.id,
      signature: this.#version.signature,
      outputs: parsed.outputs,
      binaryOutputDefault: parsed.binaryOutputDefault,
    }
    if (isLargeAnswer(response.outputs, context)) this.#writeLarge(response, context)
    else this.#send(response, this.#endpoint.answers.write(response, context))
  }

  /** Other requests are served while a thread writes this answer. */
  #writeLarge(response: InferenceResponse, context: InferResponseContext): void {
    const { offload } = this.#endpoint
    let bytes = 0
    for (const output of response.outputs) bytes += output.bytes.length
    offload.requireRoom(bytes)
    let isGone = false
    this.#http.onDisconnect = () => (isGone = true)
    copyOutputs(response.outputs, context, (outputs) => {
      response.release()
      if (isGone) {
        this.#dropAnswer()
        return
      }
      try {
        const job = offload.write(outputs, response.parameters, context, (error, encoded) => {
          if (encoded !== null) this.#send(response, encoded)
          else this.#http.respond(errorResponse(ServerError.from(error), plainType))
        })
        this.#http.onDisconnect = () => {
          job.cancel()
          this.#dropAnswer()
        }
      } catch (reason) {
        this.#http.respond(errorResponse(ServerError.from(reason), plainType))
      }
    })
  }

  /** Nobody reads it any more, but a trace waits for the end of every answer. */
  #dropAnswer(): void {
    this.#http.respond(errorResponse(ServerError.withoutStack('CANCELLED', ''), plainType))
  }

  #send(response: InferenceResponse, { head, parts, isBinary }: EncodedInferResponse): void {
    const accepted = headerOf(this.#http.headers, 'accept-encoding')
    const encoding = accepted === null ? 'identity' : responseEncoding(accepted)
    if (encoding !== 'identity') {
      this.#respondDeflated(response, Buffer.concat([head, ...parts]), isBinary ? head.length : null, encoding)
    } else if (isBinary) {
      const headers = ['Inference-Header-Content-Length', String(head.length)]
      const release = (): void => response.release()
      this.#http.respond(new HttpResponse(200, binaryType, [head, ...parts], { headers, release }))
    } else {
      // JSON is a print of the outputs: their memory is not needed any more.
      response.release()
      this.#http.respond(new HttpResponse(200, jsonType, [head]))
    }
  }

  #respondDeflated(
    response: InferenceResponse,
    plain: Buffer,
    headLength: number | null,
    encoding: 'gzip' | 'deflate',
  ): void {
    // zlib wants one piece, which is a copy: the model's memory goes back at once.
    response.release()
    const headers = headLength === null ? [] : ['Inference-Header-Content-Length', String(headLength)]
    const type = headLength === null ? jsonType : binaryType
    deflateBody(plain, encoding, (deflated) => {
      if (deflated !== null) headers.push('Content-Encoding', encoding)
      this.#http.respond(new HttpResponse(200, type, [deflated ?? plain], { headers }))
    })
  }
}
