// What OPTIONS / and /api-description answer.

import { jsonContent, object, pathParameter } from '../../protocol/openapi-parts.ts'

const openapi = '3.0.1'
const info = {
  title: 'TorchServe APIs',
  description: 'TorchServe is a flexible and easy to use tool for serving deep learning models',
  version: '0.12.0',
}
const error = object(['code', 'type', 'message'], {
  code: { type: 'integer', description: 'Error code.' },
  type: { type: 'string', description: 'Error type.' },
  message: { type: 'string', description: 'Error message.' },
})
const responses = {
  200: { description: 'OK' },
  404: { description: 'Not Found', content: jsonContent(error) },
  500: { description: 'Internal Server Error', content: jsonContent(error) },
}

const operation = (operationId: string, description: string, names: readonly string[] = []): object => {
  return { description, operationId, parameters: names.map(pathParameter), responses }
}

type Row = readonly [verb: string, path: string, id: string, description: string]

const described = (...rows: readonly Row[]): unknown => ({ openapi, info, paths: pathsOf([...everywhere, ...rows]) })

function pathsOf(rows: readonly Row[]): unknown {
  const paths: Record<string, Record<string, object>> = {}
  for (const [verb, path, id, text] of rows) {
    const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
    paths[path] = { ...paths[path], [verb]: operation(id, text, names) }
  }
  return paths
}

const everywhere: readonly Row[] = [
  ['options', '/', 'apiDescription', 'Get openapi description.'],
  ['get', '/api-description', 'api-description', 'Get openapi description.'],
]
const one = '{model_name}'
const version = `${one}/{model_version}`

export const inferenceDescription = described(
  ['get', '/ping', 'ping', 'Get TorchServe status.'],
  ['post', `/predictions/${one}`, 'predictions', 'Predictions entry point.'],
  ['post', `/predictions/${version}`, 'version_predictions', 'Predictions entry point of a version.'],
  ['post', `/explanations/${one}`, 'explanations', 'Explanations entry point.'],
  ['post', '/invocations', 'invocations', 'A generic invocation entry point for all models.'],
)

const modelRows: readonly Row[] = [
  ['get', `/models/${one}`, 'describeModel', 'Provides detailed information about the default version.'],
  ['put', `/models/${one}`, 'setAutoScale', 'Configure number of workers for the default version.'],
  ['delete', `/models/${one}`, 'unregisterModel', 'Unregister the default version of a model.'],
  ['get', `/models/${version}`, 'version_describeModel', 'Provides information about a version.'],
  ['put', `/models/${version}`, 'version_setAutoScale', 'Configure number of workers.'],
  ['delete', `/models/${version}`, 'version_unregisterModel', 'Unregister a version.'],
  ['put', `/models/${version}/set-default`, 'setDefault', 'Set default version of a model.'],
]

export const managementDescription = described(
  ['get', '/models', 'listModels', 'List registered models in TorchServe.'],
  ['post', '/models', 'registerModel', 'Register a new model in TorchServe.'],
  ...modelRows,
)

export const modelManagementDescription = (name: string): unknown => ({
  openapi,
  info: { title: `RESTful Management API for: ${name}`, version: info.version },
  paths: pathsOf(modelRows),
})

export const modelDescription = (name: string): unknown => ({
  openapi,
  info: { title: `RESTful API for: ${name}`, version: '1.0.0' },
  paths: { [`/prediction/${name}`]: { post: operation(name, `A predict entry point for model: ${name}.`) } },
})
