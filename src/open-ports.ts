// Opens the ports of a server, before its models are loaded or after.

import type { Caller } from './access/caller.ts'
import { visibleModels } from './access/require-right.ts'
import type { ClosingStack } from './base/closing-stack.ts'
import { hostAndPort } from './base/host-and-port.ts'
import type { ServerError } from './base/server-error.ts'
import type { SharedMemoryRegistry } from './engine/shared-memory/shared-memory-registry.ts'
import type { FeedsOnDemand } from './frontends/feeds/feed-routes.ts'
import type { LazyReleases } from './lazy-releases.ts'
import type { TfservingFrontEnd } from './tfserving-front-end.ts'
import { createFurtherPorts, type FurtherPort } from './further-ports.ts'
import { createHttpPort, type HttpDependencies } from './http-front-ends.ts'
import { createMetricsService, type MetricsServiceDependencies } from './metrics-service.ts'
import type { ServerOptions } from './options/server-options.ts'
import type { GrpcPort } from './ports/grpc/grpc-port.ts'
import { errorResponse } from './ports/http/error-response.ts'
import type { HttpPort } from './ports/http/http-port.ts'
import type { MappedFolders } from './repository/mapped-folders.ts'
import { jsonType } from './transport/http1/http-message.ts'
import { GrpcStatus } from './transport/grpc/grpc-status.ts'
import type { TrafficSource } from './telemetry/server-families.ts'

type Address = { readonly address: string; readonly port: number }

export type Addresses = {
  /** Null when `--allow-http=false`. */
  readonly httpAddress: Address | null
  /** Null when `--allow-grpc=false`. */
  readonly grpcAddress: Address | null
  /** Null when `--allow-metrics=false`. */
  readonly metricsAddress: Address | null
  /** The ports of further protocols, by their titles. */
  readonly furtherAddresses: readonly (readonly [title: string, address: Address])[]
}

export type Ports = { http: HttpPort | null; grpc: GrpcPort | null; further: FurtherPort[] }

type PortParts = HttpDependencies &
  Omit<MetricsServiceDependencies, 'traffic'> & {
    readonly sharedMemory: SharedMemoryRegistry
    readonly feeds: FeedsOnDemand
    readonly grpcModule: Promise<typeof import('./grpc-front-ends.ts')> | null
    readonly mapped: MappedFolders | null
    readonly tfserving?: TfservingFrontEnd
    readonly rollouts: LazyReleases
  }

type Opening = {
  readonly parts: PortParts
  readonly options: ServerOptions
  readonly ports: Ports
  readonly portsPlace: ClosingStack
  readonly metricsPlace: ClosingStack
  /** Loads the models; false: they serve nothing, because one of them failed. */
  readonly load: () => Promise<boolean>
}

const noAddresses: Addresses = { httpAddress: null, grpcAddress: null, metricsAddress: null, furtherAddresses: [] }

/** Loads the models and opens the ports, in the order that `--listen-while-loading` says. */
export async function openPorts(opening: Opening): Promise<Addresses> {
  const { load, parts, options } = opening
  const shared: Shared = { ...opening, traffic: [], metrics: null }
  if (!options.process.listensWhileLoading) {
    if (!(await load())) return noAddresses
    const furtherAddresses = await openFurther(shared)
    return { ...(await openMain(shared, null)), furtherAddresses }
  }
  const releases = [parts.engine.holdReadiness()]
  const open = async (): Promise<Addresses> => {
    const addresses = await openMain(shared, releases)
    parts.log.from('open-ports.ts').info(`Ports are open while models load: ${portsText(addresses)}`)
    return addresses
  }
  // A port that cannot be opened ends the start, and the end waits for loads.
  const [loaded, opened] = await Promise.allSettled([load(), open()])
  if (opened.status === 'rejected') throw opened.reason
  if (loaded.status === 'rejected') throw loaded.reason
  const main = opened.value
  if (!loaded.value) return main
  const furtherAddresses = await openFurther(shared)
  // In one turn of the event loop: who hears that the server is ready is served on every port.
  for (const release of releases) release()
  return { ...main, furtherAddresses }
}

type Shared = Opening & {
  /** The ports that the metrics page tells of. */
  readonly traffic: TrafficSource[]
  metrics: ReturnType<typeof createMetricsService> | null
}

/** HTTP listens last: a client that finds HTTP ready may use the other ports at once. */
async function openMain(shared: Shared, releases: (() => void)[] | null): Promise<Addresses> {
  const { parts, options, ports, portsPlace, traffic } = shared
  const { engine } = parts
  const startingErrorFor = (caller: Caller): ServerError =>
    engine.startingError(visibleModels(caller, 'metadata') ?? undefined)
  let httpAddress: Address | null = null
  let grpcAddress: Address | null = null
  let metricsAddress: Address | null = null
  if (options.grpc !== null && parts.grpcModule !== null) {
    const { createGrpcPort } = await parts.grpcModule
    const grpcParts = { ...parts, otherPort: () => httpAddress?.port ?? null }
    const grpcOptions = { ...options.grpc, ...parts.tfserving?.grpcOptions }
    ports.grpc = portsPlace.add(createGrpcPort(grpcParts, grpcOptions), (opened) => opened.close())
    releases?.push(ports.grpc.hold((caller) => GrpcStatus.of(startingErrorFor(caller))))
    traffic.unshift({ protocol: 'grpc', meter: ports.grpc.traffic })
    grpcAddress = await ports.grpc.listen()
  }
  if (options.http !== null) {
    const otherPort = (): number | null => grpcAddress?.port ?? null
    const httpParts = { ...parts, otherPort, metricsPort: () => metricsAddress?.port ?? null }
    ports.http = portsPlace.add(createHttpPort(httpParts, options.http), (opened) => opened.close())
    releases?.push(ports.http.hold((caller) => errorResponse(startingErrorFor(caller), jsonType)))
    traffic.unshift({ protocol: 'http', meter: ports.http.traffic })
  }
  if (options.metrics !== null) {
    const created = createMetricsService({ ...parts, traffic }, options.metrics)
    shared.metrics = shared.metricsPlace.add(created, (opened) => opened.close())
    metricsAddress = await shared.metrics.listen()
    parts.alerts?.watch(() => created.text())
  }
  httpAddress = (await ports.http?.listen()) ?? null
  return { httpAddress, grpcAddress, metricsAddress, furtherAddresses: [] }
}

/** The ports of protocols that need loaded models to begin with. */
async function openFurther(shared: Shared): Promise<[string, Address][]> {
  const { parts, options, ports, portsPlace, traffic } = shared
  const furtherParts = { ...parts, metricsRoutes: () => shared.metrics?.routes ?? [] }
  const addresses: [string, Address][] = []
  for (const further of await createFurtherPorts(furtherParts, options)) {
    ports.further.push(portsPlace.add(further, closeFurther))
    traffic.push({ protocol: further.protocol, meter: further.port.traffic })
  }
  for (const { title, port } of ports.further) addresses.push([title, await port.listen()])
  return addresses
}

async function closeFurther({ port, close }: FurtherPort): Promise<void> {
  await port.close()
  await close?.()
}

function portsText({ httpAddress, grpcAddress, metricsAddress }: Addresses): string {
  const named: [string, Address | null][] = [
    ['HTTP', httpAddress],
    ['gRPC', grpcAddress],
    ['metrics', metricsAddress],
  ]
  return named.flatMap(([name, at]) => (at === null ? [] : [`${name} ${hostAndPort(at)}`])).join(', ')
}
