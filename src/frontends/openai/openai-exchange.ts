import type { ServerError } from '../../base/server-error.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { RequestHead } from '../../model/request-origin.ts'
import { HttpExchange } from '../../ports/http/http-exchange.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import type { Caller } from '../../access/caller.ts'
import type { ExchangeParts } from '../../exchange/inference-exchange.ts'
import { textModelOf, type TextAnswer, type TextJob, type TextModel } from './text-model.ts'

/** What an inference of a call asks for. */
export type PreparedJob = { readonly job: TextJob; readonly chatRequest: unknown }
export type PrepareDone = (error: unknown, prepared: PreparedJob | null) => void

/** The call that an inference is made for. */
export interface CallOfExchange {
  readonly parts: ExchangeParts
  readonly http: PortRequest
  readonly caller: Caller
  /** The member `user` of the request. */
  readonly user: string
  readonly hasFailed: boolean
  /** What the inference asks of this version; null: `prepareLater` says it. Throws ServerError. */
  prepare(index: number, version: ModelVersion): PreparedJob | null
  prepareLater?(index: number, version: ModelVersion, done: PrepareDone): { cancel(): void }
  answered(index: number, answer: TextAnswer, isFinal: boolean): void
  ended(): void
  /** The first error ends the call. */
  failed(error: ServerError): void
}

/** One inference of a call. */
export class OpenAiExchange extends HttpExchange {
  readonly #call: CallOfExchange
  readonly #index: number
  #model: TextModel | null = null
  #hasFailed = false

  constructor(call: CallOfExchange, index: number) {
    super(call.parts, call.http, call.caller, false)
    this.#call = call
    this.#index = index
  }

  override head(): RequestHead {
    const { user } = this.#call
    const parameters = new Map(user === '' ? [] : [['user', user]])
    return { id: '', parameters, correlationId: 0n, isSequenceStart: false }
  }

  /** The request to answer, with the marks of a rollout. */
  get answerable(): PortRequest {
    return this.request === null ? this.http : this.answering
  }

  protected override read(version: ModelVersion): void {
    this.requirePlainBody()
    const prepared = this.#call.prepare(this.#index, version)
    if (prepared !== null) this.#submitJob(version, prepared)
    else {
      this.readLater<PreparedJob>(
        (done) => this.#call.prepareLater?.(this.#index, version, done) ?? { cancel: () => undefined },
        (value) => this.#submitJob(version, value),
      )
    }
  }

  #submitJob({ signature }: ModelVersion, { job, chatRequest }: PreparedJob): void {
    const model = textModelOf(signature)
    this.#model = model
    const outputs = model.outputs(job).map((name) => ({ name, sharedMemory: null }))
    this.submit({ inputs: model.inputs(job, chatRequest), outputs })
  }

  protected override write(response: InferenceResponse, isFinal: boolean): void {
    // The version may have changed: a rollout runs a request again elsewhere.
    const model = this.#model as TextModel
    const answer = response.isFlagOnly ? null : model.read(response)
    response.release()
    if (this.#call.hasFailed) return
    if (answer !== null) this.#call.answered(this.#index, answer, isFinal)
  }

  protected override fail(error: ServerError): void {
    this.#fail(error)
  }

  protected override refused(error: ServerError): void {
    this.#fail(error)
  }

  #fail(error: ServerError): void {
    if (this.#hasFailed) return
    this.#hasFailed = true
    this.#call.failed(error)
  }

  protected override ended(): void {
    if (!this.#hasFailed) this.#call.ended()
  }
}
