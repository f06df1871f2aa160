import type { Caller } from '../../access/caller.ts'
import { changeOrigin, traceIdOf, type ChangeOrigin } from '../../model/change-origin.ts'
import { metadataValue } from '../../transport/grpc/grpc-transport.ts'
import type { PortCall } from './port-call.ts'

/** Who changes something by a call. */
export const grpcChangeOrigin = (call: PortCall, caller: Caller): ChangeOrigin =>
  changeOrigin('grpc', {
    address: call.remoteAddress,
    key: caller.principal,
    requestId: metadataValue(call.metadata, 'x-request-id') ?? '',
    traceId: traceIdOf(metadataValue(call.metadata, 'traceparent')),
  })
