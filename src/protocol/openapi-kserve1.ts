// The paths of KServe v1 in the OpenAPI document.

import { errorAnswer, jsonContent, operation, pathParameter, type Json, type JsonObject } from './openapi-parts.ts'

const anyValue: JsonObject = { description: 'A value, a list, or an object with a member for each tensor' }
const valuesUnder = (key: string, values: Json): JsonObject => ({
  type: 'object',
  required: [key],
  properties: { [key]: values },
})
/** Rows under one name, or columns under the other. */
const rowsOrColumns = (rows: string, columns: string): JsonObject =>
  jsonContent({ oneOf: [valuesUnder(rows, { type: 'array', items: anyValue }), valuesUnder(columns, anyValue)] })

export function kserve1Paths(): JsonObject {
  const model = '/v1/models/{model}'
  const parameters = [pathParameter('model')]
  const readiness = jsonContent({
    type: 'object',
    required: ['name', 'ready'],
    properties: { name: { type: 'string' }, ready: { type: 'boolean' } },
  })
  const unknown = errorAnswer('No such model')
  const names = {
    description: 'The names',
    content: jsonContent(valuesUnder('models', { type: 'array', items: { type: 'string' } })),
  }
  const alive = jsonContent({ type: 'object', required: ['status'], properties: { status: { const: 'alive' } } })
  return {
    '/': {
      get: operation('kserve1Alive', 'server', 'The server is there (KServe v1). Browsers are sent to the console', {
        '200': { description: 'It is', content: alive },
      }),
    },
    '/v2/models': {
      get: operation('kserve2Models', 'server', 'The models that serve; not with --kserve-v1=false', { '200': names }),
    },
    '/v1/models': {
      get: operation('kserve1Models', 'server', 'The models that serve (KServe v1 and OpenAI)', {
        '200': names,
      }),
    },
    [model]: {
      parameters,
      get: operation('kserve1Ready', 'model', 'Can the model take requests? (KServe v1 and OpenAI)', {
        '200': { description: 'Yes', content: readiness },
        '404': unknown,
        '503': errorAnswer('No'),
      }),
    },
    [`${model}:explain`]: {
      parameters,
      post: operation('kserve1Explain', 'model', 'Explainers are not run here; not with --kserve-v1=false', {
        '404': unknown,
        '501': errorAnswer('Why there is no explanation'),
        '503': errorAnswer('The model is not ready'),
      }),
    },
    [`${model}:predict`]: {
      parameters,
      post: {
        ...operation('kserve1Predict', 'model', 'Run a model on rows of plain JSON; not with --kserve-v1=false', {
          '200': { description: 'The model answered', content: rowsOrColumns('predictions', 'outputs') },
          '400': errorAnswer('The JSON is malformed, or does not fit the model or a limit'),
          '404': unknown,
          '500': errorAnswer('The model failed'),
          '501': errorAnswer('The model is decoupled'),
          '503': errorAnswer('The model or server is not ready, or its queue is full'),
        }),
        requestBody: { required: true, content: rowsOrColumns('instances', 'inputs') },
      },
    },
  }
}
