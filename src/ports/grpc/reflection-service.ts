// grpc.reflection: lets tools as grpcurl call the server without its .proto files.

import { ServerError } from '../../base/server-error.ts'
import { GrpcStatus, statusOk } from '../../transport/grpc/grpc-status.ts'
import type { GrpcFrontEnd } from './grpc-method.ts'
import type { PortCall } from './port-call.ts'
import type { Reflection } from './reflection.ts'

/** `frontEnds`: the others of the port, whose files are told. */
export function reflectionService(frontEnds: readonly GrpcFrontEnd[]): GrpcFrontEnd {
  const calls = new Set<PortCall>()
  let reflection: Promise<Reflection> | null = null
  const opened = (): Promise<Reflection> => (reflection ??= openReflection(frontEnds))
  return {
    methods: ['v1', 'v1alpha'].map((version) => ({
      path: `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
      api: 'metadata',
      begin: (call) => {
        calls.add(call)
        call.onClosed = () => calls.delete(call)
        reflect(call, opened)
      },
    })),
    drain: (status) => {
      for (const call of calls) call.finish(status)
    },
  }
}

/** Read at the first call. */
async function openReflection(frontEnds: readonly GrpcFrontEnd[]): Promise<Reflection> {
  const { Reflection } = await import('./reflection.ts')
  const { wireFiles } = await import('../../protocol/grpc/wire-schema.ts')
  return new Reflection([...wireFiles, ...frontEnds.flatMap(({ files }) => files ?? [])])
}

function reflect(call: PortCall, opened: () => Promise<Reflection>): void {
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
    opened()
      .then((reflection) => {
        const answer = reflection.answer(message)
        call.send({ parts: [answer], byteLength: answer.length }, null)
        call.messageDone(message)
        pending--
        endIfDone()
      })
      .catch((reason: unknown) => call.finish(GrpcStatus.of(ServerError.from(reason))))
  }
}
