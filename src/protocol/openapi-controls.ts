// The endpoints beside inference in the OpenAPI document: generate, repository, statistics, trace, log, shared memory.

import { accessPaths } from './openapi-access.ts'
import { faultPaths } from './openapi-faults.ts'
import { feedPaths } from './openapi-feeds.ts'
import { jobPaths } from './openapi-jobs.ts'
import { rolloutPaths } from './openapi-rollouts.ts'
import { detailsParameter, indexDetails, registryPaths } from './openapi-registry.ts'
import {
  anyObject,
  errorAnswer,
  jsonContent,
  list,
  modelParameter,
  object,
  ok,
  operation,
  pathParameter,
  ref,
  text,
  type Json,
  type JsonObject,
} from './openapi-parts.ts'

const repositoryParameter = pathParameter('repository')
const regionParameter = pathParameter('region')

const body = (schema: Json, required: boolean): JsonObject => ({
  requestBody: { required, content: jsonContent(schema) },
})

/** The generate paths of the model that the parameters name. */
export function generatePaths(base: string, parameters: readonly Json[], suffix: string): JsonObject {
  const refusals = {
    '400': errorAnswer('The request does not fit the model or a limit, or the model answered with an error first'),
    '404': errorAnswer('No such model or version'),
    '500': errorAnswer('The JSON is malformed'),
    '503': errorAnswer('The model or server is not ready, or its queue is full'),
  }
  const events = {
    'text/event-stream': { schema: { type: 'string', description: 'data: {…}, one event per response' } },
  }
  return {
    [`${base}/generate`]: {
      parameters,
      post: {
        ...operation(`generate${suffix}`, 'model', 'Run a model on plain JSON, for one response', {
          ...ok(ref('GenerateResponse'), 'The model answered'),
          ...refusals,
        }),
        ...body(ref('GenerateRequest'), true),
      },
    },
    [`${base}/generate_stream`]: {
      parameters,
      post: {
        ...operation(`generateStream${suffix}`, 'model', 'Run a model on plain JSON, responses as they are made', {
          '200': { description: 'Server-sent events, each a GenerateResponse or an Error', content: events },
          ...refusals,
        }),
        ...body(ref('GenerateRequest'), true),
      },
    },
    [`${base}/stats`]: {
      parameters,
      get: operation(`statistics${suffix}`, 'model', 'What a model has done', {
        ...ok(anyObject, 'Statistics'),
        '400': errorAnswer('No such model or version'),
        '404': errorAnswer('The version is no number'),
      }),
    },
  }
}

export const generateSchemas = (): JsonObject => ({
  GenerateRequest: {
    type: 'object',
    description:
      'A member named like an input is that tensor (a value or an array), every other one a request parameter; ' +
      "members of 'parameters' count the same",
    properties: { id: text, parameters: anyObject },
    additionalProperties: true,
  },
  GenerateResponse: {
    type: 'object',
    description: 'One member per output (a value, or an array of more) and per response parameter',
    required: ['model_name', 'model_version'],
    properties: { id: text, model_name: text, model_version: text },
    additionalProperties: true,
  },
})

export const controlPaths = (): JsonObject => ({
  ...repositoryPaths(),
  ...registryPaths(),
  ...rolloutPaths(),
  ...faultPaths(),
  ...accessPaths(),
  ...jobPaths(),
  ...feedPaths(),
  '/v2/models/stats': {
    get: operation('allStatistics', 'server', 'What all models have done', ok(anyObject, 'Statistics')),
  },
  ...settings('/v2/trace/setting', [], 'trace', 'Which requests are traced'),
  ...settings(
    '/v2/models/{model}/trace/setting',
    [modelParameter],
    'modelTrace',
    'Which requests of a model are traced',
  ),
  ...settings('/v2/logging', [], 'logging', 'What is logged'),
  ...sharedMemoryPaths('system', 'System'),
  ...sharedMemoryPaths('cuda', 'Cuda'),
})

function settings(path: string, parameters: readonly Json[], id: string, summary: string): JsonObject {
  const answers = { ...ok(anyObject, 'The settings'), '400': errorAnswer('No such setting, or no such value of it') }
  return {
    [path]: {
      ...(parameters.length === 0 ? {} : { parameters }),
      get: operation(`${id}Settings`, 'server', summary, answers),
      post: {
        ...operation(`${id}SettingsChange`, 'server', `Change: ${summary.toLowerCase()}`, answers),
        ...body(anyObject, true),
      },
    },
  }
}

function repositoryPaths(): JsonObject {
  const row = object(['name'], { name: text, version: text, state: text, reason: text, ...indexDetails })
  const index = (id: string): JsonObject => ({
    ...operation(id, 'server', 'Models in the repositories and how they serve', {
      ...ok(list(row), 'The index'),
      '400': errorAnswer('`ready` or `details` is not true or false'),
    }),
    parameters: [detailsParameter],
    ...body(object([], { ready: { type: 'boolean' } }), false),
  })
  const change = (id: string, summary: string): JsonObject => ({
    ...operation(id, 'server', summary, {
      '200': { description: 'Done' },
      '400': errorAnswer('It cannot be'),
      '503': errorAnswer('Models are not controlled by requests: see --model-control-mode'),
    }),
    ...body(object([], { parameters: anyObject }), false),
  })
  const named = [repositoryParameter, modelParameter]
  return {
    '/v2/repository/index': { post: index('repositoryIndex') },
    '/v2/repository/{repository}/index': { parameters: [repositoryParameter], post: index('namedRepositoryIndex') },
    '/v2/repository/models/{model}/load': { parameters: [modelParameter], post: change('loadModel', 'Load a model') },
    '/v2/repository/models/{model}/unload': {
      parameters: [modelParameter],
      post: change('unloadModel', 'Unload a model'),
    },
    '/v2/repository/{repository}/models/{model}/load': {
      parameters: named,
      post: change('loadNamed', 'Not supported'),
    },
    '/v2/repository/{repository}/models/{model}/unload': {
      parameters: named,
      post: change('unloadNamed', 'Not supported'),
    },
  }
}

function sharedMemoryPaths(kind: 'system' | 'cuda', name: string): JsonObject {
  const base = `/v2/${kind}sharedmemory`
  const size = { byte_size: { type: 'integer', minimum: 1 } }
  const registration: Json =
    kind === 'system'
      ? object(['key', 'byte_size'], { key: text, offset: { type: 'integer' }, ...size })
      : object(['raw_handle', 'byte_size'], { raw_handle: anyObject, device_id: { type: 'integer' }, ...size })
  const refused = { '400': errorAnswer('It cannot be'), '501': errorAnswer('Clients may not use shared memory here') }
  const status = (id: string): JsonObject =>
    operation(id, 'server', `Registered ${kind} shared memory`, {
      ...ok(list(anyObject), 'Regions'),
      '404': errorAnswer('No such region'),
    })
  const unregister = (id: string): JsonObject =>
    operation(id, 'server', `Take ${kind} shared memory back`, { '200': { description: 'Done' }, ...refused })
  const one = { parameters: [regionParameter] }
  return {
    [`${base}/status`]: { get: status(`all${name}Memory`) },
    [`${base}/region/{region}/status`]: { ...one, get: status(`one${name}Memory`) },
    [`${base}/region/{region}/register`]: {
      ...one,
      post: {
        ...operation(`register${name}Memory`, 'server', `Register ${kind} shared memory`, {
          '200': { description: 'Done' },
          ...refused,
        }),
        ...body(registration, true),
      },
    },
    [`${base}/register`]: {
      post: operation(`registerUnnamed${name}Memory`, 'server', 'Refused: a region needs a name', refused),
    },
    [`${base}/unregister`]: { post: unregister(`unregisterAll${name}Memory`) },
    [`${base}/region/{region}/unregister`]: { ...one, post: unregister(`unregister${name}Memory`) },
  }
}
