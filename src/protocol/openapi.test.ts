import assert from 'node:assert/strict'
import { test } from 'node:test'

import { emptyModelConfig } from '../config/model-config.ts'
import { ModelSignature } from '../config/model-signature.ts'
import type { ModelVersion } from '../model/model-version.ts'
import type { Json } from './openapi-parts.ts'
import { buildOpenApi } from './openapi.ts'

test('of thousands of models two hundred have paths of their own', () => {
  const models = Array.from({ length: 5000 }, (_, i) => model(`m${i}`))
  const { tags } = buildOpenApi({ serverName: 's', serverVersion: '1', models }) as unknown as { tags: unknown[] }
  assert.equal(tags.length, 202)
})

type Tree = { [key: string]: Tree } & Tree[] & string

const model = (name: string, version = '1', isDecoupled = false): ModelVersion => {
  const config = {
    ...emptyModelConfig(),
    name,
    maxBatchSize: 8,
    modelTransactionPolicy: { decoupled: isDecoupled },
  }
  const tensor = { reshape: null, isShapeTensor: false, isNonLinearFormatIo: false }
  config.input = [
    {
      ...tensor,
      name: 'IN',
      dataType: 'TYPE_FP32',
      format: 'FORMAT_NONE',
      dims: [4, -1],
      allowRaggedBatch: false,
      optional: false,
    },
  ] as unknown as typeof config.input
  config.output = [
    { ...tensor, name: 'OUT', dataType: 'TYPE_STRING', dims: [2], labelFilename: '' },
  ] as unknown as typeof config.output
  return {
    key: name,
    admit: () => undefined,
    door: null,
    pendingCount: 0,
    holdsSequence: () => false,
    name,
    version,
    config,
    signature: new ModelSignature(config),
    state: 'READY',
  }
}

const documentOf = (...models: ModelVersion[]): Tree =>
  JSON.parse(JSON.stringify(buildOpenApi({ serverName: 'galatea', serverVersion: '0.1.0', models }))) as Tree

function everyObject(node: Json, visit: (object: { readonly [key: string]: Json }) => void): void {
  if (Array.isArray(node)) for (const item of node) everyObject(item as Json, visit)
  else if (node !== null && typeof node === 'object') {
    visit(node as { readonly [key: string]: Json })
    for (const member of Object.values(node)) everyObject(member as Json, visit)
  }
}

test('the document has what OpenAPI 3.1 requires', () => {
  const document = documentOf(model('simple'), model('simple', '2'))
  assert.equal(String(document['openapi']), '3.1.0')
  assert.ok(document['info']?.['title'] && document['info']['version'])
  const operationIds: string[] = []
  for (const [path, item] of Object.entries(document['paths'] as Tree)) {
    assert.match(path, /^\/($|v1|v2|health|console|docs|predict|jobs|tokenize|detokenize)/)
    const parameters = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1])
    for (const [method, operation] of Object.entries(item)) {
      if (method === 'parameters') continue
      assert.ok(['get', 'post', 'delete'].includes(method), method)
      operationIds.push(operation['operationId'] as unknown as string)
      assert.ok(Object.keys(operation['responses'] as Tree).every((status) => /^[1-5]\d\d$/.test(status)))
      for (const answer of Object.values(operation['responses'] as Tree)) assert.ok(answer['description'])
    }
    const declared = ((item['parameters'] ?? []) as Tree[]).map((parameter) => String(parameter['name']))
    assert.deepEqual(declared, parameters, path)
  }
  assert.equal(new Set(operationIds).size, operationIds.length)
})

test('every reference leads to a schema, and every schema has a legal key', () => {
  const document = documentOf(model('simple'), model('ümläut name{}'), model('dots.and-dashes_1'))
  const keys = Object.keys(document['components']?.['schemas'] as Tree)
  for (const key of keys) assert.match(key, /^[a-zA-Z0-9._-]+$/)
  let count = 0
  everyObject(document, (object) => {
    if (!('$ref' in object)) return
    count++
    const target = JSON.stringify(object['$ref'])
    assert.ok(
      keys.some((key) => target === `"#/components/schemas/${key}"`),
      target,
    )
  })
  assert.ok(count > 10)
})

test('a model has an operation with its own tensors, names, types and shapes', () => {
  const document = documentOf(model('simple'))
  const operation = document['paths']?.['/v2/models/simple/versions/1/infer']?.['post'] as Tree
  assert.deepEqual(operation['requestBody']?.['content']?.['application/json']?.['schema'] as unknown, {
    $ref: '#/components/schemas/model.simple.1.request',
  })
  const schemas = document['components']?.['schemas'] as Tree
  const input = schemas['model.simple.1.request']?.['properties']?.['inputs']?.['items']?.['oneOf']?.[0]?.[
    'properties'
  ] as Tree
  assert.deepEqual(input['name'] as unknown, { const: 'IN' })
  assert.deepEqual(input['datatype'] as unknown, { const: 'FP32' })
  assert.deepEqual(input['shape'] as unknown, {
    type: 'array',
    minItems: 3,
    maxItems: 3,
    prefixItems: [
      { type: 'integer', minimum: 1, description: 'Batch size' },
      { const: 4 },
      { type: 'integer', minimum: 0 },
    ],
  })
  const response = schemas['model.simple.1.response']?.['properties'] as Tree
  assert.deepEqual(response['model_name'] as unknown, { const: 'simple' })
})

test('a decoupled model and a name that no path can carry have no operation of their own', () => {
  const paths = Object.keys(documentOf(model('stream', '1', true), model('a b'))['paths'] as Tree)
  assert.ok(!paths.some((path) => path.includes('models/stream') || path.includes('a b')))
})
