// The paths of TensorFlow Serving's REST API in the OpenAPI document. They stand in the place of those of KServe v1.

import { anyObject, errorAnswer, jsonContent, ok, operation, pathParameter, type JsonObject } from './openapi-parts.ts'

const places = [
  { path: '/v1/models/{model}', names: ['model'], suffix: '' },
  { path: '/v1/models/{model}/versions/{version}', names: ['model', 'version'], suffix: 'OfVersion' },
  { path: '/v1/models/{model}/labels/{label}', names: ['model', 'label'], suffix: 'OfLabel' },
]

const verbs = [
  { verb: 'predict', summary: 'Run a model on rows (`instances`) or columns (`inputs`) of JSON' },
  { verb: 'classify', summary: 'Run a model on a list of examples, and get classes' },
  { verb: 'regress', summary: 'Run a model on a list of examples, and get values' },
]

export const tfservingPaths = (): JsonObject =>
  Object.fromEntries(
    places.flatMap(({ path, names, suffix }) => {
      const parameters = names.map(pathParameter)
      const unknown = { '404': errorAnswer('No such model or version') }
      const show = (id: string, summary: string): JsonObject => ({
        parameters,
        get: operation(`${id}${suffix}`, 'model', summary, {
          ...ok(anyObject, summary),
          '400': errorAnswer('The model has no such label'),
          ...unknown,
        }),
      })
      const run = ({ verb, summary }: (typeof verbs)[number]): [string, JsonObject] => {
        const answers = {
          ...ok(anyObject, 'The model answered'),
          '400': errorAnswer('The JSON is malformed, or does not fit the model or a limit'),
          ...unknown,
        }
        const post = operation(`tfserving_${verb}${suffix}`, 'model', summary, answers)
        const requestBody = { required: true, content: jsonContent(anyObject) }
        return [`${path}:${verb}`, { parameters, post: { ...post, requestBody } }]
      }
      return [
        [path, show('tfservingStatus', 'States of the versions of a model')],
        [`${path}/metadata`, show('tfservingMetadata', 'Signatures of a model')],
        ...verbs.map(run),
      ]
    }),
  )
