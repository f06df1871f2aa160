// /predictions/{model}: a body or a form in, the bytes of the handler out, in one piece or in several.

import { randomUUID } from 'node:crypto'
import type { Caller } from '../../access/caller.ts'
import type { Log } from '../../base/log.ts'
import { lastOf } from '../../base/run-in-slices.ts'
import type { ServerError } from '../../base/server-error.ts'
import type { ExchangeParts } from '../../exchange/inference-exchange.ts'
import { slicedReading } from '../../exchange/sliced-reading.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { RequestHead } from '../../model/request-origin.ts'
import { HttpExchange } from '../../ports/http/http-exchange.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import { torchAnswer, torchTensors, type TorchAnswer } from '../../protocol/torchserve/torch-request.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { fieldValue, HttpResponse, type ResponseStream } from '../../transport/http1/http-message.ts'
import { answerError, torchserveHeaders } from './torchserve-answers.ts'
import type { TorchserveCounts } from './torchserve-counts.ts'

export type PredictionParts = ExchangeParts & { readonly log: Log; readonly counts: TorchserveCounts }

/** Names and values. */
type HeaderPairs = readonly (readonly [string, string])[]

/** What the handler gets beside what the client sent as headers and body. */
export type HandlerExtras = { readonly headers?: HeaderPairs; readonly query?: HeaderPairs }

/** A longer body may be a form whose boundary takes long to find. */
const readAtOnceBytes = 256 * 1024

/** The end of an answer in pieces. */
const noPiece: TorchAnswer = { head: { status: 200, contentType: '', headers: [] }, body: Buffer.alloc(0) }

const texts = new WeakMap<readonly string[], { readonly path: string; readonly text: string }>()

export class PredictionExchange extends HttpExchange {
  /** Headers that the handler sees beside those of the client. */
  readonly #extraHeaders: HeaderPairs
  readonly #query: HeaderPairs
  readonly #counts: TorchserveCounts
  readonly #id = randomUUID()
  #stream: ResponseStream | null = null

  /** `query`: its parameters are fields of the request. */
  constructor(parts: PredictionParts, http: PortRequest, caller: Caller, { headers = [], query = [] }: HandlerExtras) {
    super(parts, http, caller, true)
    this.#extraHeaders = headers
    this.#query = query
    this.#counts = parts.counts
  }

  override head(): RequestHead {
    return { id: this.#id, parameters: new Map(), correlationId: 0n, isSequenceStart: false }
  }

  protected override read({ signature, config }: ModelVersion): void {
    this.requirePlainBody()
    const { body } = this.http
    this.answersOnce = !signature.isDecoupled
    this.reserve(body.length)
    const contentType = this.header('content-type') ?? ''
    const request = { id: this.#id, headers: this.#headersText(), contentType, body, query: this.#query }
    const steps = torchTensors(request, config.maxBatchSize > 0)
    const submit = (inputs: Tensor[]): void => this.submit({ id: this.#id, inputs })
    if (body.length <= readAtOnceBytes) submit(lastOf(steps))
    else this.readLater<Tensor[]>(slicedReading(this.parts.clock, steps), submit)
  }

  /** A client that repeats its head has the same headers, the same object, in each request. */
  #headersText(): string {
    const { headers } = this.http
    const path = this.#extraHeaders.join()
    const last = texts.get(headers)
    if (last?.path === path) return last.text
    const pairs: (readonly [string, string])[] = []
    for (let i = 0; i < headers.length; i += 2) pairs.push([headers[i] as string, fieldValue(headers[i + 1] as string)])
    const text = JSON.stringify(Object.fromEntries([...pairs, ...this.#extraHeaders]))
    texts.set(headers, { path, text })
    return text
  }

  protected override refused(error: ServerError): void {
    this.#counts.answered(answerError(this.http, error))
  }

  protected override fail(error: ServerError): void {
    if (this.#stream === null) this.#counts.answered(answerError(this.answering, error))
    // The client has read a part of the answer: only a broken connection tells it that this was not all.
    else this.#stream.abort()
  }

  protected override overrun(): void {
    this.#stream?.abort()
  }

  protected override write(response: InferenceResponse, isFinal: boolean): void {
    if (this.answersOnce) this.#writeOnce(response)
    else this.#writePiece(response, isFinal)
  }

  #writeOnce(response: InferenceResponse): void {
    const { head, body } = torchAnswer(response)
    const { status, contentType } = head
    this.#counts.answered(status)
    const headers = [...head.headers, ...torchserveHeaders(this.#id)]
    const options = { headers, release: () => response.release(), closesConnection: status >= 400 }
    this.answering.respond(new HttpResponse(status, contentType, [body], options))
  }

  #writePiece(response: InferenceResponse, isFinal: boolean): void {
    const { head, body } = response.isFlagOnly ? noPiece : torchAnswer(response)
    this.#stream ??= this.#open(head, isFinal ? [] : ['ts_stream_next', 'true'])
    if (body.length > 0) this.sendPiece(this.#stream, Buffer.from(body))
    response.release()
    if (isFinal) this.#stream.end()
  }

  #open({ status, contentType, headers: own }: TorchAnswer['head'], more: readonly string[]): ResponseStream {
    this.#counts.answered(status)
    const headers = [...own, ...more, ...torchserveHeaders(this.#id)]
    return this.answering.stream(new HttpResponse(status, contentType, [], { headers }))
  }
}
