// What Envoy is told: a listener, routes by the path of the model, a cluster per model, and the servers of each cluster.

import { createHash } from 'node:crypto'
import type { FleetMap, FleetModel } from './fleet-map.ts'
import type { FleetMember } from './fleet-member.ts'
import { destinationKey, destinationNamespace, zoneHeader } from './pick-destination.ts'
import { encodeXds, packed, typeUrlOf, type Packed } from './xds-codec.ts'

export type EnvoySettings = {
  readonly listenAddress: string
  readonly listenPort: number
  /** True: the picker chooses for every inference; false: where the path alone does not say enough. */
  readonly picksAll: boolean
  /** Envoy's cluster of the control plane in its own bootstrap. */
  readonly controlCluster: string
  /** The most bytes of a request that Envoy keeps in order to send it again. */
  readonly retryBodyBytes: number
  /** The head of a body that the picker sees has at most so many bytes. */
  readonly headBytes: number
  /** Per cent of the requests under way that may be repeats. */
  readonly retryBudgetPercent: number
}

type Message = Readonly<Record<string, unknown>>

export type XdsResource = { readonly name: string; readonly version: string; readonly packed: Packed }
export type XdsResources = ReadonlyMap<string, ReadonlyMap<string, XdsResource>>

const cluster = 'envoy.config.cluster.v3.Cluster'
const assignment = 'envoy.config.endpoint.v3.ClusterLoadAssignment'
const listener = 'envoy.config.listener.v3.Listener'
const routes = 'envoy.config.route.v3.RouteConfiguration'

/** What differs between Envoys. */
type EnvoyPlace = {
  /** The zone of the Envoy; '' where it did not say, or where no server is. */
  readonly zone: string
  /** Whether servers of this zone come before others, for the model of this name; '' for all models together. */
  readonly isPreferred: (model: string) => boolean
}

const nowhere: EnvoyPlace = { zone: '', isPreferred: () => false }

/** In the order in which Envoy must get changes. */
export const xdsTypes = [cluster, assignment, listener, routes].map(typeUrlOf)

const seconds = (value: number): Message => ({ seconds: Math.floor(value), nanos: Math.round((value % 1) * 1e9) })
const number = (value: number): Message => ({ value })
const overAds: Message = { ads: {}, resourceApiVersion: 'V3', initialFetchTimeout: seconds(5) }
const socketAddress = (address: string, portValue: number): Message => ({ socketAddress: { address, portValue } })

const everyServer = 'galatea'
const everyGrpc = 'galatea-grpc'
const clusterOfModel = (name: string): string => `model/${name}`
const clusterOfVersion = (name: string, version: string): string => `model/${name}/${version}`

export function xdsResources(
  map: FleetMap,
  sequenceModels: ReadonlySet<string>,
  settings: EnvoySettings,
  place: EnvoyPlace = nowhere,
): XdsResources {
  const isPicked = (model: FleetModel): boolean => settings.picksAll || sequenceModels.has(model.name)
  const clusters: Message[] = [httpCluster(everyServer, true, settings), grpcCluster(everyGrpc, settings)]
  const assignments: Message[] = [
    assignmentOf(everyServer, map.serving, 'http', place.isPreferred('') ? place.zone : ''),
    assignmentOf(everyGrpc, map.serving, 'grpc', place.isPreferred('') ? place.zone : ''),
  ]
  const table: Message[] = []
  for (const model of map.models.values()) {
    const firstZone = place.isPreferred(model.name) ? place.zone : ''
    const add = (name: string, members: readonly FleetMember[]): void => {
      clusters.push(httpCluster(name, isPicked(model), settings))
      assignments.push(assignmentOf(name, members, 'http', firstZone))
    }
    add(clusterOfModel(model.name), model.members)
    if (model.differs)
      for (const [version, members] of model.versions) add(clusterOfVersion(model.name, version), members)
    table.push(...modelRoutes(model, sequenceModels.has(model.name), isPicked(model)))
  }
  const config = { name: 'fleet', validateClusters: { value: false }, virtualHosts: [virtualHost(table, settings)] }
  return new Map([
    [typeUrlOf(cluster), named(cluster, 'name', clusters)],
    [typeUrlOf(assignment), named(assignment, 'clusterName', assignments)],
    [typeUrlOf(listener), named(listener, 'name', [listenerOf(settings, place.zone)])],
    [typeUrlOf(routes), named(routes, 'name', [config])],
  ])
}

function named(type: string, key: string, messages: readonly Message[]): Map<string, XdsResource> {
  return new Map(
    messages.map((message) => {
      const value = encodeXds(type, message)
      const name = String(message[key])
      const version = createHash('sha256').update(value).digest('hex').slice(0, 16)
      return [name, { name, version, packed: { typeUrl: typeUrlOf(type), value } }]
    }),
  )
}

/** Servers of `firstZone` come first, and the others when those are not healthy. Envoy wants levels without gaps: without a server there, all are in one. */
function assignmentOf(
  clusterName: string,
  members: readonly FleetMember[],
  protocol: 'http' | 'grpc',
  firstZone: string,
): Message {
  const zones = new Map<string, Message[]>()
  for (const { address, httpPort, grpcPort, zone } of members) {
    const port = protocol === 'http' ? httpPort : grpcPort
    if (port === null) continue
    const endpoint = { address: socketAddress(address, port), healthCheckConfig: { portValue: httpPort } }
    zones.set(zone, [...(zones.get(zone) ?? []), { endpoint }])
  }
  const hasFirst = firstZone !== '' && zones.has(firstZone)
  const endpoints = [...zones].map(([zone, lbEndpoints]) => ({
    ...(zone === '' ? {} : { locality: { zone } }),
    lbEndpoints,
    priority: hasFirst && zone !== firstZone ? 1 : 0,
  }))
  return { clusterName, endpoints }
}

const extension = (name: string, type: string, value: Message): Message => ({
  typedExtensionConfig: { name, typedConfig: packed(type, value) },
})

const policyPackage = 'envoy.extensions.load_balancing_policies'
/** By the load that servers report. */
const byLoad: Message = extension(
  'envoy.load_balancing_policies.client_side_weighted_round_robin',
  `${policyPackage}.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin`,
  { blackoutPeriod: seconds(1), weightExpirationPeriod: seconds(30), weightUpdatePeriod: seconds(1) },
)
/** To the server that the picker chose; without a choice by load. */
const byPick: Message = extension(
  'envoy.load_balancing_policies.override_host',
  `${policyPackage}.override_host.v3.OverrideHost`,
  {
    overrideHostSources: [{ metadata: { key: destinationNamespace, path: [{ key: destinationKey }] } }],
    fallbackPolicy: { policies: [byLoad] },
  },
)

const httpCluster = (name: string, isPicked: boolean, settings: EnvoySettings): Message => ({
  name,
  type: 'EDS',
  edsClusterConfig: { edsConfig: overAds },
  connectTimeout: seconds(1),
  // A server that left the list gets nothing more, whatever its health.
  ignoreHealthOnHostRemoval: true,
  // Servers refuse what is too much for them. Envoy's small bounds of its own would refuse before them.
  circuitBreakers: {
    thresholds: [
      {
        maxConnections: number(100_000),
        maxPendingRequests: number(100_000),
        maxRequests: number(100_000),
        retryBudget: { budgetPercent: { value: settings.retryBudgetPercent }, minRetryConcurrency: number(32) },
      },
    ],
  },
  healthChecks: [
    {
      timeout: seconds(2),
      interval: seconds(1),
      noTrafficInterval: seconds(5),
      // Counts silences only: an answer that says "not ready" is enough once.
      unhealthyThreshold: number(3),
      healthyThreshold: number(1),
      // Every server answers to this name. Envoy would send the name of the cluster, and a server on loopback refuses names that it does not know.
      httpHealthCheck: { path: '/v2/health/ready', host: 'localhost' },
    },
  ],
  outlierDetection: {
    consecutive5xx: number(5),
    // A model that fails is no reason to leave a server out for all models.
    enforcingConsecutive5xx: number(name.startsWith('model/') ? 100 : 0),
    consecutiveGatewayFailure: number(3),
    enforcingConsecutiveGatewayFailure: number(100),
    enforcingSuccessRate: number(0),
    interval: seconds(1),
    baseEjectionTime: seconds(2),
    maxEjectionPercent: number(50),
  },
  loadBalancingPolicy: { policies: [isPicked ? byPick : byLoad] },
})

const protocolOptions = 'envoy.extensions.upstreams.http.v3.HttpProtocolOptions'

const grpcCluster = (name: string, settings: EnvoySettings): Message => ({
  ...httpCluster(name, true, settings),
  typedExtensionProtocolOptions: new Map([
    [protocolOptions, packed(protocolOptions, { explicitHttpConfig: { http2ProtocolOptions: {} } })],
  ]),
})

const manager = 'envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager'
const processor = 'envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor'
const pickerFilter = 'envoy.filters.http.ext_proc'

const listenerOf = (
  { listenAddress, listenPort, controlCluster, headBytes }: EnvoySettings,
  zone: string,
): Message => ({
  name: 'fleet',
  address: socketAddress(listenAddress, listenPort),
  perConnectionBufferLimitBytes: number(headBytes),
  filterChains: [
    {
      filters: [
        {
          name: 'envoy.filters.network.http_connection_manager',
          typedConfig: packed(manager, {
            statPrefix: 'fleet',
            // A model may think for as long as it wants.
            streamIdleTimeout: {},
            requestHeadersTimeout: seconds(60),
            rds: { routeConfigName: 'fleet', configSource: overAds },
            httpFilters: [
              { name: pickerFilter, typedConfig: packed(processor, pickerSettings(controlCluster, zone)) },
              { name: 'envoy.filters.http.router', typedConfig: packed('envoy.extensions.filters.http.router.v3.Router', {}) },
            ], // prettier-ignore
          }),
        },
      ],
    },
  ],
})

const pickerSettings = (clusterName: string, zone: string): Message => ({
  grpcService: {
    envoyGrpc: { clusterName },
    timeout: seconds(3600),
    initialMetadata: zone === '' ? [] : [{ key: zoneHeader, value: zone }],
  },
  // Without an answer of the picker the request goes on.
  failureModeAllow: true,
  messageTimeout: seconds(0.5),
  routeCacheAction: 'RETAIN',
  processingMode: modeOf('BUFFERED_PARTIAL'),
  metadataOptions: { receivingNamespaces: { untyped: [destinationNamespace] } },
})

const modeOf = (requestBodyMode: string): Message => ({
  requestHeaderMode: 'SEND',
  responseHeaderMode: 'SEND',
  requestBodyMode,
  // A body that streams in both directions may end with trailers, and Envoy asks for this.
  requestTrailerMode: requestBodyMode === 'FULL_DUPLEX_STREAMED' ? 'SEND' : 'SKIP',
})

const perRoute = (value: Message): ReadonlyMap<string, Packed> =>
  new Map([[pickerFilter, packed('envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute', value)]])
const notPicked = perRoute({ disabled: true })
const pickedBy = (mode: string): ReadonlyMap<string, Packed> =>
  perRoute({ overrides: { processingMode: modeOf(mode) } })

const previousHosts = 'envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate'
const previousPriorities = 'envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig'
/** Nothing of the request was done. */
const untouched = 'connect-failure,refused-stream'

const repeated = (retryOn: string, more: Message = {}): Message => ({
  retryOn,
  numRetries: number(3),
  retriableStatusCodes: [503],
  retryHostPredicate: [{ name: 'envoy.retry_host_predicates.previous_hosts', typedConfig: packed(previousHosts, {}) }],
  // Weights follow the load: one that has just died may be chosen many times more often than the others.
  hostSelectionRetryMaxAttempts: 100,
  // A zone whose only server has died must not get the repeat too.
  retryPriority: {
    name: 'envoy.retry_priorities.previous_priorities',
    typedConfig: packed(previousPriorities, { updateFrequency: 1 }),
  },
  retryBackOff: { baseInterval: seconds(0.025), maxInterval: seconds(0.25) },
  ...more,
})

const cautious = repeated(untouched)
/** An inference may be repeated until the first byte of its answer. */
const idempotent = repeated(`${untouched},reset,retriable-status-codes`)
/** While the picker is away a call may come to a server without the model: the next one may have it. */
const idempotentCall = repeated(`${untouched},reset,unavailable,retriable-headers`, {
  retriableHeaders: [{ name: 'grpc-status', stringMatch: { exact: '5' } }],
})

const routeTo = (match: Message, to: string, retryPolicy: Message, picked: ReadonlyMap<string, Packed>): Message => ({
  match,
  route: { cluster: to, timeout: {}, retryPolicy },
  typedPerFilterConfig: picked,
})

/** Paths of a model name it as it is, or with what must be escaped in a path. */
function modelRoutes(model: FleetModel, isSequence: boolean, isPicked: boolean): Message[] {
  const names = [...new Set([model.name, encodeURIComponent(model.name)])]
  const retries = isSequence ? cautious : idempotent
  const picked = isSequence ? pickedBy('BUFFERED_PARTIAL') : isPicked ? pickedBy('NONE') : notPicked
  const whole = clusterOfModel(model.name)
  return names.flatMap((name) => [
    ...(model.differs
      ? [...model.versions.keys()].flatMap((version) =>
          ['v2', 'v1'].map(
            (api) =>
            routeTo({ pathSeparatedPrefix: `/${api}/models/${name}/versions/${version}` }, clusterOfVersion(model.name, version), retries, picked), // prettier-ignore
          ),
        )
      : []),
    routeTo({ pathSeparatedPrefix: `/v2/models/${name}` }, whole, retries, picked),
    routeTo({ pathSeparatedPrefix: `/v1/models/${name}` }, whole, retries, picked),
    routeTo({ prefix: `/v1/models/${name}:` }, whole, retries, picked),
  ])
}

const v2Service = '/inference.GRPCInferenceService/'
const grpc = {}
/** OpenAI's paths: the body names the model. */
const namedInBody = ['chat/completions', 'completions', 'responses', 'embeddings', 'rerank']

function virtualHost(models: readonly Message[], { retryBodyBytes }: EnvoySettings): Message {
  return {
    name: 'fleet',
    domains: ['*'],
    requestBodyBufferLimit: number(retryBodyBytes),
    routes: [
      routeTo({ path: `${v2Service}ModelStreamInfer`, grpc }, everyGrpc, cautious, pickedBy('FULL_DUPLEX_STREAMED')),
      routeTo({ prefix: `${v2Service}Model`, grpc }, everyGrpc, idempotentCall, pickedBy('BUFFERED_PARTIAL')),
      routeTo({ prefix: '/tensorflow.serving.PredictionService/', grpc }, everyGrpc, idempotentCall, pickedBy('BUFFERED_PARTIAL')),
      routeTo({ prefix: '/', grpc }, everyGrpc, cautious, notPicked),
      ...models,
      ...namedInBody.map((path) => routeTo({ path: `/v1/${path}` }, everyServer, idempotent, pickedBy('BUFFERED_PARTIAL'))),
      routeTo({ prefix: '/' }, everyServer, cautious, notPicked),
    ], // prettier-ignore
  }
}
