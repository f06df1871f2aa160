// inference.GRPCInferenceService of KServe v2 with Triton's extensions, and grpc.health.v1 beside it.

import type { LogControl } from '../../base/log-control.ts'
import type { Log } from '../../base/log.ts'
import type { ExchangeParts } from '../../exchange/inference-exchange.ts'
import type { GrpcOptions } from '../../ports/grpc/grpc-options.ts'
import {
  inferenceMethod,
  streamMethod,
  takeOne,
  unaryMethod,
  type GrpcFrontEnd,
  type GrpcMethod,
} from '../../ports/grpc/grpc-method.ts'
import { healthStatus, HealthWatch } from './health-watch.ts'
import { MetadataForwarding } from './metadata-forwarding.ts'
import { handleModelInfer } from './model-infer.ts'
import { InferStream } from './model-stream-infer.ts'
import { largeMethods, serviceMethods } from './service-methods.ts'

export type V2GrpcParts = ExchangeParts & {
  readonly log: Log
  /** The log settings that LogSettings shows and changes. */
  readonly logControl?: LogControl
}

const inferenceService = '/inference.GRPCInferenceService'
const healthService = '/grpc.health.v1.Health'

export function v2Grpc(parts: V2GrpcParts, options: GrpcOptions): GrpcFrontEnd {
  const { engine, clock } = parts
  const log = parts.log.from('v2-grpc.ts')
  const pattern = options.headerForwardPattern
  const forwarding = pattern === '' ? null : new MetadataForwarding(pattern)
  const exchange = { ...parts, options, forwarding }
  const methodParts = { log, clock, engine }
  const watch = new HealthWatch(engine, clock)
  const streams = streamMethod(`${inferenceService}/ModelStreamInfer`, (call, caller) => {
    call.allowCompression()
    return new InferStream(exchange, call, caller)
  })
  const methods: GrpcMethod[] = [
    inferenceMethod(methodParts, `${inferenceService}/ModelInfer`, (message, call, caller) =>
      handleModelInfer(exchange, call, caller, message),
    ),
    streams.method,
    ...serviceMethods(parts).map(([rpc, api, method]) => {
      const isLarge = largeMethods.has(rpc)
      return unaryMethod(
        methodParts,
        `${inferenceService}/${rpc}`,
        api,
        [`${rpc}Request`, `${rpc}Response`],
        method,
        isLarge,
      )
    }),
    unaryMethod(methodParts, `${healthService}/Check`, 'health', ['HealthCheckRequest', 'HealthCheckResponse'], () => ({
      status: healthStatus(engine),
    })),
    {
      path: `${healthService}/Watch`,
      api: 'health',
      lasts: true,
      begin: (call) => takeOne(call, log, () => watch.watch(call)),
    },
  ]
  return {
    methods,
    drain: (status) => {
      streams.drain(status)
      watch.drain(status)
    },
  }
}
