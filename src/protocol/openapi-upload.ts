// The paths of uploads in the OpenAPI document.

import {
  anyObject,
  errorAnswer,
  list,
  object,
  ok,
  operation,
  pathParameter,
  text,
  type Json,
  type JsonObject,
} from './openapi-parts.ts'

const file = { schema: { type: 'string', contentMediaType: 'application/octet-stream' } }
const form = { schema: object([], { file: file.schema, model: text, top_k: { type: 'integer' } }) }

function upload(id: string, parameters: readonly Json[], query: readonly Json[] = []): JsonObject {
  const answers = {
    ...ok(
      object(['model_name', 'output', 'predictions'], { model_name: text, output: text, predictions: list(anyObject) }),
      'The best classes of each upload',
    ),
    '400': errorAnswer('The upload cannot be decoded, is beyond a limit, or the model has no hint for uploads'),
    '404': errorAnswer('No such model or version'),
    '503': errorAnswer("Too many pictures wait, or the package 'sharp' is not installed"),
  }
  const summary = 'Run a model on an uploaded picture, sound or text'
  const content = { 'multipart/form-data': form, 'image/*': file, 'audio/wav': file, 'text/plain': file }
  const post = { ...operation(id, 'model', summary, answers), requestBody: { required: true, content } }
  return { parameters, post: { ...post, parameters: query } }
}

export const uploadPaths = (): JsonObject => ({
  '/predict': upload('predictUpload', [], [{ name: 'model', in: 'query', required: false, schema: text }]),
  '/v2/models/{model}/predict': upload('predictUploadOfModel', [pathParameter('model')]),
  '/v2/models/{model}/versions/{version}/predict': upload('predictUploadOfVersion', [
    pathParameter('model'),
    pathParameter('version'),
  ]),
})
