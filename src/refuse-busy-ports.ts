// A port that the server cannot have is told before the models load, which may take minutes.

import { once } from 'node:events'
import { createServer } from 'node:net'
import { ServerError } from './base/server-error.ts'
import type { ServerOptions } from './options/server-options.ts'
import { torchserveListeners } from './options/torchserve-listeners.ts'

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

/** Rejects when one of the ports cannot be had. What else may be wrong is told when the port opens. */
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
    const { grpcAddress, grpcPort, grpcManagementAddress, grpcManagementPort } = torchserve
    for (const { kinds, ...at } of torchserveListeners(torchserve))
      wanted.push({ kind: `TorchServe-${kinds[0]}`, ...at })
    if (grpcPort !== null) wanted.push({ kind: 'TorchServe-grpc-inference', address: grpcAddress, port: grpcPort })
    if (grpcManagementPort !== null)
      wanted.push({ kind: 'TorchServe-grpc-management', address: grpcManagementAddress, port: grpcManagementPort })
  }
  const fixed = wanted.filter(({ port, reusePort }) => port !== 0 && reusePort !== true)
  // The first flag is told: the other ports follow its address.
  for (const tried of await Promise.allSettled(fixed.map(refuseBusy))) {
    if (tried.status === 'rejected') throw tried.reason
  }
}

async function refuseBusy(wanted: Wanted): Promise<void> {
  const server = createServer()
  try {
    server.listen(wanted.port, wanted.address)
    await once(server, 'listening')
    server.close()
    await once(server, 'close')
  } catch (cause) {
    const message = messages[(cause as NodeJS.ErrnoException).code ?? '']?.(wanted)
    if (message !== undefined) throw new ServerError('UNAVAILABLE', message, { cause })
  }
}

const flagOf = ({ kind }: Wanted, what: 'address' | 'port'): string => `--${kind.toLowerCase()}-${what}`

function noSuchAddress(wanted: Wanted): string {
  const others = 'name one of its own, 127.0.0.1 for this machine alone, or 0.0.0.0 for all'
  return `this machine has no address '${wanted.address}' to serve ${wanted.kind} at: ${others}, with ${flagOf(wanted, 'address')}`
}

const takenPort = (wanted: Wanted): string =>
  `${wanted.kind} port ${wanted.port} on ${wanted.address} is in use by another process; choose another with ${flagOf(wanted, 'port')}`

/** By the code of the system's error. */
const messages: Readonly<Record<string, (wanted: Wanted) => string>> = {
  EADDRINUSE: takenPort,
  EADDRNOTAVAIL: noSuchAddress,
  ENOTFOUND: noSuchAddress,
  EAI_AGAIN: noSuchAddress,
  EACCES: (wanted) =>
    `this user may not serve ${wanted.kind} at port ${wanted.port}: choose a port above 1023 with ${flagOf(wanted, 'port')}`,
}

export const portInUse = (wanted: Wanted, cause: Error): ServerError =>
  new ServerError('UNAVAILABLE', takenPort(wanted), { cause })
