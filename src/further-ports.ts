// The ports of protocols that have one of their own beside HTTP and gRPC. Their code is read only where they are open.

import { availableParallelism } from 'node:os'
import { messageOf, ServerError } from './base/server-error.ts'
import { interpreterOf } from './config/backend-interpreter.ts'
import { openAiOwnRoutes, openAiRoutes } from './frontends/openai/openai-routes.ts'
import { predictEndpoint } from './frontends/kserve1/predict-endpoint.ts'
import { closeAll, httpParts, httpRoutes, type HttpDependencies } from './http-front-ends.ts'
import type { FurtherPortOptions, ServerOptions, TorchserveOptions } from './options/server-options.ts'
import { torchserveListeners } from './options/torchserve-listeners.ts'
import { messageResponse } from './ports/http/error-response.ts'
import { bodyLimitBytes, validateHttpOptions } from './ports/http/http-options.ts'
import type { GrpcPort } from './ports/grpc/grpc-port.ts'
import { HttpPort } from './ports/http/http-port.ts'
import { defaultJsonOffloadSettings, JsonOffload } from './ports/http/json-offload.ts'
import { get, type Route, type RouteHandler } from './ports/http/route.ts'
import { portInUse, type PortKind } from './refuse-busy-ports.ts'
import { jsonType } from './transport/http1/http-message.ts'
import type { MappedFolders } from './repository/mapped-folders.ts'
import type { TfservingFrontEnd } from './tfserving-front-end.ts'

export type FurtherPort = {
  /** As metrics name the protocol. */
  readonly protocol: string
  /** As the log names the port. */
  readonly title: string
  readonly port: HttpPort | GrpcPort
  /** What else ends with the port. */
  readonly close?: () => Promise<void>
}

type FurtherParts = HttpDependencies & {
  readonly mapped: MappedFolders | null
  /** The paths of the metrics page, once there is one. */
  readonly metricsRoutes: () => readonly Route[]
}

/** What the routes of a further port are made of. */
type RouteParts = ReturnType<typeof httpParts> & {
  readonly v2: readonly Route[]
  /** Rows of JSON, as KServe v1 has them. */
  readonly predict: RouteHandler
}

/** Throws ServerError when an option makes no sense; opens no port before `listen`. */
export async function createFurtherPorts(parts: FurtherParts, options: ServerOptions): Promise<FurtherPort[]> {
  const ports: FurtherPort[] = []
  const { openAi, tfserving, sagemaker, vertexAi, torchserve } = options
  if (openAi.port !== null) {
    const at = { address: openAi.address, port: openAi.port, threadCount: 1 }
    const routesOf = ({ parts: shared }: RouteParts): Route[] => [
      ...openAiRoutes(shared.openAi),
      ...openAiOwnRoutes(shared.openAi, metricsPage(parts)),
    ]
    const port = createPort(parts, options, 'OpenAI', at, routesOf)
    ports.push({ protocol: 'openai', title: 'OpenAI service', port })
  }
  if (tfserving !== null && tfserving.port !== null) {
    const frontEnd = parts.tfserving as TfservingFrontEnd
    const at = { ...tfserving, port: tfserving.port }
    const routesOf = ({ parts: shared }: RouteParts): Route[] => [
      ...frontEnd.ownRoutes(frontEnd.routes(shared, options.sharedHttp)),
      ...monitoringRoutes(parts, tfserving.monitoringPath),
    ]
    const port = createPort(parts, options, 'Tfserving', at, routesOf)
    ports.push({ protocol: 'tfserving', title: 'TensorFlow Serving REST service', port })
  }
  if (sagemaker !== null) {
    const { sagemakerRoutes } = await import('./frontends/sagemaker/sagemaker-routes.ts')
    const routesOf = ({ parts: shared, v2 }: RouteParts): Route[] =>
      sagemakerRoutes({ ...shared, folders: parts.mapped as MappedFolders, inference: inferenceOf(v2) }, sagemaker)
    const port = createPort(parts, options, 'SageMaker', sagemaker, routesOf)
    ports.push({ protocol: 'sagemaker', title: 'Sagemaker HTTPService', port })
  }
  if (vertexAi !== null) {
    const { vertexAiRoutes } = await import('./frontends/vertex-ai/vertex-ai-routes.ts')
    const metrics = parts.metricsRoutes
    const routesOf = ({ parts: shared, v2, admission }: RouteParts): Route[] =>
      vertexAiRoutes({ ...shared, infer: inferenceOf(v2).infer, v2, metrics, admission }, vertexAi)
    const port = createPort(parts, options, 'Vertex-AI', vertexAi, routesOf)
    ports.push({ protocol: 'vertex_ai', title: 'Vertex AI HTTPService', port })
  }
  if (torchserve !== null) ports.push(...(await createTorchservePorts(parts, options, torchserve)))
  return ports
}

/** The metrics page, at the path that TensorFlow Serving's monitoring configuration names. */
const monitoringRoutes = (parts: FurtherParts, path: string): Route[] =>
  path === '' ? [] : [get(path, 'statistics', metricsPage(parts))]

const metricsPage =
  ({ metricsRoutes }: FurtherParts): RouteHandler =>
  (http, ...asked) => {
    const page = metricsRoutes().find((route) => route.path === '/metrics')
    if (page !== undefined) page.handle(http, ...asked)
    else http.respond(messageResponse(404, 'metrics are switched off: start with --allow-metrics=true', jsonType))
  }

async function createTorchservePorts(
  parts: FurtherParts,
  options: ServerOptions,
  torchserve: TorchserveOptions,
): Promise<FurtherPort[]> {
  const { openTorchserve } = await import('./torchserve-ports.ts')
  const python = interpreterOf(options.engine.backendConfig, 'torchserve')
  const { routes, grpc, close } = await openTorchserve(parts, torchserve, python)
  const opened = torchserveListeners(torchserve).map(({ kinds, ...at }, index) => {
    const [kind] = kinds
    const routesOf = ({ parts: shared, predict }: RouteParts): Route[] =>
      onceEach(kinds.flatMap((each) => routes[each]({ ...shared, predict })))
    const port = createPort(parts, options, `TorchServe-${kind}`, { ...torchserve, ...at }, routesOf)
    const protocol = kind === 'inference' ? 'torchserve' : `torchserve_${kind}`
    return { protocol, title: `TorchServe ${kind}`, port, ...(index === 0 ? { close } : {}) }
  })
  const { grpcAddress, grpcPort, grpcManagementAddress, grpcManagementPort } = torchserve
  const called = await Promise.all(
    [
      { kind: 'inference', address: grpcAddress, number: grpcPort } as const,
      { kind: 'management', address: grpcManagementAddress, number: grpcManagementPort } as const,
    ].map(async ({ kind, address, number }): Promise<FurtherPort[]> => {
      if (number === null) return []
      const title = `TorchServe gRPC ${kind}`
      const { createFurtherGrpcPort } = await import('./grpc-front-ends.ts')
      const at = { ...options.sharedGrpc, address, port: number, reusePort: false, socketPath: '' }
      return [{ protocol: `torchserve_grpc_${kind}`, title, port: createFurtherGrpcPort(parts, at, [grpc[kind]()]) }]
    }),
  )
  return [...opened, ...called.flat()]
}

/** The first route of each path: several front ends on one port may all describe themselves. */
const onceEach = (routes: readonly Route[]): Route[] =>
  routes.filter(({ path }, index) => routes.findIndex((route) => route.path === path) === index)

function createPort(
  dependencies: FurtherParts,
  { sharedHttp }: ServerOptions,
  kind: PortKind,
  { address, port, threadCount }: FurtherPortOptions,
  routesOf: (parts: RouteParts) => Route[],
): HttpPort {
  const options = { ...sharedHttp, address, port, reusePort: false }
  validateHttpOptions(options)
  const maxThreads = Math.min(Math.max(1, threadCount), availableParallelism())
  const offload = new JsonOffload(dependencies, { ...defaultJsonOffloadSettings, maxThreads })
  const { admission, parts } = httpParts(dependencies, options, offload)
  const { refusals, wording } = dependencies.engine
  const closing = closeAll(offload, parts.openAi, parts.uploads)
  const cannotListen = (cause: Error): ServerError => {
    if ((cause as NodeJS.ErrnoException).code === 'EADDRINUSE') return portInUse({ kind, address, port }, cause)
    return new ServerError('INTERNAL', `cannot listen for ${kind} on ${address}:${port}: ${messageOf(cause)}`, {
      cause,
    })
  }
  return new HttpPort(
    { ...dependencies, refusals, admission, offload: closing, cannotListen },
    {
      ...options,
      bodyLimitBytes: bodyLimitBytes(options),
      protocol: 'http',
      hasFlags: true,
      closesMalformed: wording.isTriton,
    },
    routesOf({ admission, parts, v2: httpRoutes(parts, options), predict: predictEndpoint(parts, options) }),
  )
}

/** The endpoints of v2 that take tensors. */
function inferenceOf(v2: readonly Route[]): Readonly<Record<'infer' | 'generate' | 'generate_stream', RouteHandler>> {
  const handlerOf = (name: string): RouteHandler =>
    (v2.find(({ path }) => path === `/v2/models/{model}[/versions/{version}]/${name}`) as Route).handle
  return {
    infer: handlerOf('infer'),
    generate: handlerOf('generate'),
    generate_stream: handlerOf('generate_stream'),
  }
}
