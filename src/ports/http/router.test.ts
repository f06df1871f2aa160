import assert from 'node:assert/strict'
import { test } from 'node:test'

import { jsonType } from '../../transport/http1/http-message.ts'
import { everyOtherPath, type Route } from './route.ts'
import { Router } from './router.ts'

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
    '/v2/repository/models/{model}/load',
    '/v2/repository/{repository}/models/{model}/load',
    '/v1/models',
    '/v1/models/{model}',
    '/v1/models/{model}[/versions/{version}]:predict',
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

test('a name may be percent-encoded where the port says so: it is decoded once', () => {
  const decoding = new Router(router.routes, true)
  const nameIn = (sent: string): string | undefined => decoding.find(`/v2/models/${sent}/infer`)?.modelName
  assert.equal(nameIn('a%20b'), 'a b')
  assert.equal(nameIn('pr%C3%BCfung'), 'prüfung')
  assert.equal(nameIn('pr%c3%bcfung'), 'prüfung')
  assert.equal(nameIn('a%2541'), 'a%41')
  for (const sent of [
    'a%',
    'a%zz',
    'a%ff',
    'a%2Fb',
    'a%5cb',
    '%2e',
    '%2E.',
    'a%00',
    'a%0Ab',
    '%2Fmodels%2Feu%3A%3Aboth',
  ]) {
    assert.equal(nameIn(sent), sent)
  }
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
    '/v1/models/',
    '/v1/models/m/:predict',
    '/v1/models/m:predict/',
    '/v1/models/a/b:predict',
    '/v1/models/m/versions/1',
    '/v1/models/m/versions/one:predict',
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

test('a verb after a colon is set apart from the name before it, which may hold colons itself', () => {
  const predict = '/v1/models/{model}[/versions/{version}]:predict'
  assert.equal(found('/v1/models'), '/v1/models')
  assert.equal(found('/v1/models/m'), '/v1/models/{model} m')
  assert.equal(found('/v1/models/m:predict'), `${predict} m`)
  assert.equal(found('/v1/models/m:predict?x=:y'), `${predict} m`)
  assert.equal(found('/v1/models/m/versions/3:predict'), `${predict} m 3`)
  assert.equal(found('/v1/models/a:b:predict'), `${predict} a:b`)
  assert.equal(found('/v1/models/:predict'), '/v1/models/{model} :predict')
  assert.equal(found('/v1/models/a:b'), '/v1/models/{model} a:b')
  assert.equal(found('/v2/models/a:b/infer'), '/v2/models/{model}[/versions/{version}]/infer a:b')
})

test('a parameter may take what another route has as literal text', () => {
  assert.equal(found('/v2/repository/models/m/load'), '/v2/repository/models/{model}/load m')
  assert.equal(found('/v2/repository/models/index'), '/v2/repository[/{repository}]/index models')
  assert.equal(found('/v2/repository/models/models/m/load'), '/v2/repository/{repository}/models/{model}/load models')
})

test('a route may take capital letters, in its words alone, and after every route that has the path as it was sent', () => {
  const caseless = { ...route('/v1/models/{model}[/versions/{version}]:predict'), ignoresCase: true }
  const both = new Router([caseless, route('/V1/models/{other}:predict'), route('/v1/health')])
  const told = (target: string): string => {
    const { route: { path } = { path: '' }, modelName = '', modelVersion = '' } = both.find(target) ?? {}
    return [path, modelName, modelVersion].join(' ')
  }
  assert.equal(told('/V1/Models/MyModel/VERSIONS/3:Predict'), `${caseless.path} MyModel 3`)
  assert.equal(told('/v1/MODELS/\u0130:predict'), `${caseless.path} \u0130 `)
  assert.equal(told('/V1/models/m:predict'), '/V1/models/{other}:predict m ')
  assert.equal(both.find('/V1/HEALTH'), null)
})

test('two routes of one path are refused', () => {
  assert.throws(() => new Router([route('/a[/{b}]/c'), route('/a/c')]), { message: /the path \/a\/c has one route/ })
})

test('one route may take every path that no other route takes', () => {
  const all = new Router([route('/a/{b}'), route(everyOtherPath)])
  assert.equal(all.find('/a/b')?.route.path, '/a/{b}')
  for (const target of ['/', '/a', '/a/b/c', '*', 'http://host']) assert.equal(all.find(target)?.route.path, '*')
})

test('more targets than are remembered are all found, each with its own name', () => {
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 600; i++) {
      assert.equal(found(`/v2/models/m${i}/infer`), `/v2/models/{model}[/versions/{version}]/infer m${i}`)
    }
  }
  const long = 'm'.repeat(1000)
  assert.equal(found(`/v2/models/${long}`), `/v2/models/{model}[/versions/{version}] ${long}`)
})
