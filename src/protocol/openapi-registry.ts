// The registry in the OpenAPI document.

import { errorAnswer, jsonContent, operation, pathParameter, type Json, type JsonObject } from './openapi-parts.ts'

const text: JsonObject = { type: 'string' }
const texts: JsonObject = { type: 'array', items: text }
const whole: JsonObject = { type: 'integer', minimum: 0 }
const contentHash: JsonObject = { type: 'string', pattern: '^sha256:[0-9a-f]{64}$' }
const state: JsonObject = { enum: ['READY', 'UNAVAILABLE', 'LOADING', 'UNLOADING'] }
const moment: JsonObject = { type: 'string', format: 'date-time' }

/** What the registry file may say. */
const fields: JsonObject = {
  owner: text,
  description: text,
  tags: texts,
  framework: text,
  training_data: texts,
  metrics: { type: 'object', additionalProperties: { type: 'number' } },
  approved_by: texts,
  lineage: { type: 'object', properties: { parent_version: text, source_uri: text } },
  extra: { type: 'object' },
}

const measures: JsonObject = {
  content_hash: contentHash,
  size_bytes: whole,
  file_count: whole,
  memory_bytes: whole,
  loaded_at: moment,
}

const version: JsonObject = {
  type: 'object',
  required: ['version'],
  properties: { version: text, state, reason: text, ...measures, ...fields },
}

const model: JsonObject = {
  type: 'object',
  required: ['name', 'versions'],
  properties: {
    name: text,
    namespace: text,
    ...fields,
    file: text,
    problems: texts,
    override: { enum: ['config', 'files'] },
    reason: text,
    versions: { type: 'array', items: version },
  },
}

const event: JsonObject = {
  type: 'object',
  required: ['time', 'action', 'model', 'outcome', 'duration_ms', 'by'],
  properties: {
    time: moment,
    action: { enum: ['load', 'reload', 'unload', 'sleep'] },
    model: text,
    versions: { type: 'array', items: { type: 'object', properties: { version: text, content_hash: contentHash } } },
    outcome: { enum: ['ok', 'unchanged', 'failed'] },
    reason: text,
    duration_ms: { type: 'number' },
    override: { enum: ['config', 'files'] },
    by: { enum: ['http', 'grpc', 'model', 'embedding', 'start', 'poll', 'demand', 'residency'] },
    address: text,
    key: text,
    request_id: text,
    trace_id: text,
    because: text,
  },
}

/** What the index has on top of its own with `?details=true`. */
export const indexDetails: JsonObject = { ...measures, ...fields }

export const detailsParameter: JsonObject = {
  name: 'details',
  in: 'query',
  required: false,
  description: 'true: with what the registry knows of each version',
  schema: { type: 'boolean' },
}

const query = (name: string, description: string, schema: Json = text): JsonObject => ({
  name,
  in: 'query',
  required: false,
  description,
  schema,
})

const ok = (schema: Json, description: string): JsonObject => ({ '200': { description, content: jsonContent(schema) } })
const refused = { '400': errorAnswer('A query parameter is not as it should be') }
const unknown = { '404': errorAnswer('No such model or version') }
const modelParameter = pathParameter('model')

export function registryPaths(): JsonObject {
  const page = {
    type: 'object',
    required: ['models', 'total'],
    properties: { models: { type: 'array', items: model }, total: whole, next: text },
  }
  const one = {
    ...version,
    required: ['name', 'version'],
    properties: { name: text, namespace: text, ...(version['properties'] as JsonObject), file: text, problems: texts },
  }
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
          ...ok(
            {
              type: 'object',
              required: ['name', 'events'],
              properties: { name: text, events: { type: 'array', items: event } },
            },
            'The last changes',
          ),
          ...refused,
          ...unknown,
        }),
        parameters: [query('limit', 'How many at most', { type: 'integer', minimum: 1, maximum: 50 })],
      },
    },
  }
}
