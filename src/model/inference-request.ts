import { anonymous, type Caller } from '../access/caller.ts'
import { assert } from '../base/assert.ts'
import { ServerError } from '../base/server-error.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { answerStages, type AnswerStageName } from './answer-stages.ts'
import { idPrefix } from './id-prefix.ts'
import { InferenceResponse } from './inference-response.ts'
import type { Parameters } from './parameters.ts'
import type { QueueRefusal } from './queue-report.ts'
import type { RequestOrigin } from './request-origin.ts'
import type { TraceOrigin, TraceStamp } from './trace-stamp.ts'

/** Receives every answer of a request; the last answer is marked final. A sink must not throw. */
type ResponseSink = (response: InferenceResponse, request: InferenceRequest) => void

/**
 * The part of the server that has the request now: a queue, then an Instance. A request has one holder at a time;
 * `handOver` names the next one. The holder learns what the client does, until the request ends or is handed over.
 */
export interface RequestHolder {
  /** The client no longer waits. The holder ends the request, now or when it can. */
  onCancel(request: InferenceRequest): void
  /** The client reads too slowly (`isPaused`), or has caught up again. For holders that can delay answers. */
  onFlowChange?(request: InferenceRequest): void
}

/** A scheduler that runs a request again: when the model asks for that, or when the first run failed. */
export interface RequestLender {
  /** `outputs` are the states that the model returned. Their bytes may be reused after the call. Absent: it cannot do that. */
  takeBack?(request: InferenceRequest, outputs: readonly Tensor[]): void
  /** True: the request does not end with this error and runs again. Absent: every error ends its request. */
  takeFailure?(request: InferenceRequest, response: InferenceResponse): boolean
}

/** A stage on an answer's way to the client. `AnswerStageName` has the stages in their order. */
export interface AnswerStage {
  /** The answer as the next stage gets it. Null: the stage keeps the answer, and calls `passOn` with it later. */
  pass(response: InferenceResponse, request: InferenceRequest): InferenceResponse | null
  /** The stages behind this one have the answer, or one of them keeps it. */
  passed?(response: InferenceResponse, request: InferenceRequest): void
}

/** Follows a request to its end, and may run it again elsewhere. */
export interface RequestWatch {
  /** Where the answer comes from: `<rollout>/<arm>/<version>`; '' where that is not to be told. */
  readonly variant: string
  /**
   * Gets every answer before the client does. False: the client does not get this answer, because the request runs again.
   * HOT.
   */
  answered(response: InferenceResponse, request: InferenceRequest): boolean
}

/** The version that admitted a request. It counts the answers and executions of the request. */
export interface RequestAccount {
  /** The last stage before the sink. */
  answered(response: InferenceResponse, request: InferenceRequest): InferenceResponse
  /** Once per Batch that executed, through one of its requests. */
  executed(batch: ExecutedBatch): void
}

export type ExecutedBatch = {
  readonly requests: readonly InferenceRequest[]
  readonly batchSize: number
  /** 0 where nobody has read the clock. */
  readonly executedNs: number
}

/** The trace of one request that was picked for tracing. */
export interface RequestTrace {
  /** The trace context that a model passes on with its own calls; null when other programs cannot join the trace. */
  readonly context: TraceOrigin | null
  /** The request was checked and is handed to its scheduler. `isComposed`: other models compute for it. */
  admitted(request: InferenceRequest, version: string, isComposed: boolean): void
  /** Called before the front end gets the response; the outputs are still in memory. */
  responded(request: InferenceRequest, response: InferenceResponse): void
  stamp(name: string, ns: number): void
  /** `child` is a request that serves this request, as a step of an ensemble: it becomes part of the trace. */
  beginChild(child: InferenceRequest): void
  /** More stamps will come. Every `retain` needs its `release`, and the last `release` ends the trace. */
  retain(): void
  release(): void
}

export type InferenceRequestFields = {
  modelName: string
  /** The version as the client wrote it; '' means "the version that the policy picks". */
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
  /** 0n: the request has no timeout of its own. */
  timeoutUs: bigint
  caller: Caller
  sink: ResponseSink
}

/**
 * RECEIVED: no version has taken the request. A request that fails here was refused, and no model counts it.
 * ADMITTED: a version has taken the request, and its scheduler has it.
 * EXECUTING: an Instance has begun to compute the request.
 */
type RequestStage = 'RECEIVED' | 'ADMITTED' | 'EXECUTING'

/** A field that is left out or undefined has its default. */
export type InferenceRequestInit = Pick<InferenceRequestFields, 'modelName' | 'inputs' | 'sink'> & {
  readonly [K in keyof InferenceRequestFields]?: InferenceRequestFields[K] | undefined
}

const noParameters: Parameters = new Map()
const noNames: readonly string[] = []

/**
 * One inference on its way through the server. A request ends exactly once: by a final response, an error (`fail`) or
 * the final flag. A response that comes after the end is dropped and its memory released.
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
  readonly isSequenceEnd: boolean
  readonly priority: bigint
  /** Who sent the request, as Admission found out. */
  readonly caller: Caller
  /** Becomes smaller while the request waits until its model is loaded. */
  timeoutUs: bigint

  /**
   * Outputs that go to memory of a GPU, by name: device-bytes.ts knows where. Null: none, as for nearly every request. The
   * Instance may put an output there; who writes the answer does it otherwise.
   */
  outputPlaces: ReadonlyMap<string, Uint8Array> | null = null

  /** The GPU in whose memory inputs lie, where an Instance must be that reads them there. Null: all are in memory of the host. */
  inputDevice: number | null = null

  /** Rows, set by validation: the first dimension of the inputs when the model batches, else 0. */
  batchSize = 0

  // Times on the monotonic clock, 0 = not reached. Statistics, Metrics and Trace are computed from these times.
  receivedNs = 0
  queueStartNs = 0
  computeStartNs = 0
  computeInputEndNs = 0
  computeOutputStartNs = 0
  computeEndNs = 0
  /** True: a language model wrote an answer. Its input is the prompt, which is computed until computeInputEndNs. */
  isGeneration = false
  /** The time of the latest response; after the end, the time of the last response. */
  endNs = 0

  /** The first moments of the request. The exchange sets them while tracing is on, for the case that it is picked. */
  arrivalStamps: readonly TraceStamp[] | null = null
  /** Set with `arrivalStamps` when the client named the trace that the request is part of. */
  traceOrigin: TraceOrigin | null = null
  /** The W3C id of the trace that this request is part of (32 hexadecimal digits); '': there is no trace to look up. */
  traceId = ''
  /** Set by the Engine on a request that was picked for tracing, and by `beginChild` on the requests made for it. */
  trace: RequestTrace | null = null

  /** The call that the request comes from, for requests that are made in its place; null: there is none. */
  origin: RequestOrigin | null = null
  /** Monotonic: when the client stops waiting for the answer; 0: it did not say. */
  deadlineNs = 0
  /** A model or an ensemble sent the request, for one that was admitted. */
  isInner = false
  /** Why a queue refused the request; '' when none did. */
  refusal: QueueRefusal | '' = ''
  /** Nobody waits for the answer: it is compared with another one. */
  isShadow = false
  /** Of `model_warmup`: no client waits for it. */
  isWarmUp = false
  /** Follows the request for a rollout of its model; null: the request is like any other. */
  watch: RequestWatch | null = null

  /** The response cache gave the answer. `cacheNs` is the time of the lookup and of storing an answer. */
  isCacheHit = false
  /** Equal for requests with equal content to one model; '' until a scheduler needed the key. */
  contentKey = ''
  cacheNs = 0

  /** The number of responses so far, final flags without a result included. */
  responseCount = 0

  #holder: RequestHolder | null = null
  #lender: RequestLender | null = null
  #account: RequestAccount | null = null
  /** Stages by their index in `answerStages`; null while there is no stage, as for most requests. */
  #stages: (AnswerStage | null)[] | null = null
  #isRescheduled = false
  #sink: ResponseSink
  #isCancelled = false
  #isEnded = false
  #isPaused = false
  #isLeaving = false
  /** The request that runs in place of this one. */
  #successor: InferenceRequest | null = null

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

  /** How far the request has come. The end of the request does not change its stage. */
  get stage(): RequestStage {
    if (this.computeStartNs !== 0) return 'EXECUTING'
    return this.#account === null ? 'RECEIVED' : 'ADMITTED'
  }

  /** True from `reschedule`, or a failure that the lender took, to the next execution. In this time no Instance has the request. */
  get isRescheduled(): boolean {
    return this.#isRescheduled
  }

  /** The version that takes the request calls this once. */
  admit(account: RequestAccount): void {
    this.#account = account
  }

  /** From now on `holder` alone has the request. Null: the request is on its way to its next holder. */
  handOver(holder: RequestHolder | null): void {
    this.#holder = holder
  }

  /**
   * A scheduler calls this before an Instance gets the request. `lender` takes it back on `reschedule`, and may do so on a
   * failure. Null: the next failure ends the request, because another run cannot help.
   */
  lend(lender: RequestLender | null): void {
    this.#lender = lender
    this.#isRescheduled = false
  }

  /** Adds a stage that every answer of this request passes; null removes the stage. */
  setStage(name: AnswerStageName, stage: AnswerStage | null): void {
    this.#stages ??= answerStages.map(() => null)
    this.#stages[answerStages.indexOf(name)] = stage
  }

  /** The client no longer waits. The holder decides when the request ends; it ends through `fail` or `respond`. */
  cancel(): void {
    this.#successor?.cancel()
    // Nobody waits any more for the run that would have come after this one.
    this.#isLeaving = false
    if (this.#isCancelled || this.#isEnded) return
    this.#isCancelled = true
    this.#holder?.onCancel(this)
  }

  /**
   * Takes the request out of the queue in which it waits, so that its watch can run it elsewhere. It ends here as a cancelled
   * request does. False: the request has begun or has ended, and stays.
   */
  leaveQueue(): boolean {
    const holder = this.#holder
    if (holder === null || this.#isEnded || this.#isCancelled || this.stage !== 'ADMITTED') return false
    this.#isLeaving = true
    this.#isCancelled = true
    holder.onCancel(this)
    return true
  }

  /** True from `leaveQueue` on, as long as the client waits. */
  get isLeaving(): boolean {
    return this.#isLeaving
  }

  /** The client reads more slowly than the model answers. An Instance that is able to wait sends no more for now. */
  get isPaused(): boolean {
    return this.#isPaused
  }

  /** A front end calls this. Answers on their way still arrive, and a backend that cannot wait goes on sending. */
  setPaused(isPaused: boolean): void {
    this.#successor?.setPaused(isPaused)
    if (this.#isPaused === isPaused || this.#isEnded) return
    this.#isPaused = isPaused
    this.#holder?.onFlowChange?.(this)
  }

  respond(response: InferenceResponse): void {
    if (this.#isEnded) {
      response.release()
      return
    }
    if (response.error !== null && this.#lender?.takeFailure?.(this, response) === true) {
      this.#leaveInstance()
      return
    }
    if (response.isFinal) {
      this.#isEnded = true
      this.#holder = null
      this.#lender = null
    }
    this.#passFrom(0, response)
  }

  /** A stage that kept an answer calls this: the stages after it get the answer now. */
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
    const answer = this.#account === null ? response : this.#account.answered(response, this)
    if (this.watch === null || this.watch.answered(answer, this)) this.#sink(answer, this)
    if (this.trace !== null && response.isFinal) this.trace.release()
  }

  /** A Batch that executed calls this. False: no version admitted this request, because it only fills up a batch. */
  tellExecuted(batch: ExecutedBatch): boolean {
    this.#account?.executed(batch)
    return this.#account !== null
  }

  /**
   * A request with the same content that answers to the same client. The client cancels and pauses that one from now on, and
   * this one must not answer any more. `inputs` are those of before the version reshaped them.
   */
  again(inputs: Tensor[], timeoutUs: bigint): InferenceRequest {
    const { modelName, modelVersion, id, requestedOutputs, parameters, priority, caller } = this
    const content = { modelName, modelVersion, id, inputs, requestedOutputs, parameters }
    const next = new InferenceRequest({ ...content, priority, timeoutUs, caller, sink: this.#sink })
    next.receivedNs = this.receivedNs
    next.origin = this.origin
    next.trace = this.trace
    this.trace?.retain()
    this.#successor = next
    if (this.#isPaused) next.setPaused(true)
    return next
  }

  fail(error: ServerError): void {
    this.respond(InferenceResponse.failure(error))
  }

  /**
   * An Instance calls this in place of an answer, before its Batch is executed: the model wants the request again, in a
   * later Batch. The bytes of `outputs` may be reused after the call. Without a RequestLender the request fails.
   */
  reschedule(outputs: readonly Tensor[] = []): void {
    if (this.#isEnded) return
    const lender = this.#lender
    if (lender?.takeBack === undefined) {
      this.fail(ServerError.withoutStack('UNSUPPORTED', cannotReschedule(this.modelName)))
      return
    }
    this.#leaveInstance()
    lender.takeBack(this, outputs)
  }

  #leaveInstance(): void {
    this.#lender = null
    this.#holder = null
    this.#isRescheduled = true
  }

  /** Ends the request the way Triton ends a cancelled one: CANCELLED, with an empty message. */
  failCancelled(): void {
    assert(this.#isCancelled, 'only a cancelled request fails as cancelled')
    this.fail(ServerError.withoutStack('CANCELLED', ''))
  }

  get errorPrefix(): string {
    return idPrefix(this.id)
  }
}

const cannotReschedule = (model: string): string =>
  'Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured to handle such a flag: ' +
  `model '${model}' needs sequence_batching { iterative_sequence: true }`
