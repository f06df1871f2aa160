import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startHttpFixture, type HttpFixture } from '../../../test/conformance/http-fixture.ts'
import { validateOrigin } from './cross-origin.ts'
import { inject, type InjectedAnswer } from '../../../test/fakes/injected-request.ts'

const page = 'https://app.example.com'
const maxInputBytes = 1000
let named: HttpFixture
let anybody: HttpFixture
let nobody: HttpFixture

before(async () => {
  const restrictedApis = [{ apis: ['inference'], key: 'x-key', value: 'secret' }]
  named = await startHttpFixture({ corsOrigins: [page, 'http://localhost:3000'], restrictedApis, maxInputBytes })
  anybody = await startHttpFixture({ corsOrigins: ['*'] })
  nobody = await startHttpFixture({})
})
after(async () => {
  for (const fixture of [named, anybody, nobody]) await fixture?.close()
})

const ask = (
  { frontend }: HttpFixture,
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  body = '',
): Promise<InjectedAnswer> => inject(frontend, { method, path, headers: Object.entries(headers), body }, maxInputBytes)

const preflight = {
  Origin: page,
  'Access-Control-Request-Method': 'POST',
  'Access-Control-Request-Headers': 'content-type,inference-header-content-length,x-key',
}

test('a browser that asks first is told the methods and headers it may use, also for restricted APIs', async () => {
  const { status, headers, body } = await ask(named, 'OPTIONS', '/v2/models/any/infer', preflight)
  assert.equal(status, 200)
  assert.equal(body.length, 0)
  assert.equal(headers['access-control-allow-origin'], page)
  assert.equal(headers['access-control-allow-methods'], 'GET, POST')
  assert.equal(headers['access-control-allow-headers'], preflight['Access-Control-Request-Headers'])
  assert.equal(headers['access-control-max-age'], '7200')
  assert.equal(headers['vary'], 'Origin, Access-Control-Request-Headers')
})

test('answers and refusals of every kind may be read by the pages that were named', async () => {
  const kinds: [method: string, path: string, status: number, body?: string][] = [
    ['GET', '/v2', 200],
    ['GET', '/v2/nothing', 404],
    ['POST', '/v2', 405],
    ['POST', '/v2/models/any/infer', 403, '{}'],
    ['POST', '/v2/repository/index', 400, 'x'.repeat(1001)],
  ]
  for (const [method, path, status, body] of kinds) {
    const answer = await ask(named, method, path, { Origin: page }, body)
    assert.equal(answer.status, status)
    assert.equal(answer.headers['access-control-allow-origin'], page, path)
    assert.match(answer.headers['access-control-expose-headers'] ?? '', /Inference-Header-Content-Length/)
    assert.equal(answer.headers['vary'], 'Origin')
  }
})

test('other pages are told nothing, and caches that the answer depends on who asks', async () => {
  for (const origin of [
    'https://evil.example',
    'https://app.example.com.evil.example',
    'http://app.example.com',
    'null',
  ]) {
    for (const method of ['GET', 'OPTIONS']) {
      const answer = await ask(named, method, '/v2', { ...preflight, Origin: origin })
      const told = Object.keys(answer.headers).filter((name) => name.startsWith('access-control'))
      assert.deepEqual(told, [], `${method} from ${origin}`)
      assert.equal(answer.headers['vary'], 'Origin')
    }
  }
  const { headers } = await ask(named, 'GET', '/v2', {})
  assert.equal(headers['vary'], 'Origin')
})

test('with * every page may call, and the answer is the same for all', async () => {
  const { headers } = await ask(anybody, 'GET', '/v2', { Origin: 'https://any.example' })
  assert.equal(headers['access-control-allow-origin'], '*')
  assert.equal(headers['vary'], undefined)
  const asked = await ask(anybody, 'OPTIONS', '/v2', preflight)
  assert.equal(asked.headers['access-control-allow-origin'], '*')
})

test('names of headers that are none are not repeated', async () => {
  const odd = { ...preflight, 'Access-Control-Request-Headers': 'a b;c' }
  const { headers } = await ask(named, 'OPTIONS', '/v2', odd)
  assert.equal(headers['access-control-allow-headers'], undefined)
})

test('without the option nothing changes', async () => {
  const { headers } = await ask(nobody, 'GET', '/v2', { Origin: page })
  assert.deepEqual(Object.keys(headers).sort(), ['content-length', 'content-type'])
  const asked = await ask(nobody, 'OPTIONS', '/v2', preflight)
  assert.equal(asked.status, 405)
})

test('an origin is what browsers send, or *', () => {
  for (const good of ['*', page, 'http://localhost:3000', 'http://[::1]:8080']) validateOrigin(good)
  for (const bad of ['', 'app.example.com', `${page}/`, `${page}/x`, 'null', 'https://APP.example.com']) {
    assert.throws(() => validateOrigin(bad), /--http-cors-origin/, bad)
  }
})
