// Feeds and pages in the OpenAPI document.

import { anyObject, errorAnswer, list, object, ok, operation, pathParameter, text, type JsonObject } from './openapi-parts.ts' // prettier-ignore

const query = (name: string, description: string, schema: JsonObject = text): JsonObject => ({
  name,
  in: 'query',
  description,
  schema,
})
const wrong = { '400': errorAnswer('A query parameter is not as it should be') }
const full = { '503': errorAnswer('As many clients as may read feeds do') }
const events = (description: string): JsonObject => ({
  '200': { description, content: { 'text/event-stream': { schema: text } } },
})
const page = (description: string): JsonObject => ({
  '200': { description, content: { 'text/html': { schema: text } } },
})

export const feedPaths = (): JsonObject => ({
  '/v2/live': {
    get: operation('liveFigures', 'server', 'Figures of the server and its models, each second', {
      ...events('`facts` once, then `figures` each second, with the versions whose figures changed'),
      ...full,
    }),
  },
  '/v2/live/history': {
    get: {
      ...operation('figureHistory', 'server', 'The last hour of the figures', {
        ...ok(anyObject, 'The hour'),
        ...wrong,
      }),
      parameters: [query('model', 'Left out: the server'), query('version', 'Of the model')],
    },
  },
  '/v2/logs': {
    get: {
      ...operation('logLines', 'server', 'The last lines of the log', {
        ...ok(object(['lines'], { lines: list(anyObject) }), 'Oldest first; with `follow` server-sent events'),
        ...wrong,
        ...full,
      }),
      parameters: [
        query('model', 'Only lines about this model'),
        query('level', 'This level and the worse ones', { enum: ['verbose', 'info', 'warning', 'error'] }),
        query('q', 'Only lines with this text'),
        query('limit', 'At most so many', { type: 'integer', minimum: 0, maximum: 5000 }),
        query('follow', 'Go on with new lines', { type: 'boolean' }),
      ],
    },
  },
  '/v2/traces': {
    get: {
      ...operation('recentTraces', 'server', 'The last requests that were traced', {
        ...ok(object(['traces'], { traces: list(anyObject) }), 'Newest first'),
        ...wrong,
      }),
      parameters: [query('model', 'Of this model'), query('min_ms', 'That took so long', { type: 'number' })],
    },
  },
  '/v2/fleet': {
    get: operation('fleet', 'server', 'The servers that share a store with this one', {
      ...ok(object(['servers', 'models'], { servers: list(anyObject), models: list(anyObject) }), 'This server first'),
      ...wrong,
    }),
  },
  '/v2/repository/findings': {
    get: {
      ...operation('repositoryFindings', 'server', 'What galatea check says of the repositories', {
        ...ok(object(['models', 'findings'], { models: list(text), findings: list(anyObject) }), 'By file, then line'),
        ...wrong,
        '404': errorAnswer('No repository has the model'),
      }),
      parameters: [query('model', 'Of this model only, with the text of its config.pbtxt')],
    },
  },
  '/console': { get: operation('console', 'server', 'The console', page('A web page')) },
  '/console/{asset}': {
    parameters: [pathParameter('asset')],
    get: operation('consoleAsset', 'server', 'A file of the console', {
      '200': { description: 'A script or a style sheet' },
      '404': errorAnswer('There is no such file'),
    }),
  },
  '/docs': { get: operation('apiPages', 'server', 'This API as a page', page('A web page')) },
})
