// POST /v1/models/{model}:predict, :classify and :regress: one body in, one answer out.

import type { Caller } from '../../access/caller.ts'
import type { Cancel } from '../../base/clock.ts'
import type { ErrorCode, ServerError } from '../../base/server-error.ts'
import type { ExchangeParts } from '../../exchange/inference-exchange.ts'
import type { RequestHead } from '../../model/request-origin.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { worded } from '../../model/worded-error.ts'
import { BodyInflater, requestEncoding } from '../../ports/http/content-encoding.ts'
import { jsonResponse, retryHeaders } from '../../ports/http/error-response.ts'
import { HttpExchange } from '../../ports/http/http-exchange.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import type { JsonOffload } from '../../ports/http/json-offload.ts'
import { isLargeAnswer, largeRequestJsonBytes } from '../../ports/http/large-json.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import type { EncodedInferResponse } from '../../protocol/infer-response-writer.ts'
import type { RequestLimits } from '../../protocol/request-limits.ts'
import { readTfExamples } from '../../protocol/tfserving/example-inputs.ts'
import { writeTfResults } from '../../protocol/tfserving/example-results.ts'
import { readTfPredict, type ParsedTfPredict } from '../../protocol/tfserving/predict-request.ts'
import { tfErrorBody, writeTfPredict } from '../../protocol/tfserving/predict-response.ts'
import { elementCount } from '../../tensor/shape.ts'
import { HttpResponse, jsonType } from '../../transport/http1/http-message.ts'
import { servableNotFound, type ServingModels } from './serving-models.ts'

export type TfMethod = 'predict' | 'classify' | 'regress'

/** Reading and checking nested lists takes longer than reading flat ones, and examples take longer still. */
const largeBodyBytes: Readonly<Record<TfMethod, number>> = {
  predict: largeRequestJsonBytes / 2,
  classify: largeRequestJsonBytes / 8,
  regress: largeRequestJsonBytes / 8,
}

/** Beyond this many elements an answer may take too long to print here. */
const mostElements = 16 * 1024

/** TensorFlow Serving's table. */
const tfStatusOf: Readonly<Record<ErrorCode, number>> = {
  UNKNOWN: 500,
  INTERNAL: 500,
  NOT_FOUND: 404,
  INVALID_ARG: 400,
  UNAVAILABLE: 503,
  UNSUPPORTED: 501,
  ALREADY_EXISTS: 409,
  CANCELLED: 499,
  FORBIDDEN: 403,
  EXHAUSTED: 429,
}

export const tfErrorResponse = (error: ServerError): HttpResponse =>
  new HttpResponse(tfStatusOf[error.code], jsonType, [tfErrorBody(error.message)], { headers: retryHeaders(error) })

export type RestParts = ExchangeParts & {
  readonly offload: JsonOffload
  readonly serving: ServingModels
  /** The longest that a request takes; 0: no limit. */
  readonly timeoutMs: number
}

export class RestEndpoints {
  readonly parts: RestParts
  readonly limits: RequestLimits
  readonly inflater: BodyInflater

  constructor(parts: RestParts, options: HttpOptions) {
    this.parts = parts
    this.limits = { ...options.requestLimits, maxInputBytes: options.maxInputBytes }
    this.inflater = new BodyInflater(options.maxInputBytes)
  }

  handle(method: TfMethod, http: PortRequest, name: string, version: string, caller: Caller): void {
    const exchange = new RestExchange(this, method, http, caller, name)
    exchange.start(version)
  }
}

class RestExchange extends HttpExchange {
  readonly #endpoints: RestEndpoints
  readonly #method: TfMethod
  readonly #name: string
  #body: Buffer
  #isColumnar = false
  #rows = 0
  #asked = ''
  /** Takes the time limit back. Null: there is none, or it has passed. */
  #cancelLimit: Cancel | null = null
  /** The answer was that the request took too long. */
  #isLate = false
  /** The version is looked for: the body was inflated where it had to be. */
  #hasBegun = false

  constructor(endpoints: RestEndpoints, method: TfMethod, http: PortRequest, caller: Caller, name: string) {
    super(endpoints.parts, http, caller, true)
    this.#endpoints = endpoints
    this.#method = method
    this.#name = name
    this.#body = http.body
  }

  start(version: string): void {
    const header = this.header('content-encoding')
    const encoding = header === null ? 'identity' : requestEncoding(header)
    this.#asked = version
    const { timeoutMs, clock } = this.#endpoints.parts
    if (timeoutMs > 0) this.#cancelLimit = clock.after(timeoutMs * 1e6, () => this.#giveUp(timeoutMs))
    if (encoding === 'identity') this.#lookUp()
    else if (encoding === null) {
      this.refuse(
        worded('unsupported', { text: `Content-Encoding '${header}' is not supported, only gzip and deflate` }),
      )
    } else {
      this.#endpoints.inflater.inflate(this.#body, this.http.memory, (error, body) => {
        this.#body = body
        if (error === null) this.#lookUp()
        else this.refuse(error)
      })
    }
  }

  #giveUp(timeoutMs: number): void {
    this.#isLate = true
    this.#cancelLimit = null
    const text = `the request took more than ${timeoutMs} ms, the limit of --tfserving-timeout-ms (--rest_api_timeout_in_ms)`
    this.answering.respond(new HttpResponse(504, jsonType, [tfErrorBody(text)]))
    this.cancel()
  }

  /** True where the client has an answer. */
  #isAnswered(): boolean {
    this.#cancelLimit?.()
    this.#cancelLimit = null
    return this.#isLate
  }

  #lookUp(): void {
    if (this.#isLate) return
    this.#hasBegun = true
    this.begin(this.#name, this.#asked)
  }

  /** The protocol has no ids, parameters or sequences. */
  override head(): RequestHead {
    return { id: '', parameters: new Map(), correlationId: 0n, isSequenceStart: false }
  }

  protected override read({ signature }: ModelVersion): void {
    if (signature.isDecoupled) {
      throw worded('unsupported', {
        text: `TensorFlow Serving's API doesn't support models with decoupled transaction policy`,
      })
    }
    const { limits, parts } = this.#endpoints
    const options = { headerLength: null, signature, limits }
    const body = this.#body
    const isLarge = body.length > largeBodyBytes[this.#method]
    if (this.#method === 'predict') {
      if (!isLarge) this.#submitPredict(readTfPredict(body, signature, limits))
      else {
        this.readLater<ParsedTfPredict>(
          (done) => parts.offload.read('tfPredict', body, options, done),
          (parsed) => this.#submitPredict(parsed),
        )
      }
    } else if (!isLarge) this.#submitExamples(readTfExamples(body, signature, limits.maxInputBytes))
    else {
      this.readLater<ReturnType<typeof readTfExamples>>(
        (done) => parts.offload.read('tfExamples', body, options, done),
        (parsed) => this.#submitExamples(parsed),
      )
    }
  }

  #submitPredict({ inputs, isColumnar }: ParsedTfPredict): void {
    this.#isColumnar = isColumnar
    this.submit({ inputs })
  }

  #submitExamples({ inputs, rows }: ReturnType<typeof readTfExamples>): void {
    this.#rows = rows
    this.submit({ inputs })
  }

  protected override refused(error: ServerError): void {
    // No version was chosen: TensorFlow Serving knows one reason for that.
    const isLookup = error.code === 'NOT_FOUND' || error.code === 'INVALID_ARG'
    const isMissing = this.signature === null && this.#hasBegun && isLookup
    if (this.#isAnswered()) return
    this.http.respond(tfErrorResponse(isMissing ? servableNotFound(this.#name, this.#asked) : error))
  }

  protected override fail(error: ServerError): void {
    if (this.#isAnswered()) return
    this.answering.respond(tfErrorResponse(error))
  }

  protected override write(response: InferenceResponse): void {
    if (this.#isAnswered()) {
      response.release()
      return
    }
    const { signature } = this.version
    const printed = { signature, outputs: [], binaryOutputDefault: false }
    const elements = response.outputs.reduce((sum, { shape }) => sum + elementCount(shape), 0)
    const isLarge = elements > mostElements || isLargeAnswer(response.outputs, printed)
    const { offload } = this.#endpoints.parts
    const method = this.#method
    if (method === 'predict') {
      const context = { ...printed, isColumnar: this.#isColumnar }
      if (isLarge) this.writeLater(offload, 'tfPredict', response, context, send)
      else send(this.answering, response, writeTfPredict(response, context))
      return
    }
    const context = { ...printed, method, rows: this.#rows }
    if (isLarge) this.writeLater(offload, 'tfResults', response, context, send)
    else send(this.answering, response, { head: writeTfResults(response, context), parts: [], isBinary: false })
  }
}

function send(http: PortRequest, response: InferenceResponse, { head }: EncodedInferResponse): void {
  response.release()
  http.respond(jsonResponse(head))
}
