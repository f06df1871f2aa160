import { assert } from '../base/assert.ts'
import { ServerError } from '../base/server-error.ts'
import type { Tensor } from '../tensor/tensor.ts'
import type { Batch } from './batch.ts'
import { InferenceResponse } from './inference-response.ts'
import type { RequestTrace, TraceOrigin, TraceStamp } from './request-trace.ts'

/** Custom parameters of a request or response. A bigint is an integer, a number a double: the wire tells them apart. */
export type ParameterValue = string | bigint | boolean | number
export type Parameters = ReadonlyMap<string, ParameterValue>

/** Where answers go: called for each of them, the last one marked final. It must not throw. */
export type ResponseSink = (response: InferenceResponse, request: InferenceRequest) => void

export type InferenceRequestFields = {
  modelName: string
  /** As the client wrote it; '' means "the version the policy picks". */
  modelVersion: string
  id: string
  inputs: Tensor[]
  /** Empty: all outputs of the model. */
  requestedOutputs: readonly string[]
  parameters: Parameters
  /** 0n or '' when the request belongs to no sequence. */
  correlationId: bigint | string
  isSequenceStart: boolean
  isSequenceEnd: boolean
  /** 0n: the model's default level. */
  priority: bigint
  /** 0n: none of its own. */
  timeoutUs: bigint
  sink: ResponseSink
}

const noParameters: Parameters = new Map()
const noNames: readonly string[] = []

/**
 * One inference on its way through the house. It ends exactly once: `respond` with a final response, `fail`, or the
 * final flag; what comes later is dropped and its memory released.
 */
export class InferenceRequest {
  readonly modelName: string
  readonly modelVersion: string
  readonly id: string
  inputs: Tensor[]
  requestedOutputs: readonly string[]
  readonly parameters: Parameters
  correlationId: bigint | string
  isSequenceStart: boolean
  isSequenceEnd: boolean
  readonly priority: bigint
  /** Grows less while it waits for its model to be loaded. */
  timeoutUs: bigint

  /** Rows, set by validation: the first dimension of the inputs when the model batches, else 0. */
  batchSize = 0

  // Times on the monotonic clock, 0 = not reached. Statistics, Metrics and Trace are computed from them.
  receivedNs = 0
  queueStartNs = 0
  computeStartNs = 0
  computeInputEndNs = 0
  computeOutputStartNs = 0
  computeEndNs = 0
  /** Of the latest response, and so of the last one in the end. */
  endNs = 0

  /** Set by a front end while tracing is on: the request may be picked, and these are its first moments. */
  arrivalStamps: readonly TraceStamp[] | null = null
  /** Set with them where the client said which trace the request is part of. */
  traceOrigin: TraceOrigin | null = null
  /** The trace that this request is part of, as W3C writes it (32 hexadecimal digits); '' where there is none to look up. */
  traceId = ''
  /** Set by the Engine on a request that was picked, and by `beginChild` on one that is made for such a request. */
  trace: RequestTrace | null = null

  /** Set by the response cache: answered from it, and the time that looking it up (and keeping the answer) took. */
  isCacheHit = false
  /** Equal for requests that ask one model the same; '' until somebody needed it. */
  contentKey = ''
  cacheNs = 0

  /** Responses so far, bare ends included. */
  responseCount = 0

  /** Set by whoever holds the request now (a queue, then an Instance), called at once when the client gives up. */
  onCancel: ((request: InferenceRequest) => void) | null = null
  /** Set by an Instance that can hold answers back: its reader has too much unread, or has caught up again. */
  onFlowChange: ((request: InferenceRequest) => void) | null = null
  /** Set by a scheduler that can run a request again; it gets what the model gives out as states. */
  onReschedule: ((outputs: readonly Tensor[]) => void) | null = null
  /** Set by the Engine: sees every response before the sink does, and may put another in its place. */
  intercept: ((response: InferenceResponse, request: InferenceRequest) => InferenceResponse) | null = null

  /** Set by a scheduler that filled up the inputs: cuts every response back to the request's own size. */
  trim: ((response: InferenceResponse) => InferenceResponse) | null = null

  /** Set by a scheduler that keeps answers in order: gets each response and hands it on with `deliver` when its time comes. */
  gate: ((response: InferenceResponse, request: InferenceRequest) => void) | null = null

  /** True from `reschedule` to the next execution: the Instance that had the request holds it no longer. */
  isRescheduled = false

  /** Set by the Engine: told once per Batch that executed, through one of its requests. */
  onExecuted: ((batch: Batch) => void) | null = null

  #sink: ResponseSink
  #isCancelled = false
  #isEnded = false
  #isPaused = false

  constructor(fields: Partial<InferenceRequestFields> & Pick<InferenceRequestFields, 'modelName' | 'inputs' | 'sink'>) {
    this.modelName = fields.modelName
    this.modelVersion = fields.modelVersion ?? ''
    this.id = fields.id ?? ''
    this.inputs = fields.inputs
    this.requestedOutputs = fields.requestedOutputs ?? noNames
    this.parameters = fields.parameters ?? noParameters
    this.correlationId = fields.correlationId ?? 0n
    this.isSequenceStart = fields.isSequenceStart ?? false
    this.isSequenceEnd = fields.isSequenceEnd ?? false
    this.priority = fields.priority ?? 0n
    this.timeoutUs = fields.timeoutUs ?? 0n
    this.#sink = fields.sink
  }

  get isCancelled(): boolean {
    return this.#isCancelled
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /** The client no longer waits. The holder decides what that means; the request still ends through `fail` or `respond`. */
  cancel(): void {
    if (this.#isCancelled || this.#isEnded) return
    this.#isCancelled = true
    this.onCancel?.(this)
  }

  /** The client reads slower than the model answers: an Instance that can waits before it sends more. */
  get isPaused(): boolean {
    return this.#isPaused
  }

  /** Called by a front end. What is on its way still comes, and a backend that cannot wait goes on sending. */
  setPaused(isPaused: boolean): void {
    if (this.#isPaused === isPaused || this.#isEnded) return
    this.#isPaused = isPaused
    this.onFlowChange?.(this)
  }

  respond(response: InferenceResponse): void {
    if (this.#isEnded) {
      response.release()
      return
    }
    if (response.isFinal) {
      this.#isEnded = true
      this.onCancel = null
      this.onFlowChange = null
    }
    const answer = this.trim === null ? response : this.trim(response)
    if (this.gate === null) this.deliver(answer)
    else this.gate(answer, this)
  }

  /** For the gate alone: everybody else answers with `respond`. */
  deliver(response: InferenceResponse): void {
    this.#sink(this.intercept === null ? response : this.intercept(response, this), this)
    if (this.trace !== null && response.isFinal) this.trace.release()
  }

  fail(error: ServerError): void {
    this.respond(InferenceResponse.failure(error))
  }

  /**
   * Called by an Instance in place of an answer, before its Batch is executed: the model wants the request again, in a
   * later Batch. The bytes of `outputs` need not outlive the call. Where the scheduler cannot do that the request fails.
   */
  reschedule(outputs: readonly Tensor[] = []): void {
    if (this.#isEnded) return
    const again = this.onReschedule
    if (again === null) {
      this.fail(ServerError.withoutStack('UNSUPPORTED', cannotReschedule(this.modelName)))
      return
    }
    this.onReschedule = null
    this.onCancel = null
    this.onFlowChange = null
    this.isRescheduled = true
    again(outputs)
  }

  /** Ends the request the way Triton ends a cancelled one: CANCELLED, with an empty message. */
  failCancelled(): void {
    assert(this.#isCancelled, 'only a cancelled request fails as cancelled')
    this.fail(ServerError.withoutStack('CANCELLED', ''))
  }

  /** Core's prefix of request errors: the client's id, or a stand-in when it gave none. */
  get errorPrefix(): string {
    return `[request id: ${this.id === '' ? '<id_unknown>' : this.id}] `
  }
}

const cannotReschedule = (model: string): string =>
  `model '${model}' asked for its request to be rescheduled, which needs sequence_batching { iterative_sequence: true }`
