// Rollouts in the OpenAPI document.

import { anyObject, errorAnswer, jsonContent, list, modelParameter, object, ok, operation, pathParameter, text, type JsonObject } from './openapi-parts.ts' // prettier-ignore

const states = ['PENDING', 'RUNNING', 'PAUSED', 'PROMOTING', 'SUCCEEDED', 'ROLLING_BACK', 'ROLLED_BACK', 'FAILED', 'CANCELLED', 'ENDED'] // prettier-ignore

const summary = object(['name', 'model', 'state'], {
  name: text,
  model: text,
  kind: { enum: ['rollout', 'experiment'] },
  state: { enum: states },
  pause_reason: text,
  reason: text,
  step: { type: 'integer' },
  steps: { type: 'integer' },
  weight: { type: 'number', minimum: 0, maximum: 100 },
  shadow: { type: 'number', minimum: 0, maximum: 100 },
  stable: text,
  candidate: text,
  author: text,
  created: text,
  since: text,
})

const unknown = { '404': errorAnswer('There is no such rollout') }
const conflict = { '409': errorAnswer('The state of the rollout forbids it, or the model has another live rollout') }
const wrong = { '400': errorAnswer('The body or a query parameter is not as it should be') }
const labels: JsonObject = { type: 'object', additionalProperties: text }
const unknownModel = { '404': errorAnswer('There is no such model') }
const query = (name: string, description: string): JsonObject => ({ name, in: 'query', description, schema: text })
const named = [pathParameter('rollout')]
const body = (schema: JsonObject): JsonObject => ({ requestBody: { content: jsonContent(schema) } })

const actions: Readonly<Record<string, string>> = {
  pause: 'Stop going on; the weight stays',
  resume: 'Go on after a pause',
  approve: 'Approve the step that waits for it',
  advance: 'Go to the next step now',
  promote: 'Make the candidate the default version now',
  rollback: 'Send every request to stable and withdraw the candidate',
}

const labelPaths = (): JsonObject => ({
  '/v2/models/{model}/labels': {
    parameters: [modelParameter],
    get: operation('listLabels', 'model', 'Labels of versions', {
      ...ok(labels, 'Versions by label'),
      ...unknownModel,
    }),
    post: {
      ...operation('setLabels', 'model', 'Set and take away labels', {
        ...ok(labels, 'Versions by label'),
        ...wrong,
        ...unknownModel,
      }),
      ...body(anyObject),
    },
  },
  '/v2/models/{model}/labels/{label}/infer': {
    parameters: [modelParameter, pathParameter('label')],
    post: operation('inferLabel', 'model', 'An inference of the version with this label', {
      ...ok(anyObject, 'The outputs'),
      ...wrong,
      '404': errorAnswer('There is no such model or label'),
    }),
  },
})

export function rolloutPaths(): JsonObject {
  const one = { ...ok(anyObject, 'The rollout'), ...unknown }
  const acting = Object.entries(actions).map(([action, says]) => [
    `/v2/rollouts/{rollout}/${action}`,
    {
      parameters: named,
      post: {
        ...operation(`${action}Rollout`, 'server', says, { ...one, ...conflict, ...wrong }),
        ...body(object([], { reason: text })),
      },
    },
  ])
  return {
    '/v2/rollouts': {
      get: {
        ...operation('listRollouts', 'server', 'Rollouts, newest first', { ...ok(list(summary), 'A page'), ...wrong }),
        parameters: [
          query('model', 'Of this model'),
          query('state', 'In this state'),
          query('page', 'From 1; a page has 100'),
        ],
      },
      post: {
        ...operation('createRollout', 'server', 'Start a rollout', {
          '201': { description: 'It is PENDING', content: jsonContent(anyObject) },
          ...wrong,
          ...conflict,
          '404': errorAnswer('There is no such model'),
        }),
        ...body(object(['model'], { model: text, name: text, retry: { type: 'boolean' } })),
      },
    },
    '/v2/rollouts/{rollout}': {
      parameters: named,
      get: operation('showRollout', 'server', 'A rollout with its arms, verdicts and history', one),
    },
    ...Object.fromEntries(acting),
    '/v2/rollouts/{rollout}/notes': {
      parameters: named,
      post: {
        ...operation('noteRollout', 'server', 'Keep a note with a rollout', {
          '201': { description: 'It is kept', content: jsonContent(anyObject) },
          ...wrong,
          ...unknown,
        }),
        ...body(object(['text'], { text })),
      },
    },
    '/v2/rollouts/{rollout}/events': {
      parameters: named,
      get: operation('watchRollout', 'server', 'Server-sent events: states, and a tick each second', {
        '200': { description: 'A stream', content: { 'text/event-stream': { schema: text } } },
        ...unknown,
      }),
    },
    ...labelPaths(),
    '/v2/rollouts/{rollout}/report': {
      parameters: named,
      get: operation('reportRollout', 'server', 'What was seen, with evidence in numbers', {
        '200': { description: 'The report', content: { ...jsonContent(anyObject), 'text/markdown': { schema: text } } },
        ...unknown,
      }),
    },
  }
}
