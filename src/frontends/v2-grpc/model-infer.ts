// ModelInfer: one message in, exactly one answer out.

import { ServerError } from '../../base/server-error.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { hasLargeContents, type DecodedContents } from '../../protocol/grpc/infer-request-fields.ts'
import { readInferRequest, type WireInferRequest } from '../../protocol/grpc/infer-request-reader.ts'
import { writeInferResponse } from '../../protocol/grpc/infer-response-writer.ts'
import { GrpcStatus } from '../../transport/grpc/grpc-status.ts'
import type { GrpcCall } from '../../transport/grpc/grpc-transport.ts'
import {
  prepareInference,
  readLargeContents,
  type InferenceContext,
  type PreparedInference,
} from './inference-preparation.ts'

const decoupledText = "ModelInfer RPC doesn't support models with decoupled transaction policy"

/** HOT: once per inference. */
export function handleModelInfer(context: InferenceContext, call: GrpcCall, message: Buffer): void {
  new UnaryInference(context, call).begin(message)
}

class UnaryInference {
  readonly #context: InferenceContext
  readonly #call: GrpcCall
  #prepared: PreparedInference | null = null
  /** What the model answered; kept until it says that this was all. */
  #response: InferenceResponse | null = null
  #responseCount = 0

  constructor(context: InferenceContext, call: GrpcCall) {
    this.#context = context
    this.#call = call
  }

  begin(message: Buffer): void {
    const { engine, options } = this.#context
    try {
      const wire = readInferRequest(message, options.requestLimits)
      const version = engine.findVersion(wire.modelName, wire.modelVersion)
      if (version.signature.isDecoupled) throw ServerError.withoutStack('UNSUPPORTED', decoupledText)
      if (hasLargeContents(wire)) this.#readLarge(wire, version)
      else this.#submit(wire, version, null)
    } catch (reason) {
      this.#refuse(reason)
    }
  }

  #readLarge(wire: WireInferRequest, version: ModelVersion): void {
    const isWanted = (): boolean => !this.#call.isEnded
    readLargeContents(this.#context, wire, version.name, isWanted, (decoded) => {
      try {
        this.#submit(wire, version, decoded)
      } catch (reason) {
        this.#refuse(reason)
      }
    })
  }

  #submit(wire: WireInferRequest, version: ModelVersion, decoded: DecodedContents | null): void {
    const { metadata } = this.#call
    const prepared = prepareInference(this.#context, wire, version, metadata, this.#onResponse, decoded)
    this.#prepared = prepared
    const { inference } = prepared
    this.#call.noteInference?.(inference, version.version)
    this.#call.onCancel = () => inference.cancel()
    prepared.submit(this.#context, decoded !== null)
  }

  #refuse(reason: unknown): void {
    const error = ServerError.from(reason)
    this.#context.engine.refusals.count(error)
    this.#call.finish(GrpcStatus.of(error))
  }

  /** The Engine's sink: it does not throw, and memory of every response goes back, wanted or not. */
  readonly #onResponse = (response: InferenceResponse, inference: InferenceRequest): void => {
    if (!response.isFlagOnly) {
      this.#responseCount++
      if (this.#responseCount === 1) this.#response = response
      else response.release()
    }
    if (!response.isFinal) return
    const error = response.error ?? this.#response?.error ?? null
    if (error !== null) {
      this.#fail(error)
      return
    }
    const answer = this.#response
    if (answer === null || this.#responseCount !== 1) {
      this.#fail(new ServerError('INTERNAL', `expected a single response, got ${this.#responseCount}`))
      return
    }
    const { trace } = inference
    trace?.retain()
    const prepared = this.#prepared as PreparedInference
    prepared.placeOutputs(answer, (problem) => {
      if (problem === null) this.#answer(prepared, answer, inference)
      else this.#fail(problem)
      trace?.release()
    })
  }

  #answer(prepared: PreparedInference, answer: InferenceResponse, { trace }: InferenceRequest): void {
    const { clock } = this.#context
    try {
      const message = writeInferResponse(answer, prepared.answerContext)
      trace?.stamp('GRPC_SEND_START', clock.nowNs())
      if (message.hasViews) this.#call.sendLast(message, () => answer.release())
      else {
        this.#call.sendLast(message, null)
        answer.release()
      }
      trace?.stamp('GRPC_SEND_END', clock.nowNs())
      prepared.regions?.release()
    } catch (reason) {
      this.#fail(ServerError.from(reason))
    }
  }

  #fail(error: ServerError): void {
    this.#response?.release()
    this.#prepared?.regions?.release()
    this.#call.finish(GrpcStatus.of(error))
  }
}
