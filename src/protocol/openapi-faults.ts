// Feedback and faults in the OpenAPI document.

import { anyObject, errorAnswer, jsonContent, list, modelParameter, object, ok, operation, pathParameter, text, type JsonObject } from './openapi-parts.ts' // prettier-ignore

const count: JsonObject = { type: 'integer', minimum: 0 }
const receipt = object(['accepted', 'forwarded', 'unknown', 'repeated', 'no_prediction', 'not_judged', 'unknown_ids'], {
  accepted: count,
  forwarded: count,
  unknown: count,
  repeated: count,
  no_prediction: count,
  not_judged: count,
  unknown_ids: list(text),
})
const entry = object(['id'], {
  id: text,
  label: {},
  correct: { type: 'boolean' },
  score: { type: 'number' },
  name: text,
})
const fault = object(['for'], {
  model: text,
  arm: { enum: ['stable', 'candidate', 'any'] },
  when: anyObject,
  share: { type: 'number', minimum: 0, maximum: 100 },
  delay_ms: { type: 'number', minimum: 0, maximum: 300_000 },
  abort: object(['code'], { code: text, message: text }),
  judge: { type: 'boolean' },
  for: text,
})
const wrong = { '400': errorAnswer('The body is not as it should be') }
const off = { '501': errorAnswer('The server runs without --allow-fault-injection') }
const body = (schema: JsonObject): JsonObject => ({ requestBody: { content: jsonContent(schema) } })

export const faultPaths = (): JsonObject => ({
  '/v2/models/{model}/feedback': {
    parameters: [modelParameter],
    post: {
      ...operation('sendFeedback', 'model', 'Labels and scores of answers, for the rollout that routed them', {
        ...ok(receipt, 'What became of the entries'),
        ...wrong,
        '404': errorAnswer('There is no such model'),
      }),
      ...body(object(['feedback'], { feedback: { ...list(entry), maxItems: 1000 } })),
    },
  },
  '/v2/faults': {
    get: operation('listFaults', 'server', 'Faults that are in force', ok(list(anyObject), 'The faults')),
    post: {
      ...operation('addFault', 'server', 'Delay or fail a share of requests for a while', {
        '201': { description: 'It is in force', content: jsonContent(anyObject) },
        ...wrong,
        ...off,
      }),
      ...body(fault),
    },
  },
  '/v2/faults/{fault}/cancel': {
    parameters: [pathParameter('fault')],
    post: operation('cancelFault', 'server', 'End a fault', {
      ...ok(anyObject, 'What it was'),
      '404': errorAnswer('There is no such fault'),
      ...off,
    }),
  },
})
