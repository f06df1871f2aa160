// A ModelInferRequest's bytes → a request for the Engine, for the unary call and the stream alike.

import type { Clock } from '../../base/clock.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import { RequestRegions } from '../../engine/shared-memory/request-regions.ts'
import type { SharedMemoryRegistry } from '../../engine/shared-memory/shared-memory-registry.ts'
import { InferenceRequest, type ResponseSink } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { TraceOrigin, TraceStamp } from '../../model/trace-stamp.ts'
import {
  decodeContentsInSteps,
  readInputs,
  readOutputSelections,
  readRequestParameters,
  type DecodedContents,
  type OutputSelection,
} from '../../protocol/grpc/infer-request-fields.ts'
import type { WireInferRequest } from '../../protocol/grpc/infer-request-reader.ts'
import type { InferAnswerContext } from '../../protocol/grpc/infer-response-writer.ts'
import type { GrpcOptions } from '../../ports/grpc/grpc-options.ts'
import { metadataValue } from '../../transport/grpc/grpc-transport.ts'
import { MetadataForwarding } from './metadata-forwarding.ts'

type InferenceDependencies = {
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
    return this.isSubmitting || !inference.isAdmitted
  }

  /** `isExpected` when the Engine was told that it would come. `handedOver` when the Engine has it, or never will. */
  submit(context: InferenceContext, isExpected = false, handedOver: (() => void) | null = null): void {
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
    if (regions === null) {
      engine.infer(inference, this.version, isExpected)
      handedOver?.()
    } else {
      const passedOn = engine.expectRequest()
      regions.readInputs(inference.inputs, (error) => {
        if (error !== null) inference.fail(error)
        else engine.infer(inference, this.version, true)
        passedOn()
        handedOver?.()
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

/** The trace that the client says its request is part of; null where it says none. */
function traceOriginOf(metadata: readonly string[]): TraceOrigin | null {
  const traceparent = metadataValue(metadata, 'traceparent')
  return traceparent === null ? null : { traceparent, tracestate: metadataValue(metadata, 'tracestate') ?? '' }
}

/** How long other calls wait at a time while large contents are read. */
const sliceNs = 4e6

/**
 * Reads typed contents that would hold up everybody else, a slice at a time. `done` follows later, unless the request is
 * not wanted any more. A server that exits meanwhile waits for it.
 */
export function readLargeContents(
  { engine, clock }: InferenceContext,
  wire: WireInferRequest,
  modelName: string,
  isWanted: () => boolean,
  done: (decoded: DecodedContents) => void,
): void {
  const passedOn = engine.expectRequest()
  const steps = decodeContentsInSteps(wire, modelName)
  const readSlice = (): void => {
    if (!isWanted()) {
      passedOn()
      return
    }
    const untilNs = clock.nowNs() + sliceNs
    let step = steps.next()
    while (step.done !== true && clock.nowNs() < untilNs) step = steps.next()
    if (step.done !== true) {
      setImmediate(readSlice)
      return
    }
    done(step.value)
    passedOn()
  }
  setImmediate(readSlice)
}

/** Triton's order of checks. Throws ServerError. HOT: once per inference. */
export function prepareInference(
  context: InferenceContext,
  wire: WireInferRequest,
  version: ModelVersion,
  metadata: readonly string[],
  sink: ResponseSink,
  decoded: DecodedContents | null = null,
): PreparedInference {
  const parameters = readRequestParameters(wire.parameters, context.forwarding === null)
  context.forwarding?.forward(metadata, parameters.custom)
  const inputs = readInputs(wire, version.name, decoded)
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
  if (context.engine.isTracing) inference.traceOrigin = traceOriginOf(metadata)
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
