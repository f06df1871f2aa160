// ModelInfer: one message in, exactly one answer out.

import type { Caller } from '../../access/caller.ts'
import { turnedAway } from '../../exchange/turned-away.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { loadFormatHeader } from '../../model/load-source.ts'
import { worded } from '../../model/worded-error.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { PortCall } from '../../ports/grpc/port-call.ts'
import { peekModelName } from '../../protocol/grpc/peek-model-name.ts'
import { readInferRequest } from '../../protocol/grpc/infer-request-reader.ts'
import { writeInferResponse } from '../../protocol/grpc/infer-response-writer.ts'
import { GrpcStatus } from '../../transport/grpc/grpc-status.ts'
import { metadataValue } from '../../transport/grpc/grpc-transport.ts'
import { GrpcExchange, type GrpcExchangeParts } from './grpc-exchange.ts'

/** Throws ServerError for a message that cannot be read. HOT: once per inference. */
export function handleModelInfer(parts: GrpcExchangeParts, call: PortCall, caller: Caller, message: Buffer): void {
  if (parts.engine.isTurningAway && isTurnedAway(parts, call, caller, message)) return
  const wire = readInferRequest(message, parts.options.requestLimits)
  const exchange = new UnaryExchange(parts, call, caller, wire, message)
  call.onCancel = () => exchange.cancel()
  exchange.begin(wire.modelName, wire.modelVersion)
}

/** True: the call is refused and has its answer. A call whose answer tells the load goes the usual way. */
function isTurnedAway({ engine, load }: GrpcExchangeParts, call: PortCall, caller: Caller, message: Buffer): boolean {
  const tellsLoad = load?.isTold === true || metadataValue(call.metadata, loadFormatHeader) !== null
  const modelName = tellsLoad ? null : peekModelName(message)
  const refusal = modelName === null ? null : turnedAway(engine, modelName, caller)
  if (refusal === null) return false
  call.finish(GrpcStatus.of(refusal))
  return true
}

class UnaryExchange extends GrpcExchange {
  protected override check({ signature }: ModelVersion): void {
    if (signature.isDecoupled) throw worded('decoupledGrpc', {})
  }

  protected override write(answer: InferenceResponse): void {
    this.sendOnly(writeInferResponse(answer, this.answerContext), answer)
  }
}
