// The registry in the OpenAPI document.

import {
  errorAnswer,
  list,
  modelParameter,
  object,
  ok,
  operation,
  pathParameter,
  text,
  type Json,
  type JsonObject,
} from './openapi-parts.ts'

const texts = list(text)
const whole: JsonObject = { type: 'integer', minimum: 0 }
const contentHash: JsonObject = { type: 'string', pattern: '^sha256:[0-9a-f]{64}$' }
const state: JsonObject = { enum: ['READY', 'UNAVAILABLE', 'LOADING', 'UNLOADING'] }
const moment: JsonObject = { type: 'string', format: 'date-time' }

/** The keys of a registry file. */
const fields: JsonObject = {
  owner: text,
  description: text,
  tags: texts,
  framework: text,
  training_data: texts,
  metrics: { type: 'object', additionalProperties: { type: 'number' } },
  approved_by: texts,
  lineage: object([], { parent_version: text, source_uri: text }),
  cost: object(['instance_hour'], { instance_hour: { type: 'number' } }),
  extra: { type: 'object' },
}

const measures: JsonObject = {
  content_hash: contentHash,
  size_bytes: whole,
  file_count: whole,
  memory_bytes: whole,
  loaded_at: moment,
}

const versionFields: JsonObject = { version: text, state, reason: text, ...measures, ...fields }

const model = object(['name', 'versions'], {
  name: text,
  namespace: text,
  ...fields,
  file: text,
  problems: texts,
  override: { enum: ['config', 'files'] },
  reason: text,
  versions: list(object(['version'], versionFields)),
})

const event = object(['time', 'action', 'model', 'outcome', 'duration_ms', 'by'], {
  time: moment,
  action: { enum: ['load', 'reload', 'unload', 'sleep'] },
  model: text,
  versions: list(object([], { version: text, content_hash: contentHash })),
  outcome: { enum: ['ok', 'unchanged', 'failed'] },
  reason: text,
  duration_ms: { type: 'number' },
  override: { enum: ['config', 'files'] },
  by: { enum: ['http', 'grpc', 'model', 'embedding', 'start', 'poll', 'demand', 'residency', 'rollout'] },
  address: text,
  key: text,
  request_id: text,
  trace_id: text,
  because: text,
})

/** The keys that `?details=true` adds to the index. */
export const indexDetails: JsonObject = { ...measures, ...fields }

const query = (name: string, description: string, schema: Json = text): JsonObject => ({
  name,
  in: 'query',
  required: false,
  description,
  schema,
})

export const detailsParameter = query('details', 'true: with what the registry knows of each version', {
  type: 'boolean',
})

const refused = { '400': errorAnswer('A query parameter is not as it should be') }
const unknown = { '404': errorAnswer('No such model or version') }

export function registryPaths(): JsonObject {
  const page = object(['models', 'total'], { models: list(model), total: whole, next: text })
  const one = object(['name', 'version'], {
    name: text,
    namespace: text,
    ...versionFields,
    file: text,
    problems: texts,
  })
  const history = object(['name', 'events'], { name: text, events: list(event) })
  return {
    '/v2/registry': {
      get: {
        ...operation('searchRegistry', 'server', 'Models by tag, owner and text', {
          ...ok(page, 'A page'),
          ...refused,
        }),
        parameters: [
          query('tag', 'Models that have it; several: all of them', texts),
          query('owner', 'Models of this owner'),
          query('q', 'Anywhere in name, owner, description, tags or framework, in any case'),
          query('limit', 'How many at most', { type: 'integer', minimum: 1, maximum: 1000, default: 100 }),
          query('after', "What the answer before said as 'next'"),
        ],
      },
    },
    '/v2/models/{model}/registry': {
      parameters: [modelParameter],
      get: operation('modelRegistry', 'model', 'What is known about a model', {
        ...ok(model, 'The model'),
        ...unknown,
      }),
    },
    '/v2/models/{model}/versions/{version}/registry': {
      parameters: [modelParameter, pathParameter('version')],
      get: operation('versionRegistry', 'model', 'What is known about a version', {
        ...ok(one, 'The version'),
        ...unknown,
      }),
    },
    '/v2/models/{model}/registry/history': {
      parameters: [modelParameter],
      get: {
        ...operation('modelHistory', 'model', 'Who loaded and unloaded a model, newest first', {
          ...ok(history, 'The last changes'),
          ...refused,
          ...unknown,
        }),
        parameters: [query('limit', 'How many at most', { type: 'integer', minimum: 1, maximum: 50 })],
      },
    },
  }
}
