// A ModelInferRequest's bytes → a request for the Engine, for the unary call and the stream alike.

import type { Clock } from '../../base/clock.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import { RequestRegions } from '../../engine/shared-memory/request-regions.ts'
import type { SharedMemoryRegistry } from '../../engine/shared-memory/shared-memory-registry.ts'
import { InferenceRequest, type ResponseSink } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { TraceStamp } from '../../model/request-trace.ts'
import {
  readInputs,
  readOutputSelections,
  readRequestParameters,
  type OutputSelection,
} from '../../protocol/grpc/infer-request-fields.ts'
import type { WireInferRequest } from '../../protocol/grpc/infer-request-reader.ts'
import type { InferAnswerContext } from '../../protocol/grpc/infer-response-writer.ts'
import type { GrpcOptions } from './grpc-options.ts'
import { MetadataForwarding } from './metadata-forwarding.ts'

export type InferenceDependencies = {
  readonly engine: Engine
  readonly clock: Clock
  /** Null where there is no client shared memory. */
  readonly sharedMemory: SharedMemoryRegistry | null
}

export class InferenceContext {
  readonly engine: Engine
  readonly clock: Clock
  readonly options: GrpcOptions
  readonly sharedMemory: SharedMemoryRegistry | null
  readonly forwarding: MetadataForwarding | null

  constructor(dependencies: InferenceDependencies, options: GrpcOptions) {
    this.engine = dependencies.engine
    this.clock = dependencies.clock
    this.sharedMemory = dependencies.sharedMemory
    this.options = options
    this.forwarding = options.headerForwardPattern === '' ? null : new MetadataForwarding(options.headerForwardPattern)
  }
}

/** A request that was read and checked, and everything its answers need. */
export class PreparedInference {
  readonly inference: InferenceRequest
  readonly version: ModelVersion
  readonly outputs: readonly OutputSelection[]
  readonly wantsEmptyFinal: boolean
  readonly regions: RequestRegions | null
  /** True while the Engine takes the request over: what fails then was never executed. */
  isSubmitting = false

  constructor(
    inference: InferenceRequest,
    version: ModelVersion,
    outputs: readonly OutputSelection[],
    wantsEmptyFinal: boolean,
    regions: RequestRegions | null,
  ) {
    this.inference = inference
    this.version = version
    this.outputs = outputs
    this.wantsEmptyFinal = wantsEmptyFinal
    this.regions = regions
  }

  get answerContext(): InferAnswerContext {
    return {
      modelName: this.version.name,
      modelVersion: this.version.version,
      id: this.inference.id,
      signature: this.version.signature,
      outputs: this.outputs,
    }
  }

  /** Whether an error came before the request reached its model. */
  get isUnscheduled(): boolean {
    const { inference } = this
    if (inference.computeStartNs !== 0) return false
    // An ensemble runs its first steps at once, and is under way as soon as it is queued.
    if (inference.queueStartNs !== 0 && this.version.config.ensembleScheduling !== null) return false
    return this.isSubmitting || inference.intercept === null
  }

  submit(context: InferenceContext): void {
    const { inference, regions } = this
    const { engine, clock } = context
    this.isSubmitting = true
    if (engine.isTracing) {
      const nowNs = clock.nowNs()
      const stamps: TraceStamp[] = [
        ['GRPC_WAITREAD_START', nowNs],
        ['GRPC_WAITREAD_END', nowNs],
      ]
      inference.arrivalStamps = stamps
    }
    if (regions === null) engine.infer(inference, this.version)
    else {
      regions.readInputs(inference.inputs, (error) => {
        if (error !== null) inference.fail(error)
        else engine.infer(inference, this.version)
      })
    }
    this.isSubmitting = false
  }

  /** Puts outputs into the client's regions, then calls `done`; at once when there are none. */
  placeOutputs(response: InferenceResponse, done: (error: ServerError | null) => void): void {
    if (this.regions === null) done(null)
    else this.regions.writeOutputs(response.outputs, done)
  }
}

/** Triton's order of checks. Throws ServerError. HOT: once per inference. */
export function prepareInference(
  context: InferenceContext,
  wire: WireInferRequest,
  version: ModelVersion,
  metadata: readonly string[],
  sink: ResponseSink,
): PreparedInference {
  const parameters = readRequestParameters(wire.parameters)
  context.forwarding?.forward(metadata, parameters.custom)
  const inputs = readInputs(wire, version.name)
  const outputs = readOutputSelections(wire.outputs)
  const requestedOutputs: string[] = []
  for (const { name } of outputs) requestedOutputs.push(name)
  const inference = new InferenceRequest({
    modelName: version.name,
    modelVersion: wire.modelVersion,
    id: wire.id,
    inputs: inputs.tensors,
    requestedOutputs,
    parameters: parameters.custom,
    correlationId: parameters.correlationId,
    isSequenceStart: parameters.isSequenceStart,
    isSequenceEnd: parameters.isSequenceEnd,
    priority: parameters.priority,
    timeoutUs: parameters.timeoutUs,
    sink,
  })
  const usesRegions = inputs.sharedMemory.size > 0 || outputs.some((output) => output.sharedMemory !== null)
  let regions: RequestRegions | null = null
  if (usesRegions) {
    if (context.sharedMemory === null) {
      throw ServerError.withoutStack('UNSUPPORTED', 'this server has no client shared memory')
    }
    regions = RequestRegions.of(context.sharedMemory, inputs.sharedMemory, outputs)
  }
  return new PreparedInference(inference, version, outputs, parameters.wantsEmptyFinal, regions)
}
