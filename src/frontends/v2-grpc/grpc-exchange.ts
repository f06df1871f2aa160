// The common part of the unary call and the stream: reads a ModelInferRequest, and gives the facts of its call.

import type { Caller } from '../../access/caller.ts'
import type { ExchangeParts, Preparation } from '../../exchange/inference-exchange.ts'
import type { RequestHead } from '../../model/request-origin.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { CallExchange } from '../../ports/grpc/call-exchange.ts'
import type { GrpcOptions } from '../../ports/grpc/grpc-options.ts'
import type { PortCall } from '../../ports/grpc/port-call.ts'
import {
  decodeContentsInSteps,
  hasLargeContents,
  readInputs,
  readOutputSelections,
  readRequestParameters,
  type DecodedContents,
  type OutputSelection,
} from '../../protocol/grpc/infer-request-fields.ts'
import { classifiedOutputs, wantsClasses } from '../../protocol/grpc/classified-outputs.ts'
import type { WireInferRequest } from '../../protocol/grpc/infer-request-reader.ts'
import type { InferAnswerContext } from '../../protocol/grpc/infer-response-writer.ts'
import type { MetadataForwarding } from './metadata-forwarding.ts'

export type GrpcExchangeParts = ExchangeParts & {
  readonly options: GrpcOptions
  /** Null: no metadata becomes a parameter. */
  readonly forwarding: MetadataForwarding | null
}

export abstract class GrpcExchange extends CallExchange {
  protected wantsEmptyFinal = false
  readonly #wire: WireInferRequest
  readonly #forwarding: MetadataForwarding | null
  #outputs: readonly OutputSelection[] = []

  constructor(parts: GrpcExchangeParts, call: PortCall, caller: Caller, wire: WireInferRequest, received: Buffer) {
    super(parts, call, caller, received)
    this.#wire = wire
    this.#forwarding = parts.forwarding
  }

  override head(): RequestHead {
    const { custom, correlationId, isSequenceStart } = readRequestParameters(this.#wire.parameters, true)
    return { id: this.#wire.id, parameters: custom, correlationId, isSequenceStart }
  }

  /** The client's request id, also of a request that could not be read. */
  protected get id(): string {
    return this.#wire.id
  }

  /** Before the request is read. Throws ServerError for a version that the RPC cannot ask. */
  protected abstract check(version: ModelVersion): void

  protected override read(version: ModelVersion): void {
    this.check(version)
    const { name } = version
    const wire = this.#wire
    if (!hasLargeContents(wire)) this.#submitWire(name, null)
    else {
      // The values of one byte each become eight bytes each. There must be room for that before they are decoded.
      this.reserve(this.received.length * mostDecodedPerByte)
      this.readInSlices(decodeContentsInSteps(wire, name), (decoded) => this.#submitWire(name, decoded))
    }
  }

  /** Triton's order of checks. Throws ServerError. HOT: once per inference. */
  #submitWire(modelName: string, decoded: DecodedContents | null): void {
    const wire = this.#wire
    const parameters = readRequestParameters(wire.parameters, this.#forwarding === null)
    this.#forwarding?.forward(this.call.metadata, parameters.custom)
    const inputs = readInputs(wire, modelName, decoded)
    const outputs = readOutputSelections(wire.outputs)
    this.#outputs = outputs
    this.wantsEmptyFinal = parameters.wantsEmptyFinal
    this.submit({
      id: wire.id,
      inputs: inputs.tensors,
      sharedMemoryInputs: inputs.sharedMemory,
      outputs,
      parameters: parameters.custom,
      correlationId: parameters.correlationId,
      isSequenceStart: parameters.isSequenceStart,
      isSequenceEnd: parameters.isSequenceEnd,
      priority: parameters.priority,
      timeoutUs: parameters.timeoutUs,
    })
  }

  /** Ranking a million classes takes long, so it is done in slices. */
  protected override prepare(response: InferenceResponse): Preparation | null {
    const selections = this.#outputs
    if (!wantsClasses(selections)) return null
    const steps = classifiedOutputs(response.outputs, selections, this.version.signature)
    return this.preparedInSlices(steps, (outputs) => response.withOutputs(outputs))
  }

  protected get answerContext(): InferAnswerContext {
    const { modelName } = this
    return { modelName, modelVersion: this.version.version, id: this.#wire.id, outputs: this.#outputs }
  }
}

/** What a byte of typed contents becomes at most: a varint of one byte is a number of eight. */
const mostDecodedPerByte = 8
