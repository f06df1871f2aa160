// A port that another process holds is told before the models load, which may take minutes.

import { once } from 'node:events'
import { createServer } from 'node:net'
import { ServerError } from './base/server-error.ts'
import type { ServerOptions } from './options/server-options.ts'

/** As errors name the port; in lower case it begins the name of the flag. */
export type PortKind =
  | 'HTTP'
  | 'GRPC'
  | 'metrics'
  | 'OpenAI'
  | 'Tfserving'
  | 'SageMaker'
  | 'Vertex-AI'
  | 'TorchServe-inference'
  | 'TorchServe-management'
  | 'TorchServe-metrics'
  | 'TorchServe-grpc-inference'
  | 'TorchServe-grpc-management'

type Wanted = {
  readonly kind: PortKind
  readonly address: string
  readonly port: number
  readonly reusePort?: boolean
}

/** Rejects when one of the ports is taken. What else may be wrong with an address is told when the port opens. */
export async function refuseBusyPorts({
  http,
  grpc,
  metrics,
  openAi,
  tfserving,
  sagemaker,
  vertexAi,
  torchserve,
}: ServerOptions): Promise<void> {
  const wanted: Wanted[] = []
  if (http !== null) wanted.push({ kind: 'HTTP', ...http })
  if (grpc !== null) wanted.push({ kind: 'GRPC', ...grpc })
  if (metrics !== null) wanted.push({ kind: 'metrics', ...metrics })
  if (openAi.port !== null) wanted.push({ kind: 'OpenAI', address: openAi.address, port: openAi.port })
  if (tfserving !== null && tfserving.port !== null) {
    wanted.push({ kind: 'Tfserving', address: tfserving.address, port: tfserving.port })
  }
  if (sagemaker !== null) wanted.push({ kind: 'SageMaker', ...sagemaker })
  if (vertexAi !== null) wanted.push({ kind: 'Vertex-AI', ...vertexAi })
  if (torchserve !== null) {
    const { address, port, managementPort, metricsPort, grpcPort, grpcManagementPort } = torchserve
    wanted.push({ kind: 'TorchServe-inference', address, port })
    wanted.push({ kind: 'TorchServe-management', address, port: managementPort })
    wanted.push({ kind: 'TorchServe-metrics', address, port: metricsPort })
    if (grpcPort !== null) wanted.push({ kind: 'TorchServe-grpc-inference', address, port: grpcPort })
    if (grpcManagementPort !== null)
      wanted.push({ kind: 'TorchServe-grpc-management', address, port: grpcManagementPort })
  }
  await Promise.all(wanted.filter(({ port, reusePort }) => port !== 0 && reusePort !== true).map(refuseBusy))
}

async function refuseBusy(wanted: Wanted): Promise<void> {
  const server = createServer()
  try {
    server.listen(wanted.port, wanted.address)
    await once(server, 'listening')
    server.close()
    await once(server, 'close')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EADDRINUSE') throw portInUse(wanted, cause as Error)
  }
}

export function portInUse({ kind, address, port }: Wanted, cause: Error): ServerError {
  const flag = `--${kind.toLowerCase()}-port`
  const message = `${kind} port ${port} on ${address} is in use by another process; choose another with ${flag}`
  return new ServerError('UNAVAILABLE', message, { cause })
}
