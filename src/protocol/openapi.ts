// The server's HTTP API as an OpenAPI 3.1 document: the endpoints, and the requests and answers of models that serve.

import type { ModelSignature } from '../config/model-signature.ts'
import type { ModelVersion } from '../model/model-version.ts'
import { dataTypes, integerBounds, type DataType } from '../tensor/data-type.ts'
import type { Shape } from '../tensor/shape.ts'
import { controlPaths, generatePaths, generateSchemas } from './openapi-controls.ts'
import { kserve1Paths } from './openapi-kserve1.ts'
import { openAiPaths } from './openapi-openai.ts'
import { tfservingPaths } from './openapi-tfserving.ts'
import { uploadPaths } from './openapi-upload.ts'
import {
  anyObject,
  errorAnswer,
  jsonContent,
  list,
  modelParameter,
  object,
  ok,
  operation as get,
  plainErrorAnswer,
  ref,
  text,
  type Json,
  type JsonObject,
} from './openapi-parts.ts'

type OpenApiSource = {
  readonly serverName: string
  readonly serverVersion: string
  readonly models: Iterable<ModelVersion>
  /** TensorFlow Serving has the paths below `/v1/models/{model}`. */
  readonly hasTfserving?: boolean
}

/** Models with paths of their own. More would make a document that nobody reads and that takes long to write. */
const mostDescribed = 200

export function buildOpenApi(source: OpenApiSource): JsonObject {
  const models = [...source.models].slice(0, mostDescribed)
  const schemas: Record<string, Json> = { ...commonSchemas() }
  const paths: Record<string, Json> = { ...generalPaths(), ...v1Paths(source.hasTfserving === true) }
  for (const model of models) {
    const key = schemaKey(model)
    schemas[`${key}.request`] = requestSchema(model.signature)
    schemas[`${key}.response`] = responseSchema(model)
    Object.assign(paths, modelPaths(model, key))
  }
  return {
    openapi: '3.1.0',
    info: {
      title: `${source.serverName}: model inference`,
      version: source.serverVersion,
      description: 'The KServe v2 inference protocol with the extensions of Triton Inference Server, and KServe v1.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    tags: [
      { name: 'server', description: 'The server' },
      { name: 'model', description: 'Every model, by its name' },
      ...models.map((model) => ({ name: modelTag(model), description: `Model ${modelTag(model)}` })),
    ],
    paths,
    components: { schemas },
  }
}

function v1Paths(hasTfserving: boolean): JsonObject {
  const kserve = kserve1Paths()
  if (!hasTfserving) return kserve
  const lists = Object.entries(kserve).filter(([path]) => path.endsWith('/models') || path === '/')
  return { ...Object.fromEntries(lists), ...tfservingPaths() }
}

const modelTag = (model: ModelVersion): string => `${model.name}:${model.version}`

/** Keys of components allow letters, digits, dot, dash and underscore; anything else is written as its code. */
function schemaKey(model: ModelVersion): string {
  const safe = model.name.replaceAll(/[^A-Za-z0-9-]/gu, (char) =>
    char === '_' ? '_' : `.x${(char.codePointAt(0) as number).toString(16)}.`,
  )
  return `model.${safe}.${model.version}`
}

const versionParameter: Json = {
  name: 'version',
  in: 'path',
  required: true,
  description: 'Left out of the path: the highest version that serves',
  schema: { type: 'string', pattern: '^[0-9]+$' },
}
const headerLengthParameter: Json = {
  name: 'Inference-Header-Content-Length',
  in: 'header',
  required: false,
  description:
    'Bytes of the JSON head when binary tensor data follows it; 0 when the body is one tensor and nothing else',
  schema: { type: 'integer', minimum: 0 },
}

function generalPaths(): JsonObject {
  const readiness = { '200': { description: 'Yes' }, '400': { description: 'No' } }
  const starting = { ...readiness, '503': { description: 'No: models load, and the body says which' } }
  return {
    '/v2/health/live': { get: get('serverLive', 'server', 'Is the server up?', readiness) },
    '/v2/health/ready': { get: get('serverReady', 'server', 'Can the server take inference requests?', starting) },
    '/health/live': { get: get('serverLiveAlias', 'server', 'The same as /v2/health/live', readiness) },
    '/health/ready': { get: get('serverReadyAlias', 'server', 'The same as /v2/health/ready', starting) },
    '/v2/health/detail': {
      get: get('healthDetail', 'server', 'What is not ready, and why', {
        ...ok(ref('HealthDetail'), 'Always, whatever the health is'),
      }),
    },
    '/v2': {
      get: get('serverMetadata', 'server', 'Name, version and protocol extensions', {
        ...ok(ref('ServerMetadata'), 'Server metadata'),
      }),
    },
    '/v2/openapi.json': {
      get: get('openApi', 'server', 'This document', {
        ...ok(anyObject, 'OpenAPI 3.1'),
      }),
    },
    ...pathsOfModels('/v2/models/{model}', [modelParameter], ''),
    ...pathsOfModels('/v2/models/{model}/versions/{version}', [modelParameter, versionParameter], 'OfVersion'),
    ...controlPaths(),
    ...uploadPaths(),
    ...openAiPaths(),
  }
}

function pathsOfModels(base: string, parameters: readonly Json[], suffix: string): JsonObject {
  const refusals = {
    '400': errorAnswer('The version is no number that a version can have'),
    '404': errorAnswer('No such model or version'),
    '503': errorAnswer('The model is not ready'),
  }
  return {
    [base]: {
      parameters,
      get: get(`modelMetadata${suffix}`, 'model', 'Inputs and outputs of a model', {
        ...ok(ref('ModelMetadata'), 'Model metadata'),
        ...refusals,
      }),
    },
    [`${base}/ready`]: {
      parameters,
      get: get(`modelReady${suffix}`, 'model', 'Can the model take inference requests?', {
        '200': { description: 'Yes' },
        '400': plainErrorAnswer('No'),
        '404': errorAnswer('The version is no number'),
      }),
    },
    [`${base}/config`]: {
      parameters,
      get: get(`modelConfig${suffix}`, 'model', 'The complete configuration of a model', {
        ...ok(anyObject, 'ModelConfig'),
        ...refusals,
      }),
    },
    [`${base}/infer`]: {
      parameters,
      post: inferOperation(`infer${suffix}`, 'model', 'Run a model', ref('InferRequest'), ref('InferResponse')),
    },
    ...generatePaths(base, parameters, suffix),
  }
}

function inferOperation(operationId: string, tag: string, summary: string, request: Json, response: Json): JsonObject {
  const binary = {
    'application/octet-stream': { schema: { description: 'A JSON head, then the bytes of binary tensors' } },
  }
  return {
    operationId,
    tags: [tag],
    summary,
    parameters: [headerLengthParameter],
    requestBody: { required: true, content: { ...jsonContent(request), ...binary } },
    responses: {
      '200': {
        description: 'The model answered',
        headers: {
          'Inference-Header-Content-Length': {
            description: 'Bytes of the JSON head; present when binary tensor data follows it',
            schema: { type: 'integer' },
          },
        },
        content: { ...jsonContent(response), ...binary },
      },
      '400': plainErrorAnswer('The request does not fit the model or a limit'),
      '404': plainErrorAnswer('No such model or version'),
      '500': plainErrorAnswer('The JSON is malformed, or the model failed'),
      '501': plainErrorAnswer('The model is decoupled, or the content encoding is unknown'),
      '503': plainErrorAnswer('The model or server is not ready, or its queue is full'),
    },
  }
}

/** Paths of one model with concrete schemas. A path of its own is more specific than `{model}`, so both may stand. */
function modelPaths(model: ModelVersion, key: string): JsonObject {
  // Paths are not decoded, so a model whose name needs escapes gets no path of its own.
  if (model.signature.isDecoupled || !/^[A-Za-z0-9._~-]+$/.test(model.name)) return {}
  const path = `/v2/models/${model.name}/versions/${model.version}/infer`
  const operation = inferOperation(
    `infer.${key}`,
    modelTag(model),
    `Run ${model.name} version ${model.version}`,
    ref(`${key}.request`),
    ref(`${key}.response`),
  )
  return { [path]: { post: operation } }
}

function commonSchemas(): JsonObject {
  const tensorMetadata = object(['name', 'datatype', 'shape'], {
    name: text,
    datatype: { enum: [...dataTypes] },
    shape: list({ type: 'integer', minimum: -1 }),
  })
  return {
    Error: object(['error'], { error: text }),
    ServerMetadata: object(['name', 'version', 'extensions'], { name: text, version: text, extensions: list(text) }),
    HealthDetail: object(['live', 'ready', 'state', 'reasons', 'models'], {
      live: { type: 'boolean' },
      ready: { type: 'boolean' },
      state: { enum: ['STARTING', 'READY', 'EXITING', 'CLOSED'] },
      reasons: { ...list(text), description: 'Why it is not ready or not live, in words; empty when it is both' },
      models: list(anyObject),
    }),
    ModelMetadata: object(['name', 'versions', 'platform', 'inputs', 'outputs'], {
      name: text,
      versions: list(text),
      platform: text,
      inputs: list(tensorMetadata),
      outputs: list(tensorMetadata),
    }),
    Parameters: {
      type: 'object',
      description: 'Scheduling and custom parameters: strings, integers, booleans and doubles',
      additionalProperties: { type: ['string', 'number', 'boolean'] },
    },
    InferRequest: requestEnvelope(list(inputSchema(null)), text),
    InferResponse: responseEnvelope(text, text, outputSchema(null)),
    ...generateSchemas(),
  }
}

type TensorSpec = { readonly name: string; readonly dataType: DataType; readonly dims: Shape }

function requestSchema(signature: ModelSignature): Json {
  const inputs = signature.inputs.map((input) => inputSchema(input, signature.isBatching))
  return requestEnvelope(
    {
      type: 'array',
      minItems: signature.requiredInputCount,
      maxItems: signature.inputs.length,
      // `oneOf: []` would be no valid schema.
      items: inputs.length === 0 ? false : { oneOf: inputs },
    },
    signature.outputs.length === 0 ? text : { enum: signature.outputs.map((output) => output.name) },
  )
}

function responseSchema(model: ModelVersion): Json {
  const { signature } = model
  const outputs = signature.outputs.map((output) => outputSchema(output, signature.isBatching))
  return responseEnvelope(
    { const: model.name },
    { const: model.version },
    // With classification an output is strings instead of its own type.
    outputs.length === 0 ? false : { anyOf: [...outputs, outputSchema(null)] },
  )
}

function requestEnvelope(inputs: Json, outputName: Json): Json {
  const outputParameters = object([], {
    binary_data: { type: 'boolean', description: 'Answer with this tensor as bytes after the JSON' },
    classification: { type: 'integer', minimum: 0, description: 'Answer with the so many highest classes' },
  })
  return object(['inputs'], {
    id: { type: 'string', description: 'Comes back with the answer and in error messages' },
    parameters: ref('Parameters'),
    inputs,
    outputs: {
      type: 'array',
      description: 'Left out: all outputs of the model',
      items: object(['name'], { name: outputName, parameters: outputParameters }),
    },
  })
}

const responseEnvelope = (modelName: Json, modelVersion: Json, output: Json): Json =>
  object(['model_name', 'model_version', 'outputs'], {
    id: text,
    model_name: modelName,
    model_version: modelVersion,
    parameters: ref('Parameters'),
    outputs: list(output),
  })

const inputSchema = (spec: TensorSpec | null, isBatching = false): Json =>
  object(['name', 'shape', 'datatype'], {
    ...tensorFields(spec, isBatching),
    data: {
      type: 'array',
      description: 'Row by row, nested or flat; left out when the bytes follow the JSON',
      ...(spec === null ? {} : { items: { anyOf: [elementSchema(spec.dataType), { type: 'array' }] } }),
    },
  })

const outputSchema = (spec: TensorSpec | null, isBatching = false): Json =>
  object(['name', 'datatype', 'shape'], {
    ...tensorFields(spec, isBatching),
    data: { type: 'array', ...(spec === null ? {} : { items: elementSchema(spec.dataType) }) },
  })

const tensorFields = (spec: TensorSpec | null, isBatching: boolean): JsonObject => ({
  name: spec === null ? text : { const: spec.name },
  datatype: spec === null ? { enum: [...dataTypes] } : { const: spec.dataType },
  shape: shapeSchema(spec?.dims ?? null, isBatching),
  parameters: object([], {
    binary_data_size: { type: 'integer', minimum: 0, description: 'Bytes of this tensor after the JSON' },
  }),
})

function shapeSchema(dims: Shape | null, isBatching: boolean): JsonObject {
  if (dims === null) return { type: 'array', items: { type: 'integer', minimum: 0 } }
  const sizes: Json[] = dims.map((size) => (size < 0 ? { type: 'integer', minimum: 0 } : { const: size }))
  if (isBatching) sizes.unshift({ type: 'integer', minimum: 1, description: 'Batch size' })
  const schema = { type: 'array', minItems: sizes.length, maxItems: sizes.length }
  return sizes.length === 0 ? schema : { ...schema, prefixItems: sizes }
}

/** NaN and infinities are written without quotes, which JSON Schema cannot describe. */
const real: Json = { type: 'number' }

const otherSchemas: Readonly<Partial<Record<DataType, Json>>> = {
  BOOL: { type: 'boolean' },
  UINT64: { type: 'integer', minimum: 0, format: 'uint64' },
  INT64: { type: 'integer', format: 'int64' },
  BYTES: text,
}

function elementSchema(dataType: DataType): Json {
  const bounds = integerBounds[dataType]
  const other = otherSchemas[dataType]
  if (other !== undefined) return other
  return bounds === null ? real : { type: 'integer', minimum: bounds[0], maximum: bounds[1] }
}
