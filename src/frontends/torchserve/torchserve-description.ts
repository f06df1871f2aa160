// What OPTIONS / and /api-description answer.

const errorSchema = {
  type: 'object',
  required: ['code', 'type', 'message'],
  properties: {
    code: { type: 'integer', description: 'Error code.' },
    type: { type: 'string', description: 'Error type.' },
    message: { type: 'string', description: 'Error message.' },
  },
}
const failure = (description: string): object => ({
  description,
  content: { 'application/json': { schema: errorSchema } },
})
const responses = { 200: { description: 'OK' }, 404: failure('Not Found'), 500: failure('Internal Server Error') }

const operation = (operationId: string, description: string, ...names: string[]): object => ({
  description,
  operationId,
  parameters: names.map((name) => ({ in: 'path', name, required: true, schema: { type: 'string' } })),
  responses,
})

const info = {
  title: 'TorchServe APIs',
  description: 'TorchServe is a flexible and easy to use tool for serving deep learning models',
  version: '0.12.0',
}
const common = {
  '/': { options: operation('apiDescription', 'Get openapi description.') },
  '/api-description': { get: operation('api-description', 'Get openapi description.') },
}

export const inferenceDescription: unknown = {
  openapi: '3.0.1',
  info,
  paths: {
    ...common,
    '/ping': { get: operation('ping', 'Get TorchServe status.') },
    '/predictions/{model_name}': { post: operation('predictions', 'Predictions entry point.', 'model_name') },
    '/predictions/{model_name}/{model_version}': {
      post: operation('version_predictions', 'Predictions entry point of a version.', 'model_name', 'model_version'),
    },
    '/explanations/{model_name}': { post: operation('explanations', 'Explanations entry point.', 'model_name') },
    '/invocations': { post: operation('invocations', 'A generic invocation entry point for all models.') },
  },
}

export const managementDescription: unknown = {
  openapi: '3.0.1',
  info,
  paths: {
    ...common,
    '/models': {
      get: operation('listModels', 'List registered models in TorchServe.'),
      post: operation('registerModel', 'Register a new model in TorchServe.'),
    },
    '/models/{model_name}': {
      get: operation('describeModel', 'Provides detailed information about the default version.', 'model_name'),
      put: operation('setAutoScale', 'Configure number of workers for the default version.', 'model_name'),
      delete: operation('unregisterModel', 'Unregister the default version of a model.', 'model_name'),
    },
    '/models/{model_name}/{model_version}': {
      get: operation('version_describeModel', 'Provides information about a version.', 'model_name', 'model_version'),
      put: operation('version_setAutoScale', 'Configure number of workers.', 'model_name', 'model_version'),
      delete: operation('version_unregisterModel', 'Unregister a version.', 'model_name', 'model_version'),
    },
    '/models/{model_name}/{model_version}/set-default': {
      put: operation('setDefault', 'Set default version of a model.', 'model_name', 'model_version'),
    },
  },
}

export const modelDescription = (name: string): unknown => ({
  openapi: '3.0.1',
  info: { title: `RESTful API for: ${name}`, version: '1.0.0' },
  paths: { [`/prediction/${name}`]: { post: operation(name, `A predict entry point for model: ${name}.`) } },
})
