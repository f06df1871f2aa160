// POST …/infer: one body in, exactly one answer out. The order of the checks is Triton's, and so is the content type of
// an error: text/plain before the JSON is read and after execution, application/json in between.

import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import { InferenceRequest, type Parameters } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { ParsedInfer } from '../../protocol/infer-request-reader.ts'
import { notASingleResponse } from '../../protocol/infer-response-writer.ts'
import type { RequestLimits } from '../../protocol/request-limits.ts'
import { BodyInflater, deflateBody, requestEncoding, responseEncoding } from './content-encoding.ts'
import { errorResponse, httpStatusOf, messageResponse } from './error-response.ts'
import { HeaderForwarding } from './header-forwarding.ts'
import { binaryType, headerOf, HttpResponse, jsonType, plainType, type HttpRequest } from './http-message.ts'
import type { HttpOptions } from './http-options.ts'
import { InferHeadMemo } from './infer-head-memo.ts'
import { parseHeaderLength } from './inference-header-length.ts'
import { ResponseHeadMemo } from './response-head-memo.ts'

export class InferEndpoint {
  readonly engine: Engine
  readonly limits: RequestLimits
  readonly inflater: BodyInflater
  readonly heads = new InferHeadMemo()
  readonly answers = new ResponseHeadMemo()
  readonly forwarding: HeaderForwarding | null

  constructor(dependencies: { readonly engine: Engine }, options: HttpOptions) {
    this.engine = dependencies.engine
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
      else if (encoding === null) request.respond(unsupportedEncoding())
      else this.inflater.inflate(request.body, (error, body) => pending.beginInflated(error, body))
    } catch (reason) {
      request.respond(errorResponse(ServerError.from(reason), plainType))
    }
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
  readonly #http: HttpRequest
  readonly #version: ModelVersion
  readonly #modelVersion: string
  #parsed: ParsedInfer | null = null
  /** What the model answered; kept until it says that this was all. */
  #response: InferenceResponse | null = null
  #responseCount = 0
  /** True while the Engine takes the request over: what fails then was never executed. */
  #isSubmitting = false

  constructor(endpoint: InferEndpoint, http: HttpRequest, version: ModelVersion, modelVersion: string) {
    this.#endpoint = endpoint
    this.#http = http
    this.#version = version
    this.#modelVersion = modelVersion
  }

  beginInflated(error: ServerError | null, body: Buffer): void {
    if (error !== null) this.#http.respond(errorResponse(error, plainType))
    else this.begin(body)
  }

  begin(body: Buffer): void {
    let contentType = plainType
    let inference: InferenceRequest
    try {
      const headerText = headerOf(this.#http.headers, 'inference-header-content-length')
      const headerLength = headerText === null ? null : parseHeaderLength(headerText, body.length)
      contentType = jsonType
      const { signature } = this.#version
      const parsed = this.#endpoint.heads.read(body, { headerLength, signature, limits: this.#endpoint.limits })
      this.#parsed = parsed
      refuseSharedMemory(parsed)
      inference = this.#toInference(parsed)
    } catch (reason) {
      this.#http.respond(errorResponse(ServerError.from(reason), contentType))
      return
    }
    this.#http.onDisconnect = () => inference.cancel()
    this.#isSubmitting = true
    this.#endpoint.engine.infer(inference, this.#version)
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
    const error = response.error ?? this.#response?.error ?? null
    if (error === null) {
      this.#finish()
      return
    }
    this.#response?.release()
    const wasExecuted = inference.computeStartNs !== 0 || !this.#isSubmitting
    this.#http.respond(errorResponse(error, wasExecuted ? plainType : jsonType))
  }

  #finish(): void {
    const response = this.#response
    if (response === null || this.#responseCount !== 1) {
      response?.release()
      this.#http.respond(errorResponse(notASingleResponse(this.#responseCount), plainType))
      return
    }
    try {
      this.#respond(response)
    } catch (reason) {
      response.release()
      this.#http.respond(errorResponse(ServerError.from(reason), plainType))
    }
  }

  #respond(response: InferenceResponse): void {
    const parsed = this.#parsed as ParsedInfer
    const { head, parts, isBinary } = this.#endpoint.answers.write(response, {
      modelName: this.#version.name,
      modelVersion: this.#version.version,
      id: parsed.id,
      signature: this.#version.signature,
      outputs: parsed.outputs,
      binaryOutputDefault: parsed.binaryOutputDefault,
    })
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

/** No region can be registered yet, so none is ever found. */
function refuseSharedMemory(parsed: ParsedInfer): void {
  const reference =
    parsed.sharedMemoryInputs.values().next().value ??
    parsed.outputs.find((output) => output.sharedMemory !== null)?.sharedMemory
  if (reference === undefined || reference === null) return
  throw ServerError.withoutStack('NOT_FOUND', `Unable to find shared memory region: '${reference.region}'`)
}
