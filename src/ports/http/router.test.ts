import assert from 'node:assert/strict'
import { test } from 'node:test'

import { jsonType } from '../../transport/http1/http-message.ts'
import { Router, type Route } from './router.ts'

const route = (path: string): Route => ({
  path,
  methods: ['GET'],
  api: 'metadata',
  wrongMethodType: jsonType,
  handle: () => undefined,
})

const router = new Router(
  [
    '/v2',
    '/v2/models/stats',
    '/v2/models/{model}[/versions/{version}]',
    '/v2/models/{model}[/versions/{version}]/infer',
    '/v2/models/{model}/trace/setting',
    '/v2/repository[/{repository}]/index',
    '/v2/systemsharedmemory/region/{region}/register',
  ].map(route),
)

const found = (target: string): string | null => {
  const match = router.find(target)
  return match === null ? null : `${match.route.path} ${match.modelName} ${match.modelVersion}`.trimEnd()
}

test('a model path yields the name and version as they were sent', () => {
  assert.equal(found('/v2/models/m'), '/v2/models/{model}[/versions/{version}] m')
  assert.equal(found('/v2/models/m/versions/007'), '/v2/models/{model}[/versions/{version}] m 007')
  assert.equal(found('/v2/models/a%20b/infer'), '/v2/models/{model}[/versions/{version}]/infer a%20b')
  assert.equal(found('/v2/models/m/versions/1/infer'), '/v2/models/{model}[/versions/{version}]/infer m 1')
  assert.equal(found('/v2/models/versions/versions/1'), '/v2/models/{model}[/versions/{version}] versions 1')
})

test('an exact path comes before a model of that name', () => {
  assert.equal(found('/v2/models/stats'), '/v2/models/stats')
})

test('the query is set aside and an absolute URI is served', () => {
  assert.equal(found('/v2?x=1'), '/v2')
  assert.equal(found('/v2/models/m?verbose=1'), '/v2/models/{model}[/versions/{version}] m')
  assert.equal(found('http://localhost:8000/v2'), '/v2')
  assert.equal(found('http://localhost'), null)
})

test('no trailing slash, no other spelling, no word for a version', () => {
  for (const target of [
    '/',
    '',
    '*',
    '/v2/',
    '//v2',
    '/V2',
    '/v2#x',
    '/v2/../v2',
    '/v2/models',
    '/v2/models/',
    '/v2/models//infer',
    '/v2/models/m/',
    '/v2/models/m/infer/',
    '/v2/models/m/infe%72',
    '/v2/models/m/versions',
    '/v2/models/m/versions/',
    '/v2/models/m/versions/latest',
    '/v2/models/m/versions/-1',
    '/v2/models/m/versions/1/',
    '/v2/models/m/versions/1/trace/setting',
    '/v2/repository//index',
    '/v2/systemsharedmemory/region/a/b/register',
  ]) {
    assert.equal(found(target), null, target)
  }
})

test('other paths take one segment per placeholder, optional parts may be left out', () => {
  assert.equal(found('/v2/repository/index'), '/v2/repository[/{repository}]/index')
  assert.equal(found('/v2/repository/r/index'), '/v2/repository[/{repository}]/index r')
  assert.equal(found('/v2/systemsharedmemory/region/a/register'), '/v2/systemsharedmemory/region/{region}/register a')
  assert.equal(found('/v2/models/m/trace/setting'), '/v2/models/{model}/trace/setting m')
})
