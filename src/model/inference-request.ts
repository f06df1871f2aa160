import { anonymous, type Caller } from '../access/caller.ts'
import { assert } from '../base/assert.ts'
import { ServerError } from '../base/server-error.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { answerStages, type AnswerStageName } from './answer-stages.ts'
import { InferenceResponse } from './inference-response.ts'
import type { Parameters } from './parameters.ts'
import type { TraceOrigin, TraceStamp } from './trace-stamp.ts'

/** Where answers go: called for each of them, the last one marked final. It must not throw. */
type ResponseSink = (response: InferenceResponse, request: InferenceRequest) => void

/**
 * Whoever has the request now: a queue, then an Instance. A request has one holder at a time; `handOver` names the next
 * one. The holder is told what the client does, until the request ends or goes to another holder.
 */
export interface RequestHolder {
  /** The client no longer waits. The holder ends the request, now or when it can. */
  onCancel(request: InferenceRequest): void
  /** The client reads too slowly (`isPaused`), or has caught up again. For a holder that can hold answers back. */
  onFlowChange?(request: InferenceRequest): void
}

/** A scheduler that runs a request again when the model asks for that. */
export interface RequestLender {
  /** `outputs` are what the model gives out as states. Their bytes need not outlive the call. */
  takeBack(request: InferenceRequest, outputs: readonly Tensor[]): void
}

/** A stage on an answer's way to the client. `AnswerStageName` has the stages in their order. */
export interface AnswerStage {
  /** The answer as the next stage gets it. Null: the stage keeps the answer, and calls `passOn` with it later. */
  pass(response: InferenceResponse, request: InferenceRequest): InferenceResponse | null
  /** The stages behind this one have the answer, or one of them keeps it. */
  passed?(response: InferenceResponse, request: InferenceRequest): void
}

/** The version that admitted a request. It counts the answers and executions of the request. */
export interface RequestAccount {
  /** The last stage before the sink. */
  answered(response: InferenceResponse, request: InferenceRequest): InferenceResponse
  /** Once per Batch that executed, through one of its requests. */
  executed(batch: ExecutedBatch): void
}

export type ExecutedBatch = { readonly requests: readonly InferenceRequest[]; readonly batchSize: number }

/** What is written down about one request that was picked for tracing. */
export interface RequestTrace {
  /** What a model passes on with calls of its own; null where there is no trace that others could join. */
  readonly context: TraceOrigin | null
  /** The request was checked and is handed to its scheduler. `isComposed`: other models compute for it. */
  admitted(request: InferenceRequest, version: string, isComposed: boolean): void
  /** Before the front end sees it; its outputs are still in memory. */
  responded(request: InferenceRequest, response: InferenceResponse): void
  stamp(name: string, ns: number): void
  /** `child` is made on behalf of this request, as a step of an ensemble is: it becomes part of the trace. */
  beginChild(child: InferenceRequest): void
  /** Something of the request is still to be stamped: every `retain` needs its `release`, and the last one ends the trace. */
  retain(): void
  release(): void
}

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
  caller: Caller
  sink: ResponseSink
}

/** What is left out, or undefined, has its default. */
export type InferenceRequestInit = Pick<InferenceRequestFields, 'modelName' | 'inputs' | 'sink'> & {
  readonly [K in keyof InferenceRequestFields]?: InferenceRequestFields[K] | undefined
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
  /** Who asked, as Admission found out. */
  readonly caller: Caller
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

  #holder: RequestHolder | null = null
  #lender: RequestLender | null = null
  #account: RequestAccount | null = null
  /** By place in `answerStages`; null while there is none, as for most requests. */
  #stages: (AnswerStage | null)[] | null = null
  #isRescheduled = false
  #sink: ResponseSink
  #isCancelled = false
  #isEnded = false
  #isPaused = false

  constructor(fields: InferenceRequestInit) {
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
    this.caller = fields.caller ?? anonymous
    this.#sink = fields.sink
  }

  get isCancelled(): boolean {
    return this.#isCancelled
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /** A version has taken the request: what failed before was refused and never counted as an inference. */
  get isAdmitted(): boolean {
    return this.#account !== null
  }

  /** True from `reschedule` to the next execution: the Instance that had the request holds it no longer. */
  get isRescheduled(): boolean {
    return this.#isRescheduled
  }

  /** Called by the version that takes the request, once. */
  admit(account: RequestAccount): void {
    this.#account = account
  }

  /** `holder` has the request from now on, and nobody else. Null: the request is on its way to its next holder. */
  handOver(holder: RequestHolder | null): void {
    this.#holder = holder
  }

  /** Called by a scheduler before an Instance gets the request: `lender` takes it back when the model wants it again. */
  lend(lender: RequestLender): void {
    this.#lender = lender
    this.#isRescheduled = false
  }

  /** Puts a stage into its place on the way of every answer; null takes it out again. */
  setStage(name: AnswerStageName, stage: AnswerStage | null): void {
    this.#stages ??= answerStages.map(() => null)
    this.#stages[answerStages.indexOf(name)] = stage
  }

  /** The client no longer waits. The holder decides what that means; the request still ends through `fail` or `respond`. */
  cancel(): void {
    if (this.#isCancelled || this.#isEnded) return
    this.#isCancelled = true
    this.#holder?.onCancel(this)
  }

  /** The client reads slower than the model answers: an Instance that can waits before it sends more. */
  get isPaused(): boolean {
    return this.#isPaused
  }

  /** Called by a front end. What is on its way still comes, and a backend that cannot wait goes on sending. */
  setPaused(isPaused: boolean): void {
    if (this.#isPaused === isPaused || this.#isEnded) return
    this.#isPaused = isPaused
    this.#holder?.onFlowChange?.(this)
  }

  respond(response: InferenceResponse): void {
    if (this.#isEnded) {
      response.release()
      return
    }
    if (response.isFinal) {
      this.#isEnded = true
      this.#holder = null
      this.#lender = null
    }
    this.#passFrom(0, response)
  }

  /** Called by a stage that kept an answer: the stages behind it get the answer now. */
  passOn(name: AnswerStageName, response: InferenceResponse): void {
    this.#passFrom(answerStages.indexOf(name) + 1, response)
  }

  #passFrom(place: number, response: InferenceResponse): void {
    const stages = this.#stages
    if (stages !== null) {
      for (let i = place; i < stages.length; i++) {
        const stage = stages[i] ?? null
        if (stage === null) continue
        const answer = stage.pass(response, this)
        if (answer !== null) this.#passFrom(i + 1, answer)
        stage.passed?.(response, this)
        return
      }
    }
    this.#sink(this.#account === null ? response : this.#account.answered(response, this), this)
    if (this.trace !== null && response.isFinal) this.trace.release()
  }

  /** Called by a Batch that executed. False: no version has admitted this request, as one that only fills up a batch. */
  tellExecuted(batch: ExecutedBatch): boolean {
    this.#account?.executed(batch)
    return this.#account !== null
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
    const lender = this.#lender
    if (lender === null) {
      this.fail(ServerError.withoutStack('UNSUPPORTED', cannotReschedule(this.modelName)))
      return
    }
    this.#lender = null
    this.#holder = null
    this.#isRescheduled = true
    lender.takeBack(this, outputs)
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
