// One call of the OpenAI API. It is one inference or several: a choice each, or a prompt each. An OpenAiExchange carries
// each inference through the server; the call puts their answers together.

import type { Caller } from '../../access/caller.ts'
import type { Clock } from '../../base/clock.ts'
import { jsonInSteps } from '../../base/json-in-steps.ts'
import type { Log } from '../../base/log.ts'
import { runInSlices } from '../../base/run-in-slices.ts'
import { ServerError } from '../../base/server-error.ts'
import type { ExchangeParts } from '../../exchange/inference-exchange.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { retryHeaders } from '../../ports/http/error-response.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import { openAiErrorBody, openAiStatus } from '../../protocol/openai/openai-problem.ts'
import { HttpResponse, jsonType } from '../../transport/http1/http-message.ts'
import type { ChatTemplates } from './chat-templates.ts'
import { OpenAiExchange, type CallOfExchange, type PreparedJob } from './openai-exchange.ts'
import type { TextAnswer } from './text-model.ts'

export type OpenAiParts = ExchangeParts & {
  readonly log: Log
  readonly clock: Clock
  readonly templates: ChatTemplates
}

/** Inferences of one call that are under way at once. The others follow when one ends. */
const mostAtOnce = 16

export abstract class OpenAiCall implements CallOfExchange {
  readonly parts: OpenAiParts
  readonly http: PortRequest
  readonly caller: Caller
  readonly #exchanges: OpenAiExchange[] = []
  #count = 0
  #started = 0
  #ended = 0
  #hasFailed = false
  /** Nobody waits any more: no further inference begins. */
  #isGivenUp = false

  constructor(parts: OpenAiParts, http: PortRequest, caller: Caller) {
    this.parts = parts
    this.http = http
    this.caller = caller
  }

  abstract readonly modelName: string
  readonly modelVersion: string = ''
  abstract readonly user: string
  abstract prepare(index: number, version: ModelVersion): PreparedJob | null
  abstract answered(index: number, answer: TextAnswer, isFinal: boolean): void
  /** Every inference has ended well. */
  protected abstract finished(): void
  /** Part of the answer has been sent: the error must follow it. */
  protected failedLate?(error: ServerError): boolean

  get hasFailed(): boolean {
    return this.#hasFailed
  }

  start(count: number): void {
    this.#count = count
    this.#startMore()
  }

  #startMore(): void {
    while (
      !this.#hasFailed &&
      !this.#isGivenUp &&
      this.#started < this.#count &&
      this.#started - this.#ended < mostAtOnce
    ) {
      const exchange = new OpenAiExchange(this, this.#started++)
      this.#exchanges.push(exchange)
      this.http.onDisconnect = () => this.#cancel()
      exchange.begin(this.modelName, this.modelVersion)
    }
  }

  #cancel(): void {
    this.#isGivenUp = true
    for (const exchange of this.#exchanges) exchange.cancel()
  }

  setPaused(isPaused: boolean): void {
    for (const exchange of this.#exchanges) exchange.setPaused(isPaused)
  }

  cancelAll(): void {
    this.#cancel()
  }

  /** The request through which the answer goes. */
  protected get answering(): PortRequest {
    return this.#exchanges[0]?.answerable ?? this.http
  }

  ended(): void {
    this.#ended++
    if (this.#hasFailed) return
    if (this.#ended === this.#count) this.finished()
    else this.#startMore()
  }

  failed(error: ServerError): void {
    if (this.#hasFailed) return
    this.#hasFailed = true
    const isTold = this.failedLate?.(error) ?? false
    if (!isTold) this.answering.respond(openAiErrorResponse(error))
    for (const exchange of this.#exchanges) exchange.cancel()
  }

  /** An answer may have millions of numbers: others are served while it is written. */
  respondJson(json: unknown): void {
    const { answering } = this
    runInSlices(
      this.parts.clock,
      jsonInSteps(json),
      () => !this.#isGivenUp,
      (error, pieces) => {
        if (pieces !== null) answering.respond(new HttpResponse(200, jsonType, pieces))
        else answering.respond(openAiErrorResponse(ServerError.from(error)))
      },
    )
  }
}

export const openAiErrorResponse = (error: ServerError): HttpResponse =>
  new HttpResponse(openAiStatus(error), jsonType, [Buffer.from(JSON.stringify(openAiErrorBody(error)))], {
    // OpenAI's clients try every 5xx again, unless they are told not to.
    headers: error.code === 'UNSUPPORTED' ? ['x-should-retry', 'false'] : retryHeaders(error),
  })
