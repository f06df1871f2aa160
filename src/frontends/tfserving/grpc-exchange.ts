// Predict, Classify, Regress and MultiInference: one message in, one message out.

import type { Caller } from '../../access/caller.ts'
import { runInSlices } from '../../base/run-in-slices.ts'
import { ServerError } from '../../base/server-error.ts'
import type { ExchangeParts } from '../../exchange/inference-exchange.ts'
import type { RequestHead } from '../../model/request-origin.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { worded } from '../../model/worded-error.ts'
import { CallExchange } from '../../ports/grpc/call-exchange.ts'
import type { GrpcOptions } from '../../ports/grpc/grpc-options.ts'
import type { PortCall } from '../../ports/grpc/port-call.ts'
import type { MessageParts } from '../../protocol/grpc/infer-response-writer.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { GrpcStatus, statusCodes, type StatusCode } from '../../transport/grpc/grpc-status.ts'
import type { WireModelSpec } from '../../protocol/tfserving/serving-request.ts'
import { servableNotFound, type ServingModels } from './serving-models.ts'

export type TfGrpcParts = ExchangeParts & {
  readonly options: GrpcOptions
  readonly serving: ServingModels
}

/** What a call asks for, apart from the model. */
export type TfCall = {
  readonly spec: WireModelSpec
  /** Null: all outputs. Throws what a request asks for in vain. */
  outputs(version: ModelVersion): readonly string[] | null
  /** Reads the inputs at once, or in steps. */
  inputs(version: ModelVersion, reserve: (bytes: number) => void): Tensor[] | Iterator<void, Tensor[]>
  /** Writes the answer at once, or in steps. */
  answer(response: InferenceResponse, version: ModelVersion): MessageParts | Iterator<void, MessageParts>
}

/** An error whose gRPC code no ServerError has. */
export class FailedPrecondition extends ServerError {
  constructor(message: string) {
    super('INVALID_ARG', message)
  }
}

export class TfGrpcExchange extends CallExchange {
  readonly #parts: TfGrpcParts
  readonly #asked: TfCall
  #code: StatusCode | null = null
  #version = ''

  constructor(parts: TfGrpcParts, call: PortCall, caller: Caller, asked: TfCall, received: Buffer) {
    super(parts, call, caller, received)
    this.#parts = parts
    this.#asked = asked
    call.onCancel = () => this.cancel()
  }

  head(): RequestHead {
    return { id: '', parameters: new Map(), correlationId: 0n, isSequenceStart: false }
  }

  start(): void {
    const { name, version, label } = this.#asked.spec
    try {
      if (name === '') throw ServerError.withoutStack('INVALID_ARG', 'ModelSpec has no name specified.')
      this.#version = label === '' ? version : this.#parts.serving.versionOf(name, label)
    } catch (reason) {
      this.parts.engine.refusals.count(ServerError.from(reason))
      this.#finish(ServerError.from(reason))
      return
    }
    this.begin(name, this.#version)
  }

  protected override read(version: ModelVersion): void {
    if (version.signature.isDecoupled) throw worded('decoupledGrpc', {})
    const names = this.#asked.outputs(version)
    const outputs = names?.map((name) => ({ name, sharedMemory: null })) ?? []
    const submit = (inputs: Tensor[]): void => this.submit(names === null ? { inputs } : { inputs, outputs })
    const read = this.#asked.inputs(version, (bytes) => this.reserve(bytes))
    if (Array.isArray(read)) {
      submit(read)
      return
    }
    const first = read.next()
    if (first.done === true) submit(first.value)
    else this.readInSlices(read, submit)
  }

  protected override write(response: InferenceResponse): void {
    const { clock } = this.parts
    const trace = this.request?.trace ?? null
    const written = this.#asked.answer(response, this.version)
    if ('parts' in written) {
      this.#send(written, response, trace)
      return
    }
    trace?.retain()
    runInSlices(
      clock,
      written,
      () => !this.call.isEnded,
      (error, message) => {
        if (message !== null) this.#send(message, response, trace)
        else {
          response.release()
          this.#finish(this.told(error))
        }
        trace?.release()
      },
    )
  }

  #send(message: MessageParts, response: InferenceResponse, trace: InferenceRequest['trace']): void {
    const { clock } = this.parts
    trace?.stamp('GRPC_SEND_START', clock.nowNs())
    this.tellLoad()
    this.call.sendLast(message, message.hasViews ? () => response.release() : null)
    if (!message.hasViews) response.release()
    trace?.stamp('GRPC_SEND_END', clock.nowNs())
  }

  #finish(error: ServerError): void {
    const status = GrpcStatus.of(error)
    this.tellLoad()
    this.call.finish(this.#code === null ? status : new GrpcStatus(this.#code, status.message))
  }

  protected override told(reason: unknown): ServerError {
    if (reason instanceof FailedPrecondition) this.#code = statusCodes.FAILED_PRECONDITION
    return super.told(reason)
  }

  protected override refused(error: ServerError): void {
    // No version was chosen: TensorFlow Serving knows one reason for that.
    const isLookup = error.code === 'NOT_FOUND' || error.code === 'INVALID_ARG'
    const isMissing = this.signature === null && isLookup
    this.#finish(isMissing ? servableNotFound(this.#asked.spec.name, this.#version) : error)
  }

  protected override fail(error: ServerError): void {
    this.#finish(error)
  }
}
