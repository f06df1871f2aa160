import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'

import { bytesOf, startHttpFixture, type HttpFixture } from '../../../test/conformance/http-fixture.ts'
import { ServerError } from '../../base/server-error.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { inject, type InjectedAnswer } from '../../../test/fakes/injected-request.ts'

const held: InferenceRequest[] = []
const slowConfig =
  'input { name: "X" data_type: TYPE_INT32 dims: [ -1 ] } output { name: "Y" data_type: TYPE_INT32 dims: [ -1 ] }'
const textConfig =
  'input { name: "T" data_type: TYPE_STRING dims: [ 1 ] } output { name: "T" data_type: TYPE_STRING dims: [ 1 ] }'

let fixture: HttpFixture
before(async () => {
  fixture = await startHttpFixture(
    { maxInputBytes: 100_000 },
    {
      slow: { config: slowConfig, run: (request) => void held.push(request) },
      big: {
        config: slowConfig,
        run: (request) =>
          request.respond(InferenceResponse.of([new Tensor('Y', 'INT32', [20_000], new Uint8Array(80_000))])),
      },
      words: {
        config: textConfig,
        run: (request) => request.respond(InferenceResponse.of([bytesOf('T', [1], ['a"b\\c'])])),
      },
    },
  )
})
after(() => fixture.close())

type Init = { headers?: [string, string][]; body?: string | Buffer }
const send = (method: string, path: string, init: Init = {}): Promise<InjectedAnswer> =>
  inject(fixture.frontend, { method, path, ...init })
const infer = (model: string, body: unknown, headers: [string, string][] = []): Promise<InjectedAnswer> =>
  send('POST', `/v2/models/${model}/infer`, { body: typeof body === 'string' ? body : JSON.stringify(body), headers })
const errorOf = (answer: InjectedAnswer): string => (JSON.parse(answer.body.toString()) as { error: string }).error
const x = (data: number[]): object => ({ inputs: [{ name: 'X', shape: [data.length], datatype: 'INT32', data }] })
const code = (value: number): object => ({ inputs: [{ name: 'CODE', shape: [1], datatype: 'INT32', data: [value] }] })

test('health and readiness are empty and plain', async () => {
  for (const path of [
    '/v2/health/live',
    '/v2/health/ready',
    '/v2/models/echo/ready',
    '/v2/models/echo/versions/1/ready',
  ]) {
    const answer = await send('GET', path)
    assert.equal(answer.status, 200, path)
    assert.equal(answer.headers['content-type'], 'text/plain')
    assert.equal(answer.body.length, 0)
  }
})

test("a model's configuration is told under its wire names", async () => {
  const answer = await send('GET', '/v2/models/add_sub/config')
  assert.equal(answer.headers['content-type'], 'application/json')
  const config = JSON.parse(answer.body.toString()) as Record<string, unknown>
  assert.equal(config['name'], 'add_sub')
  assert.equal(config['max_batch_size'], 8)
})

test('a version beyond 64 bits is refused, its type that of the endpoint', async () => {
  const version = '99999999999999999999'
  for (const [method, path, type] of [
    ['GET', `/v2/models/echo/versions/${version}`, 'application/json'],
    ['GET', `/v2/models/echo/versions/${version}/ready`, 'text/plain'],
    ['POST', `/v2/models/echo/versions/${version}/infer`, 'text/plain'],
  ] as const) {
    const answer = await send(method, path)
    assert.equal(answer.status, 400, path)
    assert.match(errorOf(answer), /^failed to get model version from specified version string '99999999999999999999'/)
    assert.equal(answer.headers['content-type'], type)
  }
})

test('a decoupled model is refused before its body is looked at', async () => {
  const answer = await infer('repeat', 'not json', [['Content-Encoding', 'br']])
  assert.equal(answer.status, 501)
  assert.equal(errorOf(answer), "HTTP end point doesn't support models with decoupled transaction policy")
  assert.equal(answer.headers['content-type'], 'text/plain')
  assert.equal(answer.headers['accept-encoding'], undefined)
})

test('the model comes before the encoding, the encoding before the header length, that before the JSON', async () => {
  const bad: [string, string][] = [
    ['Content-Encoding', 'br'],
    ['Inference-Header-Content-Length', '99'],
  ]
  assert.match(errorOf(await infer('nobody', '{', bad)), /unknown model/)
  assert.equal(errorOf(await infer('echo', '{', bad)), 'Unsupported compression type')
  assert.equal(
    errorOf(await infer('echo', '{', bad.slice(1))),
    'inference header size should be in range (0, 1), got: 99',
  )
  assert.match(errorOf(await infer('echo', '{')), /^failed to parse the request JSON buffer/)
})

test('a model that answers not once is at fault', async () => {
  for (const [value, count] of [
    [101, 0],
    [102, 2],
  ] as const) {
    const answer = await infer('fail', code(value))
    assert.equal(answer.status, 500)
    assert.equal(errorOf(answer), `expected a single response, got ${count}`)
  }
  assert.equal((await infer('fail', code(103))).status, 200)
})

test('an error of the model is plain, one before execution is JSON', async () => {
  assert.equal((await infer('fail', code(4))).headers['content-type'], 'text/plain')
  assert.equal((await infer('fail', x([1]))).headers['content-type'], 'application/json')
})

test('a client that goes away cancels its request, and the late answer is released', async () => {
  held.length = 0
  let disconnect = (): void => undefined
  void inject(fixture.frontend, {
    method: 'POST',
    path: '/v2/models/slow/infer',
    body: JSON.stringify(x([1])),
    onStart: (request) => (disconnect = () => request.disconnect()),
  })
  const request = held[0] as InferenceRequest
  assert.equal(request.isCancelled, false)
  disconnect()
  assert.equal(request.isCancelled, true)
  let releaseCount = 0
  const release = (): void => void releaseCount++
  request.respond(InferenceResponse.of([new Tensor('Y', 'INT32', [1], new Uint8Array(4))], { release }))
  assert.equal(releaseCount, 1)
})

test("a model's memory goes back exactly once, whatever form the answer takes", async () => {
  for (const [headers, parameters] of [
    [[], {}],
    [[], { binary_data_output: true }],
    [[['Accept-Encoding', 'gzip']], { binary_data_output: true }],
    [[['Accept-Encoding', 'deflate']], {}],
  ] as [[string, string][], object][]) {
    held.length = 0
    const answer = infer('slow', { ...x([1]), parameters }, headers)
    let releaseCount = 0
    const release = (): void => void releaseCount++
    const request = held[0] as InferenceRequest
    request.respond(InferenceResponse.of([new Tensor('Y', 'INT32', [1], new Uint8Array([9, 0, 0, 0]))], { release }))
    assert.equal((await answer).status, 200)
    assert.equal(releaseCount, 1)
  }
})

test('an output that cannot be written as asked is the answer’s error and its memory goes back', async () => {
  held.length = 0
  const answer = infer('slow', x([1]))
  let releaseCount = 0
  const release = (): void => void releaseCount++
  const request = held[0] as InferenceRequest
  request.respond(InferenceResponse.of([new Tensor('Y', 'FP16', [1], new Uint8Array(2))], { release }))
  assert.equal((await answer).status, 400)
  assert.match(errorOf(await answer), /^sending FP16 data via JSON is not supported/)
  assert.equal(releaseCount, 1)
})

test('large answers are compressed too, with the length of the plain JSON', async () => {
  const answer = await infer('big', { ...x([1]), parameters: { binary_data_output: true } }, [
    ['Accept-Encoding', 'gzip'],
  ])
  assert.equal(answer.headers['content-encoding'], 'gzip')
  const plain = gunzipSync(answer.body)
  assert.equal(plain.length, 80_000 + Number(answer.headers['inference-header-content-length']))
  assert.ok(answer.body.length < 2000)
})

test('a compressed body is bounded after decompression', async () => {
  const bomb = gzipSync(Buffer.alloc(200_000))
  const answer = await send('POST', '/v2/models/echo/infer', { body: bomb, headers: [['Content-Encoding', 'gzip']] })
  assert.equal(answer.status, 400)
  assert.equal(answer.headers['content-type'], 'text/plain')
  assert.match(
    errorOf(answer),
    /^Decompressed data size exceeds the maximum allowed value of 100000 bytes\. Use --http-max/,
  )
})

test('limits of a request are refused with the limit and its flag', async () => {
  const input = { name: 'IN_FP32', shape: [1], datatype: 'FP32', data: [1] }
  for (const [body, pattern] of [
    [{ inputs: Array.from({ length: 257 }, () => input) }, /maximum is 256\. Use --max-request-tensors/],
    [{ inputs: [{ ...input, shape: Array.from({ length: 17 }, () => 1) }] }, /maximum is 16\. Use --max-tensor-rank/],
    [{ inputs: [input], id: 'a'.repeat(1025) }, /maximum is 1024\. Use --max-request-id-bytes/],
    [
      { inputs: [input], parameters: Object.fromEntries(Array.from({ length: 257 }, (_, i) => [`p${i}`, i])) },
      /maximum is 256\. Use --max-request-parameters/,
    ],
  ] as const) {
    const answer = await infer('echo', body)
    assert.equal(answer.status, 400)
    assert.match(errorOf(answer), pattern)
  }
})

test('shared memory that nobody registered is not found', async () => {
  const region = {
    name: 'X',
    shape: [1],
    datatype: 'INT32',
    parameters: { shared_memory_region: 'r', shared_memory_byte_size: 4 },
  }
  const byInput = await infer('slow', { inputs: [region] })
  assert.equal(byInput.status, 404)
  assert.equal(errorOf(byInput), "Unable to find shared memory region: 'r'")
  const outputs = [{ name: 'Y', parameters: { shared_memory_region: 'o', shared_memory_byte_size: 4 } }]
  assert.equal(errorOf(await infer('slow', { ...x([1]), outputs })), "Unable to find shared memory region: 'o'")
})

test('restricted APIs answer 403 before 405, and let the header pass', async () => {
  const guarded = await startHttpFixture({
    restrictedApis: [
      { apis: ['inference', 'metadata'], key: 'admin-key', value: 'v' },
      { apis: ['health'], key: 'h', value: 'w' },
    ],
  })
  for (const [method, path, key] of [
    ['POST', '/v2/models/fail/infer', 'admin-key'],
    ['GET', '/v2/models/fail/infer', 'admin-key'],
    ['GET', '/v2', 'admin-key'],
    ['GET', '/v2/models/fail', 'admin-key'],
    ['GET', '/v2/openapi.json', 'admin-key'],
    ['GET', '/v2/models/fail/ready', 'h'],
    ['GET', '/v2/health/live', 'h'],
  ] as const) {
    const refused = await inject(guarded.frontend, { method, path, headers: [['Admin-Key', 'wrong']] })
    assert.equal(refused.status, 403, path)
    assert.equal(refused.body.toString(), `{"error":"This API is restricted, expecting header '${key}'"}`)
  }
  const headers = [
    ['Admin-Key', 'v'],
    ['H', 'w'],
  ] as const
  assert.equal((await inject(guarded.frontend, { method: 'GET', path: '/v2', headers })).status, 200)
  assert.equal((await inject(guarded.frontend, { method: 'GET', path: '/v2/models/fail/ready', headers })).status, 200)
  const body = JSON.stringify(code(0))
  const served = await inject(guarded.frontend, { method: 'POST', path: '/v2/models/fail/infer', headers, body })
  assert.equal(served.status, 200)
  assert.equal((await inject(guarded.frontend, { method: 'GET', path: '/v2/models/fail/config' })).status, 200)
  await guarded.close()
})

test('options that make no sense are refused at start', async () => {
  await assert.rejects(startHttpFixture({ maxInputBytes: 0 }), { message: /maxInputBytes must be greater than 0/ })
  await assert.rejects(startHttpFixture({ port: 70_000 }), { message: /port must be between 0 and 65535/ })
  await assert.rejects(startHttpFixture({ headerForwardPattern: '[' }), { message: /not a valid regular expression/ })
})

test('a fault of the server is told to the client and to the log, also when it comes up later; refusals are told to the client alone', async () => {
  const { frontend, engine, log } = await startHttpFixture({})
  const path = '/v2/models/any/registry/history?limit=5'
  const failWith = async (reason: unknown): Promise<number> => {
    Object.defineProperty(engine.registry, 'history', { value: () => Promise.reject(reason), configurable: true })
    return (await inject(frontend, { method: 'GET', path })).status
  }
  const faults = (): unknown[] => log.entries.filter(({ message }) => message === 'HTTP endpoint failed')
  assert.equal(await failWith(new ServerError('NOT_FOUND', 'there is no such model')), 404)
  assert.deepEqual(faults(), [])
  assert.equal(await failWith(new TypeError('events is not iterable')), 500)
  assert.equal(faults().length, 1)
  assert.match(JSON.stringify(faults()), /"target":"\/v2\/models\/any\/registry\/history".*events is not iterable/)
})

test('a body that is too long is called JSON but where files are uploaded, whatever the path is called', async () => {
  const { frontend } = await startHttpFixture({ maxInputBytes: 1000 })
  const textOf = async (path: string): Promise<string> =>
    (await inject(frontend, { method: 'POST', path, body: ' '.repeat(1001) }, 1000)).body.toString()
  assert.match(await textOf('/v2/models/a/predict'), /request body of 1001 bytes exceeds/)
  assert.match(await textOf('/predict?model=a'), /request body of 1001 bytes exceeds/)
  assert.match(await textOf('/v2/models/a/infer'), /request JSON size of 1001 bytes exceeds/)
  assert.match(await textOf('/elsewhere/predict'), /request JSON size of 1001 bytes exceeds/)
})

test('with --triton-defaults binary tensors beside a JSON head may exceed the limit, JSON may not', async () => {
  const open = await startHttpFixture({ maxInputBytes: 1000, boundsBinaryBodies: false })
  const json = JSON.stringify({
    inputs: [{ name: 'X', shape: [500], datatype: 'INT32', parameters: { binary_data_size: 2000 } }],
    outputs: [{ name: 'ECHO', parameters: { binary_data: true } }],
  })
  const headers = [['Inference-Header-Content-Length', String(json.length)]] as const
  const path = '/v2/models/inspect_request/infer'
  const body = Buffer.concat([Buffer.from(json), Buffer.alloc(2000)])
  assert.equal((await inject(open.frontend, { method: 'POST', path, headers, body })).status, 200)
  const refused = await inject(open.frontend, { method: 'POST', path, body: ' '.repeat(1001) })
  assert.match(
    refused.body.toString(),
    /request JSON size of 1001 bytes exceeds the maximum allowed input size of 1000 bytes/,
  )
  const raw = await inject(open.frontend, {
    method: 'POST',
    path,
    body: Buffer.alloc(1004),
    headers: [['Inference-Header-Content-Length', '0']],
  })
  assert.match(raw.body.toString(), /Raw input has a byte_size \(1004 bytes\)/)
  await open.close()
})

test('a name that is text in JSON comes back escaped', async () => {
  const answer = await infer('words', { inputs: [{ name: 'T', shape: [1], datatype: 'BYTES', data: ['q'] }] })
  assert.match(answer.body.toString(), /"data":\["a\\"b\\\\c"\]/)
})
