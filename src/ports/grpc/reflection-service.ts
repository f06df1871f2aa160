// grpc.reflection: lets tools as grpcurl call the server without its .proto files.

import { ServerError } from '../../base/server-error.ts'
import { GrpcStatus, statusOk } from '../../transport/grpc/grpc-status.ts'
import type { GrpcFrontEnd } from './grpc-method.ts'
import type { PortCall } from './port-call.ts'

export function reflectionService(): GrpcFrontEnd {
  const calls = new Set<PortCall>()
  return {
    methods: ['v1', 'v1alpha'].map((version) => ({
      path: `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
      api: 'metadata',
      begin: (call) => {
        calls.add(call)
        call.onClosed = () => calls.delete(call)
        reflect(call)
      },
    })),
    drain: (status) => {
      for (const call of calls) call.finish(status)
    },
  }
}

function reflect(call: PortCall): void {
  let isHalfClosed = false
  let pending = 0
  const endIfDone = (): void => {
    if (isHalfClosed && pending === 0) call.finish(statusOk)
  }
  call.onHalfClose = () => {
    isHalfClosed = true
    endIfDone()
  }
  call.onMessage = (message) => {
    pending++
    import('./reflection.ts')
      .then(({ answerReflection }) => {
        const answer = answerReflection(message)
        call.send({ parts: [answer], byteLength: answer.length }, null)
        call.messageDone(message)
        pending--
        endIfDone()
      })
      .catch((reason: unknown) => call.finish(GrpcStatus.of(ServerError.from(reason))))
  }
}
