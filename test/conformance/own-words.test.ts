// Mistakes of clients in the default mode: each is a 4xx that says what was expected. With --triton-defaults the codes and
// texts are Triton's, which the recorded cases hold.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { ServerError } from '../../src/base/server-error.ts'
import { worded } from '../../src/model/worded-error.ts'
import { inject, type InjectedAnswer } from '../fakes/injected-request.ts'
import { startHttpFixture, type HttpFixture } from './http-fixture.ts'

const config = `
max_batch_size: 4
input { name: "X" data_type: TYPE_FP32 dims: [ 3 ] }
input { name: "MODE" data_type: TYPE_STRING dims: [ 1 ] optional: true }
output { name: "Y" data_type: TYPE_FP32 dims: [ 3 ] }
`
const inputs = "'X' FP32 [-1,3], 'MODE' BYTES [-1,1] (optional). The first dimension is the batch size, 1 to 4."

const run = {
  wine: { config },
  single: { config: config.replace(/^.*MODE.*$/m, '') },
  many: { config: `${config} model_transaction_policy { decoupled: true }` },
  dying: {
    config,
    run: (request: { fail(error: ServerError): void }) =>
      request.fail(
        worded('workerLost', {
          triton: 'Stub process is not healthy.',
          model: 'dying',
          instance: 'dying_0',
          reason: 'SIGKILL',
        }),
      ),
  },
  full: {
    config,
    run: (request: { fail(error: ServerError): void }) =>
      request.fail(ServerError.withoutStack('UNAVAILABLE', 'Exceeds maximum queue size')),
  },
}

let own: HttpFixture
let triton: HttpFixture
before(async () => {
  own = await startHttpFixture({}, run, undefined, false)
  triton = await startHttpFixture({ hasKserveV1: false }, run)
})
after(async () => {
  await own.close()
  await triton.close()
})

type Headers = readonly (readonly [name: string, value: string])[]

const send = (fixture: HttpFixture, path: string, body: string, headers: Headers = [], method = 'POST') =>
  inject(fixture.frontend, { method, path, body, headers })
const errorOf = (answer: InjectedAnswer): string => (JSON.parse(answer.body.toString()) as { error: string }).error
const input = (fields: object): string =>
  JSON.stringify({ inputs: [{ name: 'X', datatype: 'FP32', shape: [1, 3], data: [1, 2, 3], ...fields }] })

type Mistake = readonly [what: string, body: string, tritonStatus: number, text: string, headers?: Headers]

const mistakes: readonly Mistake[] = [
  [
    'a missing batch dimension',
    input({ shape: [3] }),
    400,
    "input 'X' has the shape [3], which lacks the batch dimension: send [1,3] for one row; a request takes 1 to 4 rows.",
  ],
  ['a wrong number of dimensions', input({ shape: [1, 1, 3] }), 400, 'Expected [-1,3], got [1,1,3]'],
  ['too many rows', input({ shape: [5, 3], data: Array(15).fill(0) }), 400, 'must be <= 4'],
  [
    'too few elements',
    input({ data: [1, 2] }),
    500,
    `'data' of input 'X' has 2 elements, but its shape takes 3. Model 'wine' expects the inputs ${inputs}`,
  ],
  [
    'too many elements',
    input({
      data: [
        [1, 2],
        [3, 4],
      ],
    }),
    500,
    "'data' of input 'X' has 4 elements",
  ],
  ['a string among numbers', input({ data: [1, '2', 3] }), 500, 'element 1 must be a number, found "2"'],
  [
    'a number among strings',
    input({ name: 'MODE', datatype: 'BYTES', shape: [1, 1], data: [7] }),
    500,
    'element 0 must be a string, found 7',
  ],
  ['the form of another protocol', '{"instances":[[1,2,3]]}', 500, 'POST /v1/models/wine:predict'],
  ['the form of generate', '{"X":[1,2,3]}', 500, 'POST /v2/models/wine/generate'],
  [
    'a request without inputs',
    '{}',
    500,
    'Expected {"inputs":[{"name":"X","datatype":"FP32","shape":[1,3],"data":[…]}',
  ],
  ['inputs that are no list', '{"inputs":7}', 500, "'inputs' must be an array"],
  ['an input without a type', '{"inputs":[{"name":"X","shape":[1,3],"data":[1,2,3]}]}', 500, "has no 'datatype'"],
  [
    'a type in small letters',
    input({ datatype: 'fp32' }),
    400,
    "the datatype of input 'X' is not known: data types are",
  ],
  ['a shape that is no list', input({ shape: 3 }), 500, "'shape' of input 'X' must be an array of integers"],
  ['a negative shape', input({ shape: [-1, 3] }), 500, "'shape' of input 'X' must be an array of integers"],
  ['single quotes', "{'X':1}", 500, `found "'". Strings and names take double quotes in JSON.`],
  ['a comma too many', '{"inputs":[],}', 500, 'JSON has no comma before a "}".'],
  ['JSON that ends too early', '{"inputs":[', 500, 'found the end of the body'],
  [
    'a wrong name',
    input({ name: 'Q' }),
    400,
    `unexpected inference input 'Q' for model 'wine'. Model 'wine' expects the inputs ${inputs}`,
  ],
  ['no inputs', '{"inputs":[]}', 400, `got none; missing 'X'. Model 'wine' expects the inputs ${inputs}`],
  [
    'a wrong output',
    JSON.stringify({
      inputs: [{ name: 'X', datatype: 'FP32', shape: [1, 3], data: [1, 2, 3] }],
      outputs: [{ name: 'Z' }],
    }),
    400,
    "unexpected inference output 'Z' for model 'wine'. Model 'wine' has 'Y' FP32 [-1,3].",
  ],
  ['parameters that are no object', '{"parameters":1,"inputs":[]}', 500, "'parameters' must be a JSON object"],
  ['an id that is no string', '{"id":1,"inputs":[]}', 500, "'id' must be a string"],
  ['an image', '\u0089PNG', 500, "the header 'Inference-Header-Content-Length: 0'", [['content-type', 'image/png']]],
  [
    'a form',
    '--abc\r\n',
    500,
    "A form ('multipart/form-data') is not read here: POST /v2/models/wine/predict takes forms.",
    [['content-type', 'multipart/form-data; boundary=abc']],
  ],
]

describe('a mistake is a 400 that says what was expected, and what Triton makes of it with --triton-defaults:', () => {
  for (const [what, body, tritonStatus, text, headers = []] of mistakes) {
    test(what, async () => {
      const answer = await send(own, '/v2/models/wine/infer', body, headers)
      assert.equal(answer.status, 400)
      assert.ok(errorOf(answer).includes(text), errorOf(answer))
      const recorded = await send(triton, '/v2/models/wine/infer', body, headers)
      assert.equal(recorded.status, tritonStatus)
      assert.notEqual(errorOf(recorded), errorOf(answer))
    })
  }
})

test('no body, and a body of the wrong size, are told with what the model takes', async () => {
  const length: Headers = [['Inference-Header-Content-Length', '0']]
  for (const [body, headers, text] of [
    ['', [], 'the request has no body. Expected {"inputs":[{"name":"X"'],
    [
      'abc',
      length,
      "is the input 'X' of model 'single', which takes 12 bytes, but the body has 3. Model 'single' expects",
    ],
  ] as const) {
    const answer = await send(own, '/v2/models/single/infer', body, headers)
    assert.equal(answer.status, 400)
    assert.ok(errorOf(answer).includes(text), errorOf(answer))
    assert.match(
      errorOf(await send(triton, '/v2/models/single/infer', body, headers)),
      /'raw_input' .* Expected 12, got/,
    )
  }
})

test('no body to a model of several inputs is told as no body', async () => {
  const answer = await send(own, '/v2/models/wine/infer', '', [])
  assert.equal(answer.status, 400)
  assert.match(errorOf(answer), /^the request has no body\. Expected \{"inputs":\[\{"name"/)
})

test('the name of a model that is nearly right is answered with the right one, a version with those that there are', async () => {
  const unknown = "Request for unknown model: 'wime' is not found"
  for (const [path, method] of [
    ['/v2/models/wime/infer', 'POST'],
    ['/v2/models/wime', 'GET'],
    ['/v2/models/wime/config', 'GET'],
  ] as const) {
    const answer = await send(own, path, method === 'POST' ? input({}) : '', [], method)
    assert.equal(answer.status, 404)
    assert.equal(errorOf(answer), `${unknown}; did you mean 'wine'?`)
    assert.equal(errorOf(await send(triton, path, method === 'POST' ? input({}) : '', [], method)), unknown)
  }
  assert.match(
    errorOf(await send(own, '/v2/models/WINE', '', [], 'GET')),
    /'WINE' is not found; did you mean 'wine'\?$/,
  )
  assert.match(errorOf(await send(own, '/v2/models/nobody', '', [], 'GET')), /'nobody' is not found$/)
  const version = await send(own, '/v2/models/wine/versions/7', '', [], 'GET')
  assert.equal(errorOf(version), "Request for unknown model: 'wine' version 7 is not found; it has version 1")
})

test('a model with many responses is refused with the path that has them', async () => {
  const answer = await send(own, '/v2/models/many/infer', input({}))
  assert.equal(answer.status, 400)
  assert.match(errorOf(answer), /\/v2\/models\/many\/generate_stream/)
  assert.equal((await send(triton, '/v2/models/many/infer', input({}))).status, 501)
})

for (const [path, body] of [
  ['infer', input({})],
  ['generate', '{"X":[1,2,3]}'],
  ['generate_stream', '{"X":[1,2,3]}'],
] as const) {
  for (const model of ['dying', 'full']) {
    test(`${path} of a model that is ${model} is a 503 that says when to try again`, async () => {
      const answer = await send(own, `/v2/models/${model}/${path}`, body)
      assert.equal(answer.status, 503)
      assert.equal(answer.headers['retry-after'], '1')
      const recorded = await send(triton, `/v2/models/${model}/${path}`, body)
      assert.equal(recorded.headers['retry-after'], undefined)
    })
  }
}

test('generate says which shape the elements do not fill', async () => {
  const answer = await send(own, '/v2/models/wine/generate', '{"X":[[1,2,3],[4,5,6]]}')
  assert.equal(answer.status, 400)
  assert.match(errorOf(answer), /input 'X' has 2 elements .* do not fill the shape \[-1,3\]/)
})

test('malformed bodies of control endpoints are a 400', async () => {
  for (const path of ['/v2/repository/index', '/v2/trace/setting']) {
    assert.equal((await send(own, path, '{')).status, 400, path)
    assert.equal((await send(triton, path, '{')).status, 500, path)
  }
})

test('a load without explicit control says how to start the server', async () => {
  const answer = await send(own, '/v2/repository/models/wine/load', '')
  assert.equal(answer.status, 400)
  assert.match(errorOf(answer), /--model-control-mode=explicit/)
})

test('an unknown path and a wrong method are answered with what there is', async () => {
  const lost = await send(own, '/models', '', [], 'GET')
  assert.equal(lost.status, 404)
  assert.match(errorOf(lost), /\/v2\/repository\/index/)
  assert.equal(errorOf(await send(triton, '/v2/models', '', [], 'GET')), 'Not Found')
  const wrong = await send(own, '/v2/models/wine/infer', '', [], 'GET')
  assert.equal(wrong.status, 405)
  assert.equal(wrong.headers['allow'], 'POST')
  assert.equal(errorOf(await send(triton, '/v2/models/wine/infer', '', [], 'GET')), 'Method Not Allowed')
})

describe('a body without JSON', () => {
  const raw = Buffer.from(new Float32Array([1, 2, 3]).buffer).toString('latin1')
  const models = (fixture: HttpFixture, headers: Headers) =>
    inject(fixture.frontend, {
      method: 'POST',
      path: '/v2/models/plain/infer',
      body: Buffer.from(raw, 'latin1'),
      headers: [['inference-header-content-length', '0'], ...headers],
    })
  const plain = {
    plain: {
      config: `max_batch_size: 4
        input { name: "X" data_type: TYPE_FP32 dims: [ 3 ] } output { name: "X" data_type: TYPE_FP32 dims: [ 3 ] }`,
    },
  }
  let fixture: HttpFixture
  before(async () => {
    fixture = await startHttpFixture({}, plain, undefined, false)
  })
  after(() => fixture.close())

  test('gets JSON when it asks for JSON', async () => {
    const answer = await models(fixture, [['accept', 'application/json']])
    assert.equal(answer.headers['content-type'], 'application/json')
    assert.match(answer.body.toString(), /"data":\[1\.0,2\.0,3\.0\]/)
  })
  test('gets binary outputs when it asks for nothing', async () => {
    const answer = await models(fixture, [['accept', '*/*']])
    assert.equal(answer.headers['content-type'], 'application/octet-stream')
  })
  test('is refused by a model with two inputs, with the inputs', async () => {
    const answer = await send(own, '/v2/models/wine/infer', 'x', [['inference-header-content-length', '0']])
    assert.equal(answer.status, 400)
    assert.match(errorOf(answer), /is for models with one input, but 'wine' has 2.*'X' FP32/)
  })
})
