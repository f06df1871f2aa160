// The gRPC service of load reports. Its code is read with the first call.

import type { Caller } from '../../access/caller.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import type { LoadSource } from '../../model/load-source.ts'
import { takeOne, type GrpcFrontEnd } from '../../ports/grpc/grpc-method.ts'
import type { PortCall } from '../../ports/grpc/port-call.ts'
import { GrpcStatus, statusCodes } from '../../transport/grpc/grpc-status.ts'

/** A balancer needs one stream. Further ones are refused. */
const mostStreams = 256

const full = new GrpcStatus(
  statusCodes.RESOURCE_EXHAUSTED,
  `${mostStreams} streams of load reports are open, and no more are allowed: end one, or read the header of answers (--orca=always)`,
)

export function orcaService(load: LoadSource, clock: Clock, log: Log): GrpcFrontEnd {
  const calls = new Set<PortCall>()
  const begin = (call: PortCall, caller: Caller): void => {
    if (calls.size >= mostStreams) {
      call.finish(full)
      return
    }
    calls.add(call)
    const left = (): void => void calls.delete(call)
    call.onClosed = left
    takeOne(call, log, (message) => {
      import('./load-stream.ts')
        .then(({ streamLoad }) => {
          if (call.isEnded) return
          streamLoad(call, caller, message, load, clock)
          const { onClosed } = call
          call.onClosed = () => {
            left()
            onClosed?.()
          }
        })
        .catch((reason: unknown) => call.finish(GrpcStatus.of(ServerError.from(reason))))
    })
  }
  return {
    methods: [{ path: '/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics', api: 'statistics', lasts: true, begin }],
    drain: (status) => {
      for (const call of calls) call.finish(status)
    },
  }
}
