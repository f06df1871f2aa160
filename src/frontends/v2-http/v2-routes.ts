import type { LogControl } from '../../base/log-control.ts'
import type { Log } from '../../base/log.ts'
import type { Clock } from '../../base/clock.ts'
import type { Engine } from '../../engine/engine.ts'
import type { LoadSource } from '../../model/load-source.ts'
import type { SharedMemoryRegistry } from '../../engine/shared-memory/shared-memory-registry.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import type { JsonOffload } from '../../ports/http/json-offload.ts'
import { forAll, get, getOrPost, large, post, ofConsole, type Route } from '../../ports/http/route.ts'
import { plainType } from '../../transport/http1/http-message.ts'
import { InferEndpoint } from './infer-endpoint.ts'
import { loggingEndpoint } from './logging-endpoint.ts'
import { MetadataEndpoints } from './metadata-endpoints.ts'
import { RegistryEndpoints } from './registry-endpoints.ts'
import { RepositoryEndpoints } from './repository-endpoints.ts'
import { SharedMemoryEndpoints } from './shared-memory-endpoints.ts'
import { StatisticsEndpoints } from './statistics-endpoints.ts'
import { TraceEndpoints } from './trace-endpoints.ts'

const model = '/v2/models/{model}'
const modelVersion = `${model}[/versions/{version}]`

export type V2Parts = {
  readonly engine: Engine
  readonly clock: Clock
  readonly log: Log
  readonly offload: JsonOffload
  /** The regions that clients registered, over HTTP or gRPC. */
  readonly sharedMemory: SharedMemoryRegistry
  /** The log settings that `/v2/logging` shows and changes. Left out: the endpoint has no settings. */
  readonly logControl?: LogControl
  /** TensorFlow Serving's protocol, where it is on. */
  readonly tfserving?: unknown
  /** How loaded the server is; left out: nobody is told. */
  readonly load?: LoadSource | null
}

/** The routes of KServe v2 with the extensions of Triton and of Galatea. */
export function v2Routes(parts: V2Parts, options: HttpOptions): Route[] {
  return [
    ...metadataRoutes(new MetadataEndpoints(parts.engine, parts.tfserving !== undefined, parts.load ?? null)),
    large(post(`${modelVersion}/infer`, 'inference', new InferEndpoint(parts, options).handle, plainType)),
    ...repositoryRoutes(new RepositoryEndpoints(parts)),
    ...registryRoutes(new RegistryEndpoints(parts.engine)),
    ...observationRoutes(parts),
    ...sharedMemoryRoutes(new SharedMemoryEndpoints(parts.sharedMemory, parts.engine.wording)),
  ]
}

const metadataRoutes = (metadata: MetadataEndpoints): Route[] => [
  get('/v2/health/live', 'health', metadata.live, plainType),
  get('/v2/health/ready', 'health', metadata.ready, plainType),
  get('/health/live', 'health', metadata.live, plainType),
  get('/health/ready', 'health', metadata.ready, plainType),
  ofConsole(forAll(get('/v2/health/detail', 'health', metadata.healthDetail))),
  get('/v2', 'metadata', metadata.serverMetadata),
  get('/v2/openapi.json', 'metadata', metadata.openApi),
  get(modelVersion, 'metadata', metadata.modelMetadata),
  get(`${modelVersion}/ready`, 'health', metadata.modelReady, plainType),
  get(`${modelVersion}/config`, 'model-config', metadata.modelConfig),
]

const repositoryRoutes = (repository: RepositoryEndpoints): Route[] => [
  post('/v2/repository[/{repository}]/index', 'model-repository', repository.index),
  large(post('/v2/repository/models/{model}/load', 'model-repository', repository.load)),
  post('/v2/repository/models/{model}/unload', 'model-repository', repository.unload),
  post('/v2/repository/{repository}/models/{model}/load', 'model-repository', repository.refuseNamedRepository),
  post('/v2/repository/{repository}/models/{model}/unload', 'model-repository', repository.refuseNamedRepository),
]

const registryRoutes = (registry: RegistryEndpoints): Route[] => [
  get('/v2/registry', 'model-repository', registry.search),
  get(`${modelVersion}/registry`, 'model-repository', registry.ofModel),
  get(`${model}/registry/history`, 'model-repository', registry.history),
]

function observationRoutes({ engine, clock, logControl }: V2Parts): Route[] {
  const statistics = new StatisticsEndpoints({ engine, clock })
  const trace = new TraceEndpoints(engine)
  return [
    get('/v2/models/stats', 'statistics', statistics.all),
    get(`${modelVersion}/stats`, 'statistics', statistics.ofModel),
    forAll(getOrPost('/v2/trace/setting', 'trace', trace.handle)),
    getOrPost(`${model}/trace/setting`, 'trace', trace.handle),
    getOrPost('/v2/logging', 'logging', loggingEndpoint(logControl ?? null, engine.wording)),
  ]
}

function sharedMemoryRoutes(regions: SharedMemoryEndpoints): Route[] {
  const [system, cuda] = ['/v2/systemsharedmemory', '/v2/cudasharedmemory']
  return [
    get(`${system}[/region/{region}]/status`, 'shared-memory', regions.systemStatus),
    post(`${system}[/region/{region}]/register`, 'shared-memory', regions.registerSystem),
    post(`${system}[/region/{region}]/unregister`, 'shared-memory', regions.unregisterSystem),
    get(`${cuda}[/region/{region}]/status`, 'shared-memory', regions.cudaStatus),
    post(`${cuda}[/region/{region}]/register`, 'shared-memory', regions.registerCuda),
    post(`${cuda}[/region/{region}]/unregister`, 'shared-memory', regions.unregisterCuda),
  ]
}
