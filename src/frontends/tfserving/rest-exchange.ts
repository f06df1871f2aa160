// POST /v1/models/{model}:predict, :classify and :regress: one body in, one answer out.

import type { Caller } from '../../access/caller.ts'
import type { Cancel } from '../../base/clock.ts'
import { ServerError, type ErrorCode } from '../../base/server-error.ts'
import type { ExchangeParts } from '../../exchange/inference-exchange.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { worded } from '../../model/worded-error.ts'
import { BodyInflater, requestEncoding } from '../../ports/http/content-encoding.ts'
import { httpStatusOf, retryHeaders } from '../../ports/http/error-response.ts'
import { HttpExchange, sendText } from '../../ports/http/http-exchange.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import type { JsonOffload } from '../../ports/http/json-offload.ts'
import { isLargeListAnswer, largeRequestJsonBytes } from '../../ports/http/large-json.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import { tfservingJsonCodecs } from '../../ports/http/tfserving-json-codecs.ts'
import type { RequestLimits } from '../../protocol/request-limits.ts'
import type { TfMethod } from '../../protocol/tfserving/example-results.ts'
import { readJsonExamples } from '../../protocol/tfserving/example-json.ts'
import { requireTfPredict, type ParsedTfBody } from '../../protocol/tfserving/predict-request.ts'
import { tfErrorBody } from '../../protocol/tfserving/predict-response.ts'
import { HttpResponse, jsonType } from '../../transport/http1/http-message.ts'
import { notChosen, type ServingModels } from './serving-models.ts'

/** Reading and checking nested lists takes longer than reading flat ones, and examples take longer still. */
const largeBodyBytes: Readonly<Record<TfMethod, number>> = {
  predict: largeRequestJsonBytes / 2,
  classify: largeRequestJsonBytes / 8,
  regress: largeRequestJsonBytes / 8,
}

/** Beyond this many elements an answer may take too long to print here. */
const mostElements = 16 * 1024

/** TensorFlow Serving's table, which has other statuses than v2 for these. */
const tfStatusOf: Readonly<Record<ErrorCode, number>> = {
  ...httpStatusOf,
  UNKNOWN: 500,
  ALREADY_EXISTS: 409,
  CANCELLED: 499,
}

export const tfErrorResponse = (error: ServerError): HttpResponse =>
  new HttpResponse(tfStatusOf[error.code], jsonType, [tfErrorBody(error.message)], { headers: retryHeaders(error) })

export type RestParts = ExchangeParts & {
  readonly offload: JsonOffload
  readonly serving: ServingModels
  /** The longest that a request takes; 0: no limit. */
  readonly timeoutMs: number
}

type RestSettings = RestParts & { readonly limits: RequestLimits; readonly inflater: BodyInflater }

/** Where the bodies of each method go. */
export function restEndpoint(
  parts: RestParts,
  { requestLimits, maxInputBytes }: HttpOptions,
): (method: TfMethod) => RouteHandler {
  const limits = { ...requestLimits, maxInputBytes }
  const settings = { ...parts, limits, inflater: new BodyInflater(maxInputBytes) }
  return (method) => (http, name, version, caller) =>
    new RestExchange(settings, method, http, caller, name).start(version)
}

class RestExchange extends HttpExchange {
  readonly #settings: RestSettings
  readonly #method: TfMethod
  readonly #name: string
  #body: Buffer
  /** What an answer is written from. */
  #read: Omit<ParsedTfBody, 'inputs'> = { isColumnar: false, rows: 0, ranks: null }
  #asked = ''
  /** Takes the time limit back. Null: there is none, or it has passed. */
  #cancelLimit: Cancel | null = null
  /** The answer was that the request took too long. */
  #isLate = false
  /** The version is looked for: the body was inflated where it had to be. */
  #hasBegun = false

  constructor(settings: RestSettings, method: TfMethod, http: PortRequest, caller: Caller, name: string) {
    super(settings, http, caller, true)
    this.#settings = settings
    this.#method = method
    this.#name = name
    this.#body = http.body
  }

  start(version: string): void {
    const header = this.header('content-encoding')
    const encoding = header === null ? 'identity' : requestEncoding(header)
    this.#asked = version
    const { timeoutMs, clock } = this.#settings
    if (timeoutMs > 0) this.#cancelLimit = clock.after(timeoutMs * 1e6, () => this.#giveUp(timeoutMs))
    if (encoding === 'identity') this.#lookUp()
    else if (encoding === null) {
      this.refuse(
        worded('unsupported', { text: `Content-Encoding '${header}' is not supported, only gzip and deflate` }),
      )
    } else {
      this.inflate(this.#settings.inflater, (body) => {
        this.#body = body
        this.#lookUp()
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

  protected override read({ signature }: ModelVersion): void {
    if (signature.isDecoupled) {
      throw worded('unsupported', {
        text: `TensorFlow Serving's API doesn't support models with decoupled transaction policy`,
      })
    }
    const { limits, offload } = this.#settings
    const options = { headerLength: null, signature, limits }
    const body = this.#body
    const reader = this.#method === 'predict' ? 'tfPredict' : 'tfExamples'
    const submit = ({ inputs, isColumnar, rows, ranks }: ParsedTfBody): void => {
      this.#read = { isColumnar, rows, ranks }
      this.submit({ inputs })
    }
    if (body.length <= largeBodyBytes[this.#method]) submit(tfservingJsonCodecs.readers[reader](body, options))
    else this.readLater<ParsedTfBody>((done) => offload.read(reader, body, options, done), submit)
  }

  protected override refused(error: ServerError): void {
    if (this.#isAnswered()) return
    const isChosen = this.signature !== null || !this.#hasBegun
    this.http.respond(tfErrorResponse(isChosen ? error : this.#notChosen(error)))
  }

  /** TensorFlow Serving reads a body before it looks for the model, so what is wrong with the body is told first. */
  #notChosen(error: ServerError): ServerError {
    const body = this.#body
    const told = notChosen(error, this.#name, this.#asked)
    if (told === error || body.length > largeBodyBytes[this.#method]) return told
    try {
      if (this.#method === 'predict') requireTfPredict(body)
      else readJsonExamples(body)
      return told
    } catch (reason) {
      return ServerError.from(reason)
    }
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
    const { isColumnar, rows, ranks } = this.#read
    const context = {
      signature,
      outputs: [],
      binaryOutputDefault: false,
      isColumnar,
      rows,
      ranks,
      method: this.#method,
    }
    if (isLargeListAnswer(response.outputs, context, mostElements)) {
      this.writeLater(this.#settings.offload, 'tfAnswer', response, context, sendText)
    } else sendText(this.answering, response, tfservingJsonCodecs.writers.tfAnswer(response, context))
  }
}
