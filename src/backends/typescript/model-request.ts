import type { ParameterValue } from '../../model/parameters.ts'
import { InferenceError } from './inference-error.ts'
import { ModelTensor } from './model-tensor.ts'
import type { ResponseSender } from './response-sender.ts'
import type { RequestDetails, RequestMessage } from './worker-protocol.ts'

const plainDetails: RequestDetails = {
  requestedOutputs: [],
  parameters: new Map(),
  correlationId: 0n,
  isSequenceStart: false,
  isSequenceEnd: false,
  priority: 0n,
  timeoutUs: 0n,
  isCancelled: false,
  traceContext: null,
}

/** One request as a model gets it. The model may read and change the inputs until the request is answered. */
export class ModelRequest {
  /** The id that the client gave, '' for none; not unique. */
  readonly id: string
  readonly inputs: ReadonlyMap<string, ModelTensor>
  /** Empty: all outputs. The server drops outputs that were not requested, so a model may skip computing them. */
  readonly requestedOutputs: readonly string[]
  readonly parameters: ReadonlyMap<string, ParameterValue>
  /** 0n or '' when the request belongs to no sequence. */
  readonly correlationId: bigint | string
  readonly isSequenceStart: boolean
  readonly isSequenceEnd: boolean
  readonly priority: bigint
  /** 0n: no timeout. */
  readonly timeoutUs: bigint
  /** Rows of the inputs; 0 when the model does not batch. */
  readonly batchSize: number
  /** Send these as headers `traceparent` and `tracestate` with calls to other services; '' when not traced. */
  readonly traceparent: string
  readonly tracestate: string
  readonly #sender: ResponseSender
  #controller: AbortController | null = null
  #isCancelled: boolean
  #isSenderTaken = false

  constructor(message: RequestMessage, buffers: readonly ArrayBuffer[], sender: ResponseSender) {
    this.id = message.id
    const inputs = new Map<string, ModelTensor>()
    for (const { name, dataType, shape, buffer, offset, length } of message.inputs) {
      const bytes = new Uint8Array(buffers[buffer] ?? new ArrayBuffer(0), offset, length)
      inputs.set(name, new ModelTensor(name, dataType, shape, bytes))
    }
    this.inputs = inputs
    const details = message.details ?? plainDetails
    this.requestedOutputs = details.requestedOutputs
    this.parameters = details.parameters
    this.correlationId = details.correlationId
    this.isSequenceStart = details.isSequenceStart
    this.isSequenceEnd = details.isSequenceEnd
    this.priority = details.priority
    this.timeoutUs = details.timeoutUs
    this.batchSize = message.batchSize
    this.traceparent = details.traceContext?.traceparent ?? ''
    this.tracestate = details.traceContext?.tracestate ?? ''
    this.#sender = sender
    this.#isCancelled = details.isCancelled
  }

  /** The input of this name; throws when the request does not have it (an optional input that was left out). */
  input(name: string): ModelTensor {
    const input = this.inputs.get(name)
    if (input !== undefined) return input
    const given = [...this.inputs.keys()].map((key) => `'${key}'`).join(', ')
    throw new InferenceError(`the request has no input '${name}', only ${given}`, 'INVALID_ARG')
  }

  wantsOutput(name: string): boolean {
    return this.requestedOutputs.length === 0 || this.requestedOutputs.includes(name)
  }

  /** Sends answers without the return value of `execute`: several responses, or one that comes later. */
  get sender(): ResponseSender {
    this.#isSenderTaken = true
    return this.#sender
  }

  get isSenderTaken(): boolean {
    return this.#isSenderTaken
  }

  get isCancelled(): boolean {
    return this.#isCancelled
  }

  /** Aborts when the client no longer waits. Created at the first use, because most models never use it. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#isCancelled) this.#controller.abort(cancelled())
    return this.#controller.signal
  }

  /** Called by the host. */
  cancel(): void {
    this.#isCancelled = true
    this.#controller?.abort(cancelled())
  }
}

const cancelled = (): InferenceError => new InferenceError('the client cancelled the request', 'CANCELLED')
