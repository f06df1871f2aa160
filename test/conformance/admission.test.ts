// Admission and Choice as every port uses them: who calls is known before the body, and the version is chosen by who
// asks and how.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Admission, Verdict } from '../../src/access/admission.ts'
import type { CallFacts } from '../../src/access/call-facts.ts'
import { makeCaller } from '../../src/access/caller.ts'
import { SystemClock } from '../../src/base/clock.ts'
import { createHttpPort } from '../../src/http-front-ends.ts'
import { createMetricsPort } from '../../src/metrics-service.ts'
import { defaultOptions } from '../../src/options/options-from-flags.ts'
import { GrpcFixture } from './grpc-fixture.ts'
import { startHttpFixture } from './http-fixture.ts'
import { RawConnection } from './http-raw-client.ts'
import { inject } from '../fakes/injected-request.ts'

const clock = new SystemClock()
const refusal: Verdict = { kind: 'refused', reason: 'restricted', message: 'who are you?' }

/** Knows `Bearer NAME`, at once or a little later; remembers the facts it was asked about. */
class KnownNames implements Admission {
  readonly asked: CallFacts[] = []
  readonly #isLate: boolean

  constructor(isLate: boolean) {
    this.#isLate = isLate
  }

  admit(facts: CallFacts): Verdict | Promise<Verdict> {
    this.asked.push(facts)
    const name = facts.header('authorization')?.replace('Bearer ', '') ?? ''
    if (name === 'bug') throw new Error('a bug of Admission')
    const caller = makeCaller('shared-key', name)
    const verdict = name === '' ? refusal : caller
    return this.#isLate ? new Promise((resolve) => setTimeout(() => resolve(verdict), 5)) : verdict
  }
}

const http = await startHttpFixture()
after(() => http.close())
const { engine, log } = http

const code = (value: number): string =>
  JSON.stringify({ inputs: [{ name: 'CODE', shape: [1], datatype: 'INT32', data: [value] }] })

const infer = (headers: string, body = code(0), model = 'fail'): string =>
  `POST /v2/models/${model}/infer HTTP/1.1\r\nHost: localhost\r\n${headers}Content-Length: ${body.length}\r\n\r\n${body}`

for (const isLate of [false, true]) {
  const when = isLate ? 'later' : 'at once'

  test(`an HTTP request is admitted ${when}, and the connection goes on in order`, async () => {
    const admission = new KnownNames(isLate)
    const port = createHttpPort({ engine, log, clock, admission }, { ...defaultOptions().http, port: 0 })
    const connection = new RawConnection((await port.listen()).port)
    // Three requests in one write: known, unknown with a body, known.
    connection.send(infer('Authorization: Bearer ann\r\n') + infer('') + infer('Authorization: Bearer bob\r\n'))
    const statuses: number[] = []
    for (let i = 0; i < 3; i++) {
      const answer = await connection.answer()
      assert.ok(answer !== 'closed')
      statuses.push(answer.status)
    }
    assert.deepEqual(statuses, [200, 403, 200])
    assert.deepEqual(
      admission.asked.map(({ protocol, api, path, peer }) => [protocol, api, path, peer]),
      Array.from({ length: 3 }, () => ['http', 'inference', '/v2/models/fail/infer', '127.0.0.1']),
    )
    connection.destroy()
    await port.close()
  })

  test(`a body that nobody admitted (${when}) is not kept: a short one is heard out, a long one closes the connection`, async () => {
    const admission = new KnownNames(isLate)
    const port = createHttpPort({ engine, log, clock, admission }, { ...defaultOptions().http, port: 0 })
    const { port: number } = await port.listen()
    const short = new RawConnection(number)
    short.send(infer('', 'x'.repeat(100_000)))
    assert.equal(((await short.answer()) as { status: number }).status, 403)
    short.send('GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ann\r\n\r\n')
    assert.equal(((await short.answer()) as { status: number }).status, 200)
    const long = new RawConnection(number)
    long.send('POST /v2/models/fail/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000000\r\n\r\n')
    const answer = await long.answer()
    assert.ok(answer !== 'closed')
    assert.deepEqual([answer.status, answer.headers['connection']], [403, 'close'])
    const asking = new RawConnection(number)
    asking.send(
      'POST /v2/models/fail/infer HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n',
    )
    assert.equal(((await asking.answer()) as { status: number }).status, 403)
    for (const connection of [short, long, asking]) connection.destroy()
    await port.close()
  })

  test(`a gRPC call is admitted ${when}, before its message is read`, async () => {
    const admission = new KnownNames(isLate)
    const fixture = await GrpcFixture.start({}, {}, { admission })
    const request = {
      model_name: 'fail',
      inputs: [{ name: 'CODE', datatype: 'INT32', shape: [1] }],
      raw_input_contents: [Buffer.alloc(4)],
    }
    assert.equal((await fixture.call('ModelInfer', request, { authorization: 'Bearer ann' })).code, 'OK')
    const refused = await fixture.call('ModelInfer', request)
    assert.deepEqual([refused.code, refused.details], ['UNAVAILABLE', 'who are you?'])
    assert.equal((await fixture.call('ServerLive', {}, { authorization: 'Bearer ann' })).code, 'OK')
    assert.deepEqual(
      admission.asked.map(({ protocol, api }) => [protocol, api]),
      [
        ['grpc', 'inference'],
        ['grpc', 'inference'],
        ['grpc', 'health'],
      ],
    )
    await fixture.close()
  })
}

test('the metrics port asks the same Admission', async () => {
  const admission = new KnownNames(true)
  const formats = [{ contentType: 'text/plain', pieces: () => ['page\n'] }]
  const port = createMetricsPort({ clock, log, formats, admission }, { address: '127.0.0.1', port: 0 })
  const { port: number } = await port.listen()
  const get = (headers: Record<string, string>): Promise<Response> =>
    fetch(`http://127.0.0.1:${number}/metrics`, { headers })
  assert.equal((await get({})).status, 403)
  assert.equal((await get({ authorization: 'Bearer ann' })).status, 200)
  assert.deepEqual(new Set(admission.asked.map(({ protocol }) => protocol)), new Set(['metrics']))
  await port.close()
})

test('an Admission that fails lets nobody in, and says so in the log', async () => {
  const admission = new KnownNames(false)
  const port = createHttpPort({ engine, log, clock, admission }, { ...defaultOptions().http, port: 0 })
  const { status, body } = await inject(port, {
    method: 'GET',
    path: '/v2',
    headers: [['Authorization', 'Bearer bug']],
  })
  assert.equal(status, 500)
  assert.doesNotMatch(body.toString(), /a bug of/)
  assert.ok(log.entries.some((entry) => entry.message === 'admission failed'))
  await port.close()
})

test('a Chooser steers by header, caller and the head of the body, over HTTP and gRPC alike', async () => {
  const admission = new KnownNames(false)
  const fixture = await GrpcFixture.start({}, {}, { admission })
  const port = createHttpPort({ engine: fixture.engine, log, clock, admission }, { ...defaultOptions().http, port: 0 })
  let headsRead = 0
  fixture.engine.setChooser('versions_all', (facts, version, model) => {
    if (version !== '') return model.find(version)
    if (facts.caller.principal === 'ann') return model.find('1')
    if (facts.header('x-canary') === 'yes') return model.find('2')
    headsRead++
    const { id, parameters } = facts.head()
    return id === 'try-2' || parameters.get('tier') === 'new' ? model.find('2') : model.find('')
  })
  const overHttp = async (caller: string, headers: [string, string][] = [], more = {}, path = ''): Promise<unknown> => {
    const { body } = await inject(port, {
      method: 'POST',
      path: `/v2/models/versions_all${path}/infer`,
      headers: [['Authorization', `Bearer ${caller}`], ...headers],
      body: JSON.stringify({ ...more, ...JSON.parse(code(0)) }),
    })
    return (JSON.parse(body.toString()) as { model_version: unknown }).model_version
  }
  assert.equal(await overHttp('ann'), '1')
  assert.equal(await overHttp('bob', [['X-Canary', 'yes']]), '2')
  assert.equal(await overHttp('bob', [], {}, '/versions/1'), '1')
  assert.equal(headsRead, 0)
  assert.equal(await overHttp('bob'), '10')
  assert.equal(await overHttp('bob', [], { id: 'try-2' }), '2')
  assert.equal(await overHttp('bob', [], { parameters: { tier: 'new' } }), '2')
  const overGrpc = async (caller: string, metadata = {}, more = {}): Promise<unknown> => {
    const request = { model_name: 'versions_all', inputs: [{ name: 'CODE', datatype: 'INT32', shape: [1] }], ...more }
    const raw = { ...request, raw_input_contents: [Buffer.alloc(4)] }
    const { message } = await fixture.call('ModelInfer', raw, { authorization: `Bearer ${caller}`, ...metadata })
    return message['model_version']
  }
  assert.equal(await overGrpc('ann'), '1')
  assert.equal(await overGrpc('bob', { 'x-canary': 'yes' }), '2')
  assert.equal(await overGrpc('bob', {}, { id: 'try-2' }), '2')
  assert.equal(await overGrpc('bob'), '10')
  await port.close()
  await fixture.close()
})
