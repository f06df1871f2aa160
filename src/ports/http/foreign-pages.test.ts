import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startHttpFixture } from '../../../test/conformance/http-fixture.ts'
import { createMetricsPort } from '../../metrics-service.ts'
import { SystemClock } from '../../base/clock.ts'
import { silentLog } from '../../base/log.ts'
import { httpRoutes } from '../../http-front-ends.ts'
import { defaultOptions } from '../../options/options-from-flags.ts'
import { inject, InjectedRequest } from '../../../test/fakes/injected-request.ts'
import { ForeignPages } from './foreign-pages.ts'

type Options = ConstructorParameters<typeof ForeignPages>[0]
type Headers = Readonly<Record<string, string>>
const none: Options = { address: '127.0.0.1', isTls: false, corsOrigins: [], allowedHosts: [] }

const refusal = (options: Partial<Options>, headers: Headers, method = 'POST'): string | null => {
  const init = { method, path: '/v2/x', headers: Object.entries(headers) }
  return new ForeignPages({ ...none, ...options }).refusal(new InjectedRequest(init, () => undefined))
}

const cross = { 'Sec-Fetch-Site': 'cross-site' }
const same = { 'Sec-Fetch-Site': 'same-site' }

test('a page of another origin may send nothing but GET, HEAD and OPTIONS, and is told the flag', () => {
  for (const origin of [
    'http://evil.example',
    'https://localhost:8000',
    'http://localhost:3000',
    'http://127.0.0.1',
    'http://localhost:80001',
    'http://localhost.evil.example:8000',
    'http://127.0.0.1.evil.example:8000',
    'http://[::1]:9',
    'file://',
    'http://',
    '',
  ]) {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'TRACE']) {
      const text = refusal({}, { Host: 'localhost:8000', Origin: origin }, method)
      assert.match(text ?? '', /--http-cors-origin/, `${method} from '${origin}'`)
    }
    for (const method of ['GET', 'HEAD', 'OPTIONS'])
      assert.equal(refusal({}, { Origin: origin, ...cross }, method), null)
  }
  assert.match(refusal({}, { Origin: 'http://evil.example' }) ?? '', /--http-cors-origin=http:\/\/evil\.example /)
  assert.match(refusal({}, { Host: 'localhost', Origin: 'null' }) ?? '', /does not say its origin/)
})

test('what the browser says of the site counts where there is no origin', () => {
  for (const headers of [cross, same, { 'sec-fetch-site': 'nonsense' }, { 'SEC-FETCH-SITE': 'cross-site' }]) {
    assert.notEqual(refusal({}, headers as Headers), null)
    assert.notEqual(refusal({}, { ...(headers as Headers), Origin: 'http://evil.example' }), null)
  }
  assert.equal(refusal({}, { 'Sec-Fetch-Site': 'same-origin' }), null)
  assert.equal(refusal({}, { 'Sec-Fetch-Site': 'none' }), null)
  const pages = new ForeignPages(none)
  const twice = { method: 'POST', path: '/', headers: [['Sec-Fetch-Site', 'none'], ['sec-fetch-site', 'cross-site']] } as const // prettier-ignore
  assert.notEqual(pages.refusal(new InjectedRequest(twice, () => undefined)), null)
})

test("the server's own pages may act, by whatever name of loopback they were reached", () => {
  for (const [origin, host] of [
    ['http://localhost:8000', 'localhost:8000'],
    ['http://localhost:8000', '127.0.0.1:8000'],
    ['http://[::1]:8000', 'LOCALHOST:8000'],
    ['http://a.localhost:8000', '127.3.2.1:8000'],
    ['http://localhost', 'localhost'],
  ] as const) {
    assert.equal(refusal({}, { Host: host, Origin: origin, ...cross }), null, `${origin} to ${host}`)
  }
  const open = { address: '0.0.0.0', isTls: true }
  assert.equal(refusal(open, { Host: 'infer.example', Origin: 'https://infer.example' }), null)
  assert.notEqual(refusal(open, { Host: 'infer.example', Origin: 'http://infer.example' }), null)
  assert.notEqual(refusal(open, { Host: 'infer.example', Origin: 'https://other.example', ...same }), null)
  assert.notEqual(refusal(open, { Origin: 'https://infer.example' }), null)
})

test('origins that were named may act, with * every page', () => {
  const page = 'https://app.example.com'
  assert.equal(refusal({ corsOrigins: [page] }, { Origin: page, ...cross }), null)
  assert.notEqual(refusal({ corsOrigins: [page] }, { Origin: 'https://evil.example', ...cross }), null)
  assert.notEqual(refusal({ corsOrigins: [page] }, cross), null)
  const both = [['Origin', page], ['origin', 'https://evil.example']] as const // prettier-ignore
  const request = new InjectedRequest({ method: 'POST', path: '/', headers: both }, () => undefined)
  assert.notEqual(new ForeignPages({ ...none, corsOrigins: [page] }).refusal(request), null)
  assert.equal(refusal({ corsOrigins: ['*'] }, { Origin: 'null', ...cross }), null)
})

test('on loopback only names of loopback are answered, whatever the method', () => {
  for (const host of ['localhost', 'localhost:8000', 'LocalHost.', 'a.b.localhost:1', '127.0.0.1:8000', '127.9.9.9', '[::1]:8000', '[::1]', '']) {
    for (const address of ['127.0.0.1', '127.0.0.2', '::1', 'localhost'])
      assert.equal(refusal({ address }, { Host: host }, 'GET'), null, host)
  } // prettier-ignore
  for (const host of ['evil.example', 'evil.example:8000', 'localhost.evil.example', '127.0.0.1.evil.example', '127.evil', '10.0.0.1', '0.0.0.0', '[::2]', 'notlocalhost', 'localhost:8000@evil', 'localhost:x',]) {
    for (const method of ['GET', 'POST', 'HEAD', 'OPTIONS'])
      assert.match(refusal({}, { Host: host }, method) ?? '', /--http-allowed-hosts=/, host)
    assert.equal(refusal({ address: '0.0.0.0' }, { Host: host }), null)
    assert.equal(refusal({ allowedHosts: ['*'] }, { Host: host }), null)
  } // prettier-ignore
  assert.equal(refusal({}, {}), null)
  const pages = new ForeignPages(none)
  const twice = { method: 'GET', path: '/', headers: [['Host', 'localhost'], ['host', 'evil.example']] } as const // prettier-ignore
  assert.notEqual(pages.refusal(new InjectedRequest(twice, () => undefined)), null)
})

test('--http-allowed-hosts names more hosts, and makes a rule where there is none', () => {
  for (const address of ['127.0.0.1', '0.0.0.0']) {
    const options = { address, allowedHosts: ['infer.example'] }
    assert.equal(refusal(options, { Host: 'Infer.Example:8000' }), null)
    assert.equal(refusal(options, { Host: 'localhost' }), null)
    assert.notEqual(refusal(options, { Host: 'evil.example' }), null)
    assert.notEqual(refusal(options, { Host: 'a.infer.example' }), null)
  }
})

test('every route that takes a POST refuses it from a page of another origin, and every route a name of another', async () => {
  const fixture = await startHttpFixture({})
  const { frontend, engine, log } = fixture
  const openAi = { handler: () => () => undefined }
  const parts = { engine, log, openAi, clock: new SystemClock() } as unknown as Parameters<typeof httpRoutes>[0]
  const routes = httpRoutes(parts, defaultOptions().http)
  assert.ok(routes.length > 20)
  for (const { path, methods } of routes) {
    const target = path.replaceAll(/[[\]]/g, '').replaceAll(/\{\w+\}/g, '1')
    for (const method of methods) {
      const evil = await inject(frontend, { method, path: target, headers: [['Host', 'evil.example']] })
      assert.equal(evil.status, 403, `${method} ${target}`)
      if (method !== 'POST') continue
      for (const headers of [[['Origin', 'http://evil.example']], Object.entries(cross)] as [string, string][][]) {
        const answer = await inject(frontend, { method, path: target, headers })
        assert.equal(answer.status, 403, `${method} ${target}`)
        assert.match(answer.body.toString(), /--http-cors-origin/)
      }
    }
  }
  await fixture.close()
})

test('the metrics port has the same rule', async () => {
  const parts = { clock: new SystemClock(), log: silentLog, formats: [{ contentType: 'text/plain', pieces: () => [] }] }
  const port = createMetricsPort(parts, { address: '127.0.0.1', port: 0 })
  const ask = async (host: string): Promise<number> =>
    (await inject(port, { method: 'GET', path: '/metrics', headers: [['Host', host]] })).status
  assert.equal(await ask('localhost:8002'), 200)
  assert.equal(await ask('evil.example:8002'), 403)
  await port.close()
})
