import { messageResponse } from './error-response.ts'
import { jsonType, plainType } from './http-message.ts'
import type { MetadataEndpoints } from './metadata-endpoints.ts'
import type { RepositoryEndpoints } from './repository-endpoints.ts'
import type { ApiName } from './restricted-api-guard.ts'
import type { Route, RouteHandler } from './router.ts'

const getOnly = ['GET']
const postOnly = ['POST']
const getAndPost = ['GET', 'POST']
const model = '/v2/models/{model}'
const modelVersion = `${model}[/versions/{version}]`

/** Every path the server knows, Triton's and ours. */
export function routeTable(metadata: MetadataEndpoints, repository: RepositoryEndpoints, infer: RouteHandler): Route[] {
  return [
    get('/v2/health/live', 'health', metadata.live, plainType),
    get('/v2/health/ready', 'health', metadata.ready, plainType),
    get('/v2', 'metadata', metadata.serverMetadata),
    get('/v2/openapi.json', 'metadata', metadata.openApi),
    get(modelVersion, 'metadata', metadata.modelMetadata),
    get(`${modelVersion}/ready`, 'health', metadata.modelReady, plainType),
    get(`${modelVersion}/config`, 'model-config', metadata.modelConfig),
    { path: `${modelVersion}/infer`, methods: postOnly, api: 'inference', wrongMethodType: plainType, handle: infer },
    post('/v2/repository[/{repository}]/index', 'model-repository', repository.index),
    post('/v2/repository/models/{model}/load', 'model-repository', repository.load),
    post('/v2/repository/models/{model}/unload', 'model-repository', repository.unload),
    post('/v2/repository/{repository}/models/{model}/load', 'model-repository', repository.refuseNamedRepository),
    post('/v2/repository/{repository}/models/{model}/unload', 'model-repository', repository.refuseNamedRepository),
    ...unavailableYet,
  ]
}

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

function later(path: string, methods: readonly string[], api: ApiName, what: string): Route {
  const handle: RouteHandler = (request) =>
    request.respond(messageResponse(501, `${what} not available in this build of Galatea yet`, jsonType))
  return { path, methods, api, wrongMethodType: jsonType, handle }
}

/** Triton's endpoints that are still to come: they say so instead of pretending not to exist. */
const unavailableYet: readonly Route[] = [
  later(`${modelVersion}/generate`, postOnly, 'inference', 'the generate endpoint is'),
  later(`${modelVersion}/generate_stream`, postOnly, 'inference', 'the generate_stream endpoint is'),
  later('/v2/models/stats', getOnly, 'statistics', 'statistics are'),
  later(`${modelVersion}/stats`, getOnly, 'statistics', 'statistics are'),
  later('/v2/trace/setting', getAndPost, 'trace', 'trace settings are'),
  later(`${model}/trace/setting`, getAndPost, 'trace', 'trace settings are'),
  later('/v2/logging', getAndPost, 'logging', 'log settings are'),
  ...sharedMemory('/v2/systemsharedmemory', 'system shared memory is'),
  ...sharedMemory('/v2/cudasharedmemory', 'CUDA shared memory is'),
]

function sharedMemory(base: string, what: string): Route[] {
  return [
    later(`${base}[/region/{region}]/status`, getOnly, 'shared-memory', what),
    later(`${base}/region/{region}/register`, postOnly, 'shared-memory', what),
    later(`${base}[/region/{region}]/unregister`, postOnly, 'shared-memory', what),
  ]
}
