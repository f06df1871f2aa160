// POST …/infer: one body in, exactly one answer out. The order of the checks is Triton's, and so is the content type of
// an error: text/plain before the JSON is read and after execution, application/json in between.

import type { Caller } from '../../access/caller.ts'
import type { ServerError } from '../../base/server-error.ts'
import type { ExchangeParts } from '../../exchange/inference-exchange.ts'
import { turnedAway } from '../../exchange/turned-away.ts'
import type { RequestHead } from '../../model/request-origin.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import {
  BodyInflater,
  deflateBody,
  deflateParts,
  requestEncoding,
  responseEncoding,
} from '../../ports/http/content-encoding.ts'
import { errorResponse, httpStatusOf, messageResponse } from '../../ports/http/error-response.ts'
import { HttpExchange } from '../../ports/http/http-exchange.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import type { JsonOffload } from '../../ports/http/json-offload.ts'
import { isLargeAnswer, isLargeRequest } from '../../ports/http/large-json.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import { worded } from '../../model/worded-error.ts'
import type { ParsedInfer } from '../../protocol/parsed-infer.ts'
import type { EncodedInferResponse } from '../../protocol/infer-response-writer.ts'
import { readJsonRequestHead } from '../../protocol/json-request-head.ts'
import type { RequestLimits } from '../../protocol/request-limits.ts'
import { binaryType, headerOf, HttpResponse, jsonType, plainType } from '../../transport/http1/http-message.ts'
import { HeaderForwarding } from './header-forwarding.ts'
import { InferHeadMemo } from './infer-head-memo.ts'
import { parseHeaderLength } from '../../protocol/inference-header-length.ts'
import { ResponseHeadMemo, type OpenedInferResponse } from './response-head-memo.ts'

export class InferEndpoint {
  readonly parts: ExchangeParts
  readonly limits: RequestLimits
  readonly heads = new InferHeadMemo()
  readonly answers = new ResponseHeadMemo()
  readonly offload: JsonOffload
  readonly forwarding: HeaderForwarding | null
  readonly inflater: BodyInflater

  constructor(parts: ExchangeParts & { readonly offload: JsonOffload }, options: HttpOptions) {
    this.parts = parts
    this.offload = parts.offload
    this.limits = { ...options.requestLimits, maxInputBytes: options.maxInputBytes }
    this.inflater = new BodyInflater(options.maxInputBytes)
    this.forwarding = options.headerForwardPattern === '' ? null : new HeaderForwarding(options.headerForwardPattern)
  }

  /** HOT: once per inference. */
  readonly handle: RouteHandler = (http, modelName, modelVersion, caller) => {
    const { engine } = this.parts
    if (engine.isTurningAway && modelVersion === '') {
      const refusal = turnedAway(engine, modelName, caller)
      if (refusal !== null) {
        http.respond(errorResponse(refusal, plainType))
        return
      }
    }
    const encoding = requestEncoding(headerOf(http.headers, 'content-encoding'))
    const exchange = new InferExchange(this, http, caller)
    if (encoding === 'identity') exchange.begin(modelName, modelVersion)
    else exchange.beginEncoded(encoding !== null, modelName, modelVersion)
  }
}

const unsupportedMediaType = 415

const unsupportedEncoding = (status: number): HttpResponse =>
  messageResponse(status, 'Unsupported compression type', plainType, {
    headers: ['Accept-Encoding', 'gzip, deflate'],
  })

function requireOneAnswer({ signature }: ModelVersion): void {
  if (!signature.isDecoupled) return
  throw worded('decoupledHttp', {})
}

class InferExchange extends HttpExchange {
  readonly #endpoint: InferEndpoint
  #body: Buffer
  #errorType = plainType
  #parsed: ParsedInfer | null = null

  constructor(endpoint: InferEndpoint, http: PortRequest, caller: Caller) {
    super(endpoint.parts, http, caller, true)
    this.#endpoint = endpoint
    this.#body = http.body
  }

  /** Triton looks for the model before it looks at the encoding. */
  beginEncoded(isKnown: boolean, modelName: string, modelVersion: string): void {
    const { engine } = this.parts
    try {
      requireOneAnswer(engine.findVersion(modelName, modelVersion))
    } catch (reason) {
      this.refuse(reason)
      return
    }
    if (!isKnown) {
      engine.refusals.countAs('unsupported')
      this.http.respond(unsupportedEncoding(engine.wording.isTriton ? httpStatusOf.UNSUPPORTED : unsupportedMediaType))
      return
    }
    this.inflate(this.#endpoint.inflater, (body) => {
      this.#body = body
      this.begin(modelName, modelVersion)
    })
  }

  override head(): RequestHead {
    const length = Number(this.header('inference-header-content-length') ?? this.#body.length)
    return readJsonRequestHead(this.#body, Math.min(length, this.#body.length), false)
  }

  protected override read(version: ModelVersion): void {
    requireOneAnswer(version)
    const { heads, limits, offload } = this.#endpoint
    const body = this.#body
    const headerText = this.header('inference-header-content-length')
    const headerLength = headerText === null ? null : parseHeaderLength(headerText, body.length)
    this.#errorType = jsonType
    const options = { headerLength, signature: version.signature, limits }
    if (isLargeRequest(body.length, headerLength, version.signature)) {
      this.readLater<ParsedInfer>(
        (done) => offload.read('infer', body, options, done),
        (parsed) => this.#submitParsed(parsed, headerLength),
      )
    } else this.#submitParsed(heads.read(body, options), headerLength)
  }

  #submitParsed(read: ParsedInfer, headerLength: number | null): void {
    const isPlain = headerLength === 0 && !this.parts.engine.wording.isTriton && this.#wantsJson()
    const parsed = isPlain ? { ...read, binaryOutputDefault: false } : read
    this.#parsed = parsed
    const { forwarding } = this.#endpoint
    if (forwarding === null) {
      this.submit(parsed)
      return
    }
    const parameters = new Map(parsed.parameters)
    forwarding.forward(this.http.headers, parameters)
    this.submit({ ...parsed, parameters })
  }

  /** A body without JSON cannot ask for JSON outputs; its header can. Triton does not look at the header. */
  #wantsJson(): boolean {
    const accept = this.header('accept') ?? ''
    return accept.includes(jsonType) && !accept.includes(binaryType)
  }

  protected override refused(error: ServerError): void {
    this.http.respond(errorResponse(error, this.#errorType))
  }

  /** A request that reached no model has a JSON error, also when the validation of long inputs ended later. */
  protected override fail(error: ServerError): void {
    this.answering.respond(errorResponse(error, this.isUnscheduled ? jsonType : plainType))
  }

  protected override write(response: InferenceResponse): void {
    const { version } = this
    const parsed = this.#parsed as ParsedInfer
    const context = {
      modelName: this.modelName,
      modelVersion: version.version,
      id: parsed.id,
      signature: version.signature,
      outputs: parsed.outputs,
      binaryOutputDefault: parsed.binaryOutputDefault,
    }
    const http = this.answering
    if (isLargeAnswer(response.outputs, context))
      this.writeLater(this.#endpoint.offload, 'infer', response, context, send)
    else send(http, response, this.#endpoint.answers.write(response, context))
  }
}

function send(http: PortRequest, response: InferenceResponse, encoded: OpenedInferResponse): void {
  const { head, parts, isBinary, opening = null } = encoded
  const accepted = headerOf(http.headers, 'accept-encoding')
  const encoding = accepted === null ? 'identity' : responseEncoding(accepted)
  if (encoding !== 'identity') sendDeflated(http, response, encoded, encoding)
  else if (isBinary) {
    const headers = ['Inference-Header-Content-Length', String(head.length)]
    const release = (): void => response.release()
    http.respond(new HttpResponse(200, binaryType, [head, ...parts], { headers, release, opening }))
  } else {
    // The JSON text is a copy of the outputs, so their memory is not needed any more.
    response.release()
    http.respond(new HttpResponse(200, jsonType, [head]))
  }
}

/** Larger answers are compressed in place, a piece at a time. */
const joinBytes = 1024 * 1024

function sendDeflated(
  http: PortRequest,
  response: InferenceResponse,
  encoded: EncodedInferResponse,
  encoding: 'gzip' | 'deflate',
): void {
  const { head, parts, isBinary } = encoded
  let bytes = head.length
  for (const part of parts) bytes += part.length
  if (bytes > joinBytes) {
    sendLargeDeflated(http, response, encoded, encoding, bytes)
    return
  }
  // zlib needs one piece, which is a copy, so the model's memory is released at once.
  const plain = Buffer.concat([head, ...parts])
  response.release()
  const headers = lengthHeaders(encoded)
  deflateBody(plain, encoding, (deflated) => {
    if (deflated !== null) headers.push('Content-Encoding', encoding)
    http.respond(new HttpResponse(200, isBinary ? binaryType : jsonType, [deflated ?? plain], { headers }))
  })
}

/** What it becomes is at most about as large as it is. Where there is no room for that, the answer goes out as it is. */
function sendLargeDeflated(
  http: PortRequest,
  response: InferenceResponse,
  encoded: EncodedInferResponse,
  encoding: 'gzip' | 'deflate',
  bytes: number,
): void {
  const type = encoded.isBinary ? binaryType : jsonType
  const headers = lengthHeaders(encoded)
  const plain = [encoded.head, ...encoded.parts]
  const release = (): void => response.release()
  if (!http.memory.reserve(bytes)) {
    http.respond(new HttpResponse(200, type, plain, { headers, release }))
    return
  }
  const job = deflateParts(plain, encoding, (deflated) => {
    if (deflated === null) {
      http.respond(new HttpResponse(200, type, plain, { headers, release }))
      return
    }
    release()
    http.respond(new HttpResponse(200, type, deflated, { headers: [...headers, 'Content-Encoding', encoding] }))
  })
  http.onDisconnect = () => job.stop()
}

const lengthHeaders = ({ head, isBinary }: EncodedInferResponse): string[] =>
  isBinary ? ['Inference-Header-Content-Length', String(head.length)] : []
