// Predict, Classify, Regress and MultiInference: one message in, one message out.

import type { Caller } from '../../access/caller.ts'
import { ServerError } from '../../base/server-error.ts'
import type { ExchangeParts, Preparation } from '../../exchange/inference-exchange.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { worded } from '../../model/worded-error.ts'
import { CallExchange } from '../../ports/grpc/call-exchange.ts'
import type { GrpcOptions } from '../../ports/grpc/grpc-options.ts'
import type { PortCall } from '../../ports/grpc/port-call.ts'
import type { MessageParts } from '../../protocol/grpc/infer-response-writer.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { GrpcStatus, statusCodes } from '../../transport/grpc/grpc-status.ts'
import type { WireModelSpec } from '../../protocol/tfserving/serving-request.ts'
import { notChosen, type ServingModels } from './serving-models.ts'

export type TfGrpcParts = ExchangeParts & {
  readonly options: GrpcOptions
  readonly serving: ServingModels
}

/** What a call asks for, apart from the model. */
export type TfCall = {
  readonly spec: WireModelSpec
  /** Throws what a request asks for in vain. */
  check(version: ModelVersion): void
  /** Reads the inputs at once, or in steps. */
  inputs(version: ModelVersion, reserve: (bytes: number) => void): Tensor[] | Iterator<void, Tensor[]>
  /** Null: all outputs. Asked for once the inputs are read. Throws for a choice that is none. */
  outputs(version: ModelVersion): readonly string[] | null
  /** Writes the answer at once, or in steps. */
  answer(response: InferenceResponse, version: ModelVersion): MessageParts | Iterator<void, MessageParts>
}

/** An error whose gRPC code no ServerError has. */
export class FailedPrecondition extends ServerError {
  constructor(message: string) {
    super('INVALID_ARG', message)
  }
}

/** TensorFlow Serving cuts longer texts. */
const longestText = 1024

export function tfStatusOf(error: ServerError): GrpcStatus {
  const status = GrpcStatus.of(error)
  const isPrecondition = error instanceof FailedPrecondition
  if (!isPrecondition && status.message.length <= longestText) return status
  const { message, retryAfterMs } = status
  const text = message.length <= longestText ? message : `${message.slice(0, longestText)}...TRUNCATED`
  return new GrpcStatus(isPrecondition ? statusCodes.FAILED_PRECONDITION : status.code, text, retryAfterMs)
}

export class TfGrpcExchange extends CallExchange {
  readonly #asked: TfCall
  /** '' for the highest version that serves. */
  readonly #version: string
  /** The answer; null before it is written. */
  #message: MessageParts | null = null

  constructor(parts: TfGrpcParts, call: PortCall, caller: Caller, asked: TfCall, version: string, received: Buffer) {
    super(parts, call, caller, received)
    this.#asked = asked
    this.#version = version
    call.onCancel = () => this.cancel()
  }

  protected override read(version: ModelVersion): void {
    if (version.signature.isDecoupled) throw worded('decoupledGrpc', {})
    this.#asked.check(version)
    const submit = (inputs: Tensor[]): void => {
      const outputs = this.#asked.outputs(version)?.map((name) => ({ name, sharedMemory: null }))
      this.submit(outputs === undefined ? { inputs } : { inputs, outputs })
    }
    const read = this.#asked.inputs(version, (bytes) => this.reserve(bytes))
    if (Array.isArray(read)) submit(read)
    else this.readSteps(read, submit)
  }

  protected override prepare(response: InferenceResponse): Preparation | null {
    const written = this.#asked.answer(response, this.version)
    const keep = (message: MessageParts): InferenceResponse => {
      this.#message = message
      return response
    }
    if (!('parts' in written)) return this.preparedInSlices(written, keep)
    keep(written)
    return null
  }

  protected override write(response: InferenceResponse): void {
    const message = this.#message as MessageParts
    this.#message = null
    this.sendOnly(message, response)
  }

  protected override refused(error: ServerError): void {
    const isChosen = this.signature !== null
    this.fail(isChosen ? error : notChosen(error, this.#asked.spec.name, this.#version))
  }

  protected override statusOf(error: ServerError): GrpcStatus {
    return tfStatusOf(error)
  }
}
