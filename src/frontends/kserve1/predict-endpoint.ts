// POST /v1/models/{model}:predict: rows in, one answer with as many rows out.

import type { Caller } from '../../access/caller.ts'
import type { ServerError } from '../../base/server-error.ts'
import type { ExchangeParts } from '../../exchange/inference-exchange.ts'
import type { RequestHead } from '../../model/request-origin.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { worded } from '../../model/worded-error.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { HttpExchange, sendText } from '../../ports/http/http-exchange.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import type { JsonOffload } from '../../ports/http/json-offload.ts'
import { isLargeListAnswer, largeRequestJsonBytes } from '../../ports/http/large-json.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import { readJsonRequestHead } from '../../protocol/json-request-head.ts'
import { readPredictRequest, type ParsedPredict } from '../../protocol/predict-request.ts'
import { writePredictResponse } from '../../protocol/predict-response.ts'
import type { RequestLimits } from '../../protocol/request-limits.ts'
import { absentModel } from './absent-model.ts'
import type { PredictTimes } from './predict-times.ts'

/** Checking each row costs as much as reading it, so a thread reads what is half as long as elsewhere. */
const largePredictBytes = largeRequestJsonBytes / 2

/** Short lists cost as much as long ones. Beyond this many elements the lists may be too many to print here. */
const mostElements = 32 * 1024

export type PredictParts = ExchangeParts & { readonly offload: JsonOffload }

/** `times`: where predictions are timed; null: nowhere. */
export function predictEndpoint(
  parts: PredictParts,
  options: HttpOptions,
  times: PredictTimes | null = null,
): RouteHandler {
  const limits = { ...options.requestLimits, maxInputBytes: options.maxInputBytes }
  return (http, modelName, modelVersion, caller) =>
    new PredictExchange({ parts, limits, times, modelName }, http, caller).begin(modelName, modelVersion)
}

type PredictSettings = {
  readonly parts: PredictParts
  readonly limits: RequestLimits
  readonly times: PredictTimes | null
  readonly modelName: string
}

class PredictExchange extends HttpExchange {
  readonly #askedModel: string
  readonly #offload: JsonOffload
  readonly #limits: RequestLimits
  readonly #times: PredictTimes | null
  #isColumnar = false
  /** 0 while nobody asks for times. */
  #begunNs = 0
  #readNs = 0

  constructor({ parts, limits, times, modelName }: PredictSettings, http: PortRequest, caller: Caller) {
    super(parts, http, caller, true)
    this.#offload = parts.offload
    this.#limits = limits
    this.#times = times
    this.#askedModel = modelName
    if (times !== null) this.#begunNs = parts.clock.nowNs()
  }

  /** A model that is known and does not serve is a 503 here, as the path that asks for its readiness has it. */
  protected override told(reason: unknown): ServerError {
    const error = super.told(reason)
    const isAbsent = this.signature === null && error.code === 'NOT_FOUND'
    return isAbsent ? super.told(absentModel(this.parts.engine, this.#askedModel)) : error
  }

  override head(): RequestHead {
    return readJsonRequestHead(this.http.body, this.http.body.length, false)
  }

  protected override read({ signature }: ModelVersion): void {
    if (signature.isDecoupled) {
      throw worded('unsupported', { text: "predict doesn't support models with decoupled transaction policy" })
    }
    this.requirePlainBody()
    const { body } = this.http
    const limits = this.#limits
    if (body.length <= largePredictBytes) this.#submitParsed(readPredictRequest(body, signature, limits))
    else {
      this.readLater<ParsedPredict>(
        (done) => this.#offload.read('predict', body, { headerLength: null, signature, limits }, done),
        (parsed) => this.#submitParsed(parsed),
      )
    }
  }

  #submitParsed({ inputs, isColumnar }: ParsedPredict): void {
    this.#isColumnar = isColumnar
    if (this.#times !== null) this.#readNs = this.parts.clock.nowNs()
    this.submit({ inputs })
  }

  protected override write(response: InferenceResponse): void {
    const then = this.#times === null ? sendText : this.#timed(this.#times)
    const { signature } = this.version
    const context = { signature, outputs: [], binaryOutputDefault: false, isColumnar: this.#isColumnar }
    if (isLargeListAnswer(response.outputs, context, mostElements))
      this.writeLater(this.#offload, 'predict', response, context, then)
    else then(this.answering, response, writePredictResponse(response, context))
  }

  #timed(times: PredictTimes): typeof sendText {
    const answeredNs = this.parts.clock.nowNs()
    return (http, response, encoded) => {
      sendText(http, response, encoded)
      times.note(this.modelName, [this.#begunNs, this.#readNs, answeredNs, this.parts.clock.nowNs()])
    }
  }
}
