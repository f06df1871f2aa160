// KServe v1 as a client sees it: rows in, rows out, and what is refused.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { inject, type InjectedInit } from '../fakes/injected-request.ts'
import { answerWithCopy } from '../fakes/held-instance.ts'
import { startHttpFixture } from './http-fixture.ts'

const echoConfig = (type: string, dims: string, batch = 8): string =>
  `max_batch_size: ${batch} input { name: "X" data_type: TYPE_${type} dims: [ ${dims} ] }
   output { name: "X" data_type: TYPE_${type} dims: [ ${dims} ] }`

const fixture = await startHttpFixture(
  {},
  {
    numbers: { config: echoConfig('FP32', '-1', 100_000), run: answerWithCopy },
    words: { config: echoConfig('STRING', '1'), run: answerWithCopy },
    fixed: { config: echoConfig('INT32', '2', 0), run: answerWithCopy },
  },
)
after(() => fixture.close())

type Answer = { status: number; type: string | undefined; body: unknown }

async function ask(method: string, path: string, init: Partial<InjectedInit> = {}): Promise<Answer> {
  const { status, headers, body } = await inject(fixture.frontend, { method, path, ...init })
  return { status, type: headers['content-type'], body: JSON.parse(body.toString()) }
}

const predict = (model: string, body: unknown): Promise<Answer> =>
  ask('POST', `/v1/models/${model}:predict`, { body: JSON.stringify(body) })
const answered = (body: unknown): Answer => ({ status: 200, type: 'application/json', body })
const refused = (status: number, error: string): Answer => ({ status, type: 'application/json', body: { error } })

test('rows of one input come back as rows', async () => {
  const rows = [
    [1.5, 2],
    [3, 4],
  ]
  assert.deepEqual(await predict('numbers', { instances: rows }), answered({ predictions: rows }))
  assert.deepEqual(await predict('numbers', { inputs: rows }), answered({ outputs: rows }))
  assert.deepEqual(
    await predict('words', { instances: ['a', { b64: '/w==' }] }),
    answered({ predictions: [['a'], [{ b64: '/w==' }]] }),
  )
})

test('a CloudEvent gets an event back, binary or structured', async () => {
  const path = '/v1/models/numbers:predict'
  const attributes = { specversion: '1.0', id: '1', source: 's', type: 't' }
  const headers = Object.entries(attributes).map(([name, value]) => [`ce-${name}`, value] as const)
  const binary = await inject(fixture.frontend, { method: 'POST', path, headers, body: '{"instances":[[1]]}' })
  assert.deepEqual(JSON.parse(binary.body.toString()), { predictions: [[1]] })
  assert.equal(binary.headers['ce-source'], 'io.kserve.inference.numbers')
  assert.equal(binary.headers['ce-type'], 'io.kserve.inference.response')
  const structured = async (event: unknown): Promise<{ status: number; body: Record<string, unknown> }> => {
    const { status, body } = await inject(fixture.frontend, {
      method: 'POST',
      path,
      headers: [['content-type', 'application/cloudevents+json']],
      body: typeof event === 'string' ? event : JSON.stringify(event),
    })
    return { status, body: JSON.parse(body.toString()) as Record<string, unknown> }
  }
  assert.match(binary.headers['ce-time'] ?? '', /^\d{4}-\d\d-\d\dT/)
  const data = { instances: [[2]] }
  const { body } = await structured({ ...attributes, data })
  assert.deepEqual([body['specversion'], body['data']], ['1.0', { predictions: [[2]] }])
  const encoded = Buffer.from(JSON.stringify(data)).toString('base64')
  assert.deepEqual((await structured({ ...attributes, data_base64: encoded })).body['data'], { predictions: [[2]] })
  const both = { ...attributes, data, data_base64: 'e30=' }
  assert.deepEqual((await structured(both)).body['data'], { predictions: [[2]] })
  const wrong = await structured({ ...attributes, data_base64: '???' })
  assert.deepEqual(wrong, { status: 400, body: { error: "the CloudEvent's 'data_base64' is no base64" } })
  for (const bad of ['', '[]', '{"specversion":"1.0"}', '{"data":{}}', `{"a":"${'x'.repeat(1 << 20)}"}`]) {
    assert.equal((await structured(bad)).status, 400, bad.slice(0, 30))
  }
  for (const name of Object.keys(attributes)) {
    const others = Object.entries({ ...attributes, data }).filter(([other]) => other !== name)
    const { status, body } = await structured(Object.fromEntries(others))
    assert.deepEqual([status, body], [400, { error: `the CloudEvent has no '${name}'` }])
  }
  const extensions = (count: number): object =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`x${i}`, 1]))
  assert.equal((await structured({ ...attributes, data, ...extensions(1019) })).status, 200)
  const { body: refused } = await structured({ ...attributes, data, ...extensions(1020) })
  assert.deepEqual(refused, { error: 'a CloudEvent has at most 1024 members' })
})

test("what counts as a CloudEvent is as in KServe's own server", async () => {
  const data = { instances: [[2]] }
  const attributes = { specversion: '1.0', id: '1', source: 's', type: 't', time: '2026-01-01T00:00:00Z' }
  const send = async (headers: Record<string, string>, body: unknown): Promise<unknown[]> => {
    const answer = await inject(fixture.frontend, {
      method: 'POST',
      path: '/v1/models/numbers:predict',
      headers: Object.entries(headers),
      body: JSON.stringify(body),
    })
    const { error, predictions } = JSON.parse(answer.body.toString()) as Record<string, unknown>
    return [answer.status, 'ce-id' in answer.headers, error ?? predictions]
  }
  const ce = { 'ce-specversion': '1.0', 'ce-id': '1', 'ce-source': 's', 'ce-type': 't' }
  assert.deepEqual(await send({ ...ce, 'ce-specversion': '0.3' }, data), [200, true, [[2]]])
  const refused = [400, false, 'Cloud Event Exceptions: Found invalid specversion 2.0']
  assert.deepEqual(await send({ ...ce, 'ce-specversion': '2.0' }, data), refused)
  // Without one of its four headers a request is a plain one.
  for (const name of Object.keys(ce)) {
    const others = Object.entries(ce).filter(([other]) => other !== name)
    assert.deepEqual(await send(Object.fromEntries(others), data), [200, false, [[2]]], name)
  }
  // A structured event may call itself plain JSON, and must then be whole.
  const json = { 'content-type': 'application/json' }
  assert.deepEqual(await send(json, { ...attributes, data }), [200, false, [[2]]])
  const half = "the request has neither 'instances' nor 'inputs'"
  assert.deepEqual(await send(json, { specversion: '1.0', data }), [400, false, half])
  const batch = [400, false, 'a batch of CloudEvents is not taken: send each event by itself']
  assert.deepEqual(await send({ 'content-type': 'application/cloudevents-batch+json' }, [attributes]), batch)
})

test('the event of an answer has the source and type of the environment, and keeps the attributes of its request', async () => {
  const cloudEvents = { source: 'of.mine', type: 'my.type', isMerged: true }
  const own = await startHttpFixture({ cloudEvents }, { numbers: { config: echoConfig('FP32', '-1'), run: answerWithCopy } }) // prettier-ignore
  const send = async (headers: Record<string, string>, body: unknown): ReturnType<typeof inject> =>
    inject(own.frontend, {
      method: 'POST',
      path: '/v1/models/numbers:predict',
      headers: Object.entries(headers),
      body: JSON.stringify(body),
    })
  const attributes = { specversion: '1.0', id: '1', source: 's', type: 't', time: '2026-01-01T00:00:00Z' }
  const data = { instances: [[2]] }
  const structured = { 'content-type': 'application/cloudevents+json' }
  const event = JSON.parse((await send(structured, { ...attributes, data, extra: { a: 1 } })).body.toString()) as object
  const { id, time, ...others } = event as Record<string, string>
  assert.ok(id !== '1' && time !== attributes.time)
  const fixed = { specversion: '1.0', source: 'of.mine', type: 'my.type' }
  const answer = { datacontenttype: 'application/json', data: { predictions: [[2]] } }
  assert.deepEqual(others, { ...fixed, ...answer, extra: { a: 1 } })
  const ce = Object.fromEntries(Object.entries(attributes).map(([name, value]) => [`ce-${name}`, value]))
  const { headers } = await send({ ...ce, 'CE-Extra': 'kept', 'ce-datacontenttype': 'a/b', other: 'not' }, data)
  const told = Object.entries(headers).filter(([name]) => /^(ce-|other)/.test(name) && !/^ce-(id|time)$/.test(name))
  const named = Object.entries(fixed).map(([name, value]) => [`ce-${name}`, value] as const)
  assert.deepEqual(Object.fromEntries(told), { ...Object.fromEntries(named), 'ce-extra': 'kept' })
  assert.notEqual(headers['ce-id'], '1')
  await own.close()
})

test('there is no explainer, and the answer says so', async () => {
  const { status, body } = await ask('POST', '/v1/models/numbers:explain', { body: '{}' })
  assert.equal(status, 501)
  assert.match((body as { error: string }).error, /has no explainer/)
})

test('rows of several inputs and outputs are objects', async () => {
  const [INPUT0, INPUT1] = [
    [1, 2, 3, 4],
    [1, 1, 1, 1],
  ]
  const OUTPUT0 = [2, 3, 4, 5]
  const OUTPUT1 = [0, 1, 2, 3]
  assert.deepEqual(
    await predict('add_sub', {
      instances: [
        { INPUT0, INPUT1 },
        { INPUT1, INPUT0 },
      ],
    }),
    answered({
      predictions: [
        { OUTPUT0, OUTPUT1 },
        { OUTPUT0, OUTPUT1 },
      ],
    }),
  )
  assert.deepEqual(
    await predict('add_sub', { inputs: { INPUT0: [INPUT0], INPUT1: [INPUT1] } }),
    answered({ outputs: { OUTPUT0: [OUTPUT0], OUTPUT1: [OUTPUT1] } }),
  )
})

test('a model that does not batch takes rows as its first dimension', async () => {
  assert.deepEqual(await predict('fixed', { instances: [7, 8] }), answered({ predictions: [7, 8] }))
  assert.deepEqual(
    await predict('fixed', { instances: [7] }),
    refused(400, "model 'fixed' does not batch, and its input 'X' of shape [2] cannot take 1 as first dimension"),
  )
})

test('threads read large requests and write large answers, with the same result', async () => {
  const rows = Array.from({ length: 20_000 }, (_, i) => [i, i / 4])
  assert.deepEqual(await predict('numbers', { instances: rows }), answered({ predictions: rows }))
  assert.deepEqual(
    await predict('numbers', { instances: [...rows, [1, 'a']] }),
    refused(400, `row 20000 of input 'X' holds "a", which is no FP32`),
  )
  const many = Array.from({ length: 50_000 }, () => [1])
  assert.deepEqual(await predict('numbers', { instances: many }), answered({ predictions: many }))
})

test('what does not fit the model is a 400 that says where', async () => {
  assert.deepEqual(
    await predict('numbers', { instances: [[1], [1, 2]] }),
    refused(400, "row 1 of input 'X' is ragged: all rows must have one shape, and all lists of one depth one length"),
  )
  assert.equal((await predict('add_sub', { instances: [{ INPUT0: [1, 2, 3, 4] }] })).status, 400)
  assert.equal((await predict('add_sub', { instances: [{ INPUT0: [1], INPUT1: [1] }] })).status, 400)
  assert.equal((await ask('POST', '/v1/models/numbers:predict', { body: '{"instances":' })).status, 400)
  assert.equal((await predict('words', { instances: Array.from({ length: 9 }, () => 'a') })).status, 400)
  assert.deepEqual(
    await ask('POST', '/v1/models/numbers:predict', { headers: [['content-encoding', 'gzip']] }),
    refused(400, "Unsupported content-encoding, only 'identity' is supported."),
  )
})

test('models that are unknown, decoupled or fail are refused with the status of the error', async () => {
  assert.deepEqual(await predict('none', {}), refused(404, 'Model with name none does not exist.'))
  assert.deepEqual(
    await predict('repeat', { instances: [1] }),
    refused(501, "predict doesn't support models with decoupled transaction policy"),
  )
  assert.deepEqual(await predict('fail', { instances: [5] }), refused(503, 'told to fail: UNAVAILABLE'))
  assert.deepEqual(await predict('fail', { instances: [102] }), refused(500, 'expected a single response, got 2'))
})

test('models are listed once each, and each tells whether it is ready', async () => {
  const { models } = (await ask('GET', '/v1/models')).body as { models: string[] }
  assert.deepEqual([...new Set(models)], models)
  assert.deepEqual(await ask('GET', '/'), answered({ status: 'alive' }))
  assert.ok(['numbers', 'versions_all', 'repeat'].every((name) => models.includes(name)))
  assert.deepEqual(await ask('GET', '/v1/models/numbers'), answered({ name: 'numbers', ready: true }))
  await fixture.engine.unload('fixed')
  for (const [model, status, text] of [
    ['none', 404, 'Model with name none does not exist.'],
    ['fixed', 503, 'Model with name fixed is not ready.'],
  ] as const) {
    assert.deepEqual(await ask('GET', `/v1/models/${model}`), refused(status, text))
    for (const verb of ['predict', 'explain']) {
      const body = '{"instances":[1]}'
      assert.deepEqual(await ask('POST', `/v1/models/${model}:${verb}`, { body }), refused(status, text), verb)
    }
  }
})

test('models are listed below /v2, and health is told in JSON to who asks for JSON, as by KServe, and in an empty body to others', async () => {
  const own = await startHttpFixture({}, {}, undefined, false)
  const health = async (path: string, ...headers: (readonly [string, string])[]): Promise<[number, string]> => {
    const { status, body } = await inject(own.frontend, { method: 'GET', path, headers })
    return [status, body.toString()]
  }
  const json = ['Accept', 'application/json'] as const
  assert.deepEqual(await health('/v2/health/live', json), [200, '{"live":true}'])
  assert.deepEqual(await health('/v2/health/ready', json), [200, '{"ready":true}'])
  assert.deepEqual(await health('/v2/models/fail/ready', json), [200, '{"name":"fail","ready":true}'])
  assert.deepEqual(await health('/v2/models/none/ready', json), [400, '{"name":"none","ready":false}'])
  // KServe's client takes anything and reads JSON; curl and scripts for Triton take anything, too, and NVIDIA's clients say nothing.
  const any = ['Accept', '*/*'] as const
  const kserve = [any, ['User-Agent', 'python-httpx/0.28.1']] as const
  assert.deepEqual(await health('/v2/health/ready', ...kserve), [200, '{"ready":true}'])
  assert.deepEqual(await health('/v2/models/fail/ready', ...kserve), [200, '{"name":"fail","ready":true}'])
  assert.deepEqual(await health('/v2/models/none/ready', ...kserve), [400, '{"error":"Model version not ready"}'])
  for (const headers of [[], [any], [any, ['User-Agent', 'curl/8.5.0']]] as const)
    assert.deepEqual(await health('/v2/health/ready', ...headers), [200, ''])
  assert.deepEqual(await health('/v2/models/fail/ready'), [200, ''])
  const { models } = JSON.parse((await health('/v2/models'))[1]) as { models: string[] }
  assert.ok(['fail', 'repeat'].every((name) => models.includes(name)))
  await own.close()
})

test('times of predictions have the names of KServe where they are asked for', async () => {
  const config = echoConfig('FP32', '-1')
  const timed = await startHttpFixture({ hasKserveMetrics: true }, { numbers: { config, run: answerWithCopy } })
  const send = (method: string, path: string, body = ''): ReturnType<typeof inject> =>
    inject(timed.frontend, { method, path, body })
  await send('POST', '/v1/models/numbers:predict', '{"instances":[[1]]}')
  await send('POST', '/v1/models/numbers:predict', '{"instances":[["a"]]}')
  const { headers, body } = await send('GET', '/metrics')
  assert.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
  for (const family of ['request_preprocess_seconds', 'request_predict_seconds', 'request_postprocess_seconds']) {
    assert.match(body.toString(), new RegExp(`^# TYPE ${family} histogram$`, 'm'))
    assert.match(body.toString(), new RegExp(`^${family}_bucket\\{le="\\+Inf",model_name="numbers"\\} 1$`, 'm'))
    assert.match(body.toString(), new RegExp(`^${family}_count\\{model_name="numbers"\\} 1$`, 'm'))
  }
  assert.match(body.toString(), /request_predict_seconds_bucket\{le="1\.0",/)
  await timed.close()
  assert.equal((await inject(fixture.frontend, { method: 'GET', path: '/metrics' })).status, 404)
})

test('without the protocol its paths are not there', async () => {
  const without = await startHttpFixture({ hasKserveV1: false, hasOpenAi: false })
  for (const path of ['/v1/models', '/v1/models/fail', '/v1/models/fail:predict']) {
    assert.equal((await inject(without.frontend, { method: 'GET', path })).status, 404)
  }
  await without.close()
})
