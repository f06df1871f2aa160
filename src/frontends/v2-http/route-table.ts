import type { GenerateEndpoints } from '../generate/generate-endpoints.ts'
import { jsonType, plainType } from '../../transport/http1/http-message.ts'
import type { MetadataEndpoints } from './metadata-endpoints.ts'
import type { RegistryEndpoints } from './registry-endpoints.ts'
import type { RepositoryEndpoints } from './repository-endpoints.ts'
import type { ApiName } from '../../access/api-name.ts'
import type { Route, RouteHandler } from '../../ports/http/router.ts'
import type { SharedMemoryEndpoints } from './shared-memory-endpoints.ts'
import type { StatisticsEndpoints } from './statistics-endpoints.ts'
import type { TraceEndpoints } from './trace-endpoints.ts'

const getOnly = ['GET']
const postOnly = ['POST']
const getAndPost = ['GET', 'POST']
const model = '/v2/models/{model}'
const modelVersion = `${model}[/versions/{version}]`
const system = '/v2/systemsharedmemory'
const cuda = '/v2/cudasharedmemory'

/** Every path the server knows, Triton's and ours. */
export function routeTable(
  metadata: MetadataEndpoints,
  repository: RepositoryEndpoints,
  infer: RouteHandler,
  statistics: StatisticsEndpoints,
  trace: TraceEndpoints,
  logging: RouteHandler,
  sharedMemory: SharedMemoryEndpoints,
  generate: GenerateEndpoints,
  registry: RegistryEndpoints,
): Route[] {
  return [
    get('/v2/health/live', 'health', metadata.live, plainType),
    get('/v2/health/ready', 'health', metadata.ready, plainType),
    get('/health/live', 'health', metadata.live, plainType),
    get('/health/ready', 'health', metadata.ready, plainType),
    get('/v2/health/detail', 'health', metadata.healthDetail),
    get('/v2', 'metadata', metadata.serverMetadata),
    get('/v2/openapi.json', 'metadata', metadata.openApi),
    get(modelVersion, 'metadata', metadata.modelMetadata),
    get(`${modelVersion}/ready`, 'health', metadata.modelReady, plainType),
    get(`${modelVersion}/config`, 'model-config', metadata.modelConfig),
    large({
      path: `${modelVersion}/infer`,
      methods: postOnly,
      api: 'inference',
      wrongMethodType: plainType,
      handle: infer,
    }),
    large(post(`${modelVersion}/generate`, 'inference', generate.generate)),
    large(post(`${modelVersion}/generate_stream`, 'inference', generate.generateStream)),
    post('/v2/repository[/{repository}]/index', 'model-repository', repository.index),
    large(post('/v2/repository/models/{model}/load', 'model-repository', repository.load)),
    post('/v2/repository/models/{model}/unload', 'model-repository', repository.unload),
    post('/v2/repository/{repository}/models/{model}/load', 'model-repository', repository.refuseNamedRepository),
    post('/v2/repository/{repository}/models/{model}/unload', 'model-repository', repository.refuseNamedRepository),
    get('/v2/registry', 'model-repository', registry.search),
    get(`${modelVersion}/registry`, 'model-repository', registry.ofModel),
    get(`${model}/registry/history`, 'model-repository', registry.history),
    get('/v2/models/stats', 'statistics', statistics.all),
    get(`${modelVersion}/stats`, 'statistics', statistics.ofModel),
    getOrPost('/v2/trace/setting', 'trace', trace.handle),
    getOrPost(`${model}/trace/setting`, 'trace', trace.handle),
    getOrPost('/v2/logging', 'logging', logging),
    get(`${system}[/region/{region}]/status`, 'shared-memory', sharedMemory.systemStatus),
    post(`${system}/region/{region}/register`, 'shared-memory', sharedMemory.registerSystem),
    post(`${system}[/region/{region}]/unregister`, 'shared-memory', sharedMemory.unregisterSystem),
    get(`${cuda}[/region/{region}]/status`, 'shared-memory', sharedMemory.cudaStatus),
    post(`${cuda}/region/{region}/register`, 'shared-memory', sharedMemory.registerCuda),
    post(`${cuda}[/region/{region}]/unregister`, 'shared-memory', sharedMemory.unregisterCuda),
  ]
}

const large = (route: Route): Route => ({ ...route, takesLargeBody: true })

const get = (path: string, api: ApiName, handle: RouteHandler, wrongMethodType = jsonType): Route => ({
  path,
  methods: getOnly,
  api,
  wrongMethodType,
  handle,
})

const post = (path: string, api: ApiName, handle: RouteHandler): Route => ({
  path,
  methods: postOnly,
  api,
  wrongMethodType: jsonType,
  handle,
})

const getOrPost = (path: string, api: ApiName, handle: RouteHandler): Route => ({
  path,
  methods: getAndPost,
  api,
  wrongMethodType: jsonType,
  handle,
})
