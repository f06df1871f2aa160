// TensorFlow Serving's REST API as a client sees it: rows and columns, what is told of models, and what is refused, in its words.

import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import { after, test } from 'node:test'
import { inject, type InjectedInit } from '../fakes/injected-request.ts'
import { answerWithCopy } from '../fakes/held-instance.ts'
import { startHttpFixture } from './http-fixture.ts'

const echoConfig = (type: string, dims: string, batch = 8): string =>
  `max_batch_size: ${batch} input { name: "X" data_type: TYPE_${type} dims: [ ${dims} ] }
   output { name: "X" data_type: TYPE_${type} dims: [ ${dims} ] }`

const types = ['INT8', 'INT16', 'INT32', 'INT64', 'UINT8', 'UINT32', 'UINT64', 'FP32', 'FP64', 'BOOL']

const fixture = await startHttpFixture(
  { hasTfserving: true },
  {
    ...Object.fromEntries(
      types.map((type) => [type.toLowerCase(), { config: echoConfig(type, '-1'), run: answerWithCopy }]),
    ),
    half: { config: echoConfig('FP16', '-1'), run: answerWithCopy },
    words: { config: echoConfig('STRING', '1'), run: answerWithCopy },
    cube: { config: echoConfig('FP32', '-1, -1', 100_000), run: answerWithCopy },
    chosen: {
      config: `${echoConfig('FP32', '1')} parameters { key: "TF_SIGNATURE_DEF" value { string_value: "scores" } }`,
      run: answerWithCopy,
    },
    fixed: { config: echoConfig('INT32', '2', 0), run: answerWithCopy },
  },
)
after(() => fixture.close())

type Answer = { readonly status: number; readonly body: unknown }

async function ask(method: string, path: string, init: Partial<InjectedInit> = {}): Promise<Answer> {
  const { status, headers, body } = await inject(fixture.frontend, { method, path, ...init })
  assert.equal(headers['content-type'], 'application/json')
  const text = body.toString().replaceAll(/\bNaN\b/g, '"NaN"').replaceAll(/-?\bInfinity\b/g, '"Infinity"') // prettier-ignore
  return { status, body: JSON.parse(text) }
}

const post = (path: string, body: unknown): Promise<Answer> =>
  ask('POST', `/v1/models/${path}`, { body: typeof body === 'string' ? body : JSON.stringify(body) })
const refused = async (path: string, body: unknown): Promise<[number, string]> => {
  const answer = await post(path, body)
  return [answer.status, (answer.body as { error: string }).error]
}
const answered = (body: unknown): Answer => ({ status: 200, body })

test('rows and columns of every type come back as they were', async () => {
  for (const type of types) {
    const rows = type === 'BOOL' ? [[true, false]] : [[1, 2], [3, 4]] // prettier-ignore
    const name = type.toLowerCase()
    assert.deepEqual(await post(`${name}:predict`, { instances: rows }), answered({ predictions: rows }), type)
    assert.deepEqual(await post(`${name}/versions/1:predict`, { inputs: rows }), answered({ outputs: rows }), type)
    const named = rows.map((row) => ({ X: row }))
    assert.deepEqual(await post(`${name}:predict`, { instances: named }), answered({ predictions: rows }), type)
    assert.deepEqual(await post(`${name}:predict`, { inputs: { X: rows, Y: 1 } }), answered({ outputs: rows }), type)
  }
})

test('the largest and smallest numbers of a type pass, and larger ones do not', async () => {
  const bounds: Record<string, [string, string]> = {
    int32: ['-2147483648', '2147483647'],
    uint32: ['0', '4294967295'],
    int64: ['-9223372036854775808', '9223372036854775807'],
    uint64: ['0', '18446744073709551615'],
  }
  for (const [type, [low, high]] of Object.entries(bounds)) {
    const { body } = await inject(fixture.frontend, {
      method: 'POST',
      path: `/v1/models/${type}:predict`,
      body: `{"instances":[[${low},${high}]]}`,
    })
    assert.equal(body.toString(), `{\n    "predictions": [[${low}, ${high}]\n    ]\n}`)
    for (const beyond of [BigInt(low) - 1n, BigInt(high) + 1n]) {
      const [status, error] = await refused(`${type}:predict`, `{"instances":[[${beyond}]]}`)
      assert.equal(status, 400)
      assert.equal(
        error,
        `Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: JSON Value: ${
          beyond >= 2n ** 64n || beyond < -(2n ** 63n) ? `${Number(beyond)}.0` : beyond
        } Type: Number is not of expected type: ${type}`,
      )
    }
    assert.equal((await post(`${type}:predict`, '{"instances":[[1.0]]}')).status, 400)
  }
})

test('small integers have 32 bits on the way, and wrap', async () => {
  const wrapped = { int8: [-128, 127, 44, -1], uint8: [128, 127, 44, 255], int16: [128, -129, 300, -1] }
  for (const [type, row] of Object.entries(wrapped)) {
    assert.deepEqual(await post(`${type}:predict`, { instances: [[128, -129, 300, -1]] }), answered({ predictions: [row] })) // prettier-ignore
    const [status, error] = await refused(`${type}:predict`, '{"instances":[[2147483648]]}')
    assert.deepEqual([status, error.slice(-26)], [400, ` is not of expected type: ${type}`.slice(-26)])
  }
})

test('an answer has the dimensions that its request had, where it left out those of one', async () => {
  assert.deepEqual(await post('words:predict', { instances: ['a', 'b'] }), answered({ predictions: ['a', 'b'] }))
  assert.deepEqual(await post('words:predict', { inputs: 'a' }), answered({ outputs: 'a' }))
  assert.deepEqual(await post('words:predict', { instances: [['a']] }), answered({ predictions: [['a']] }))
  assert.deepEqual(await post('cube:predict', { instances: [[1, 2]] }), answered({ predictions: [[1, 2]] }))
})

test('floats that are none in JSON are taken and given bare', async () => {
  assert.deepEqual(await post('fp32:predict', '{"instances":[[NaN,-Infinity,1e3,-0.5,123456.789]]}'), {
    status: 200,
    body: { predictions: [['NaN', 'Infinity', 1000, -0.5, 123456.789]] },
  })
})

test('texts, bytes and rows of one value', async () => {
  const { body } = await inject(fixture.frontend, {
    method: 'POST',
    path: '/v1/models/words:predict',
    body: '{"instances":["a", {"b64":"aGk="}, "\\u00e9"]}',
  })
  assert.equal(body.toString(), '{\n    "predictions": ["a", "hi", "é"\n    ]\n}')
  assert.deepEqual(await post('fixed:predict', { instances: [7, 8] }), answered({ predictions: [7, 8] }))
})

test('what follows the document is not looked at, and gzip is inflated', async () => {
  assert.equal((await post('fp32:predict', '{"instances":[[1]]} trailing')).status, 200)
  const body = gzipSync('{"instances":[[1]]}')
  const answer = await ask('POST', '/v1/models/fp32:predict', { body, headers: [['content-encoding', 'gzip']] })
  assert.deepEqual(answer, answered({ predictions: [[1]] }))
})

test('a mistake is told as TensorFlow Serving tells it', async () => {
  const element = "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: "
  const cases: [path: string, body: unknown, status: number, error: string][] = [
    ['fp32:predict', '', 400, 'JSON Parse error: The document is empty'],
    ['fp32:predict', '{"instances": [1,}', 400, 'JSON Parse error: Invalid value. at offset: 17'],
    ['fp32:predict', '[1]', 400, 'JSON Value: [1] Is not object'],
    ['fp32:predict', '{}', 400, "Missing 'inputs' or 'instances' key"],
    [
      'fp32:predict',
      { instances: [1], inputs: [1] },
      400,
      'JSON Value: {\n    "instances": [1],\n    "inputs": [1]\n} Not formatted correctly expecting only one of \'inputs\' or \'instances\' keys to exist ',
    ],
    [
      'fp32:predict',
      { instances: 1 },
      400,
      'JSON Value: {\n    "instances": 1\n} Expecting \'instances\' to be an list/array',
    ],
    ['fp32:predict', { instances: [] }, 400, 'JSON Value: {\n    "instances": []\n} No values in \'instances\' array'],
    [
      'fp32:predict',
      { signature_name: 1, instances: [1] },
      400,
      'JSON Value: {\n    "signature_name": 1,\n    "instances": [1]\n} not formatted correctly. \'signature_name\' key must be a string value.',
    ],
    [
      'fp32:predict',
      { signature_name: 'x', instances: [1] },
      400,
      'Serving signature name: "x" not found in signature def',
    ],
    [
      'fp32:predict',
      { instances: [['a']] },
      400,
      `${element}JSON Value: "a" Type: String is not of expected type: float`,
    ],
    [
      'fp32:predict',
      { instances: [[null]] },
      400,
      `${element}JSON Value: null Type: Null is not of expected type: float`,
    ],
    ['bool:predict', { instances: [[1]] }, 400, `${element}JSON Value: 1 Type: Number is not of expected type: bool`],
    ['words:predict', { instances: [1] }, 400, `${element}JSON Value: 1 Type: Number is not of expected type: string`],
    ['words:predict', { instances: [{ b64: '*' }] }, 400, `${element}Unable to base64 decode`],
    [
      'cube:predict',
      { instances: [[[1, 2], [3]]] },
      400,
      `${element}Encountered list at unexpected size: 1 at level: 1 expected size: 2`,
    ],
    [
      'cube:predict',
      { instances: [[[1], 2]] },
      400,
      `${element}JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2`,
    ],
    ['cube:predict', { instances: [[1, [2]]] }, 400, `${element}Encountered list at unexpected level: 1 expected < 1`],
    ['fp32:predict', { instances: [{ X: [1] }, [1]] }, 400, 'Expecting object but got list at item 1 of input list'],
    [
      'fp32:predict',
      { instances: [[1], { X: [1] }] },
      400,
      'Expecting value/list but got object at item 1 of input list',
    ],
    [
      'fp32:predict',
      { instances: [{ Z: [1] }] },
      400,
      "Failed to process element: 0 key: Z of 'instances' list. Error: INVALID_ARGUMENT: JSON object: does not have named input: Z",
    ],
    [
      'add_sub:predict',
      { instances: [{ INPUT0: [1, 2, 3, 4] }] },
      400,
      'Failed to process element: 0 of \'instances\' list. JSON object: {\n    "INPUT0": [1, 2, 3, 4]\n} keys must be equal to: INPUT0,INPUT1',
    ],
    [
      'add_sub:predict',
      { instances: [[1]] },
      400,
      'instances is a plain list, but expecting list of objects as multiple input tensors required as per tensorinfo_map',
    ],
    [
      'add_sub:predict',
      { inputs: [1] },
      400,
      'inputs is a plain value/list, but expecting an object as multiple input tensors required as per tensorinfo_map',
    ],
    ['add_sub:predict', { inputs: { INPUT0: [[1]] } }, 400, "Missing named input: INPUT1 in 'inputs' object."],
    ['nobody:predict', { instances: [1] }, 404, 'Servable not found for request: Latest(nobody)'],
    ['fp32/versions/9:predict', { instances: [1] }, 404, 'Servable not found for request: Specific(fp32, 9)'],
    ['fp32/labels/x:predict', { instances: [1] }, 400, 'Unrecognized servable version label: x'],
    [
      'fp32/versions/99999999999999999999:predict',
      { instances: [1] },
      400,
      'Failed to convert version: 99999999999999999999 to numeric.',
    ],
    ['%zz:predict', { instances: [1] }, 404, 'Servable not found for request: Latest(%zz)'],
    ['half:predict', { inputs: [[1]] }, 501, 'Conversion of JSON Value: 1 to type: half'],
    ['half:predict', { inputs: [['a']] }, 501, 'Conversion of JSON Value: "a" to type: half'],
    ['fp32:predict', '  ', 400, 'JSON Parse error: The document is empty. at offset: 2'],
    ['words:predict', { instances: [{ b64: 'aGk==' }] }, 400, `${element}Unable to base64 decode`],
  ]
  for (const [path, body, status, error] of cases) assert.deepEqual(await refused(path, body), [status, error], path)
})

test('each row is read by itself, and then compared with the first', async () => {
  const cases: [model: string, rows: unknown[], error: string][] = [
    ['fp32', [[1, 2], [3, 4, 5]], 'Expecting tensor size: 2 but got: 3'], // prettier-ignore
    ['fp32', [[1, 2], [[3, 4]]], 'Expecting shape [2] but got: [1,2]'], // prettier-ignore
    ['fp32', [1, [1]], 'Expecting shape [] but got: [1]'],
    ['fp32', [[], 1], 'Expecting tensor size: 0 but got: 1'],
    ['cube', [[[1, 2], [3, 4]], [[1, 2, 3, 4]]], 'Expecting shape [2,2] but got: [1,4]'], // prettier-ignore
    ['cube', [[[1, 2], [3, 4]], [[1, 2], [3]]], 'Encountered list at unexpected size: 1 at level: 1 expected size: 2'], // prettier-ignore
  ]
  for (const [model, instances, error] of cases) {
    const told = `Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: ${error}`
    assert.deepEqual(await refused(`${model}:predict`, { instances }), [400, told])
  }
})

test('what is wrong with a body is told before a model is looked for', async () => {
  const misformed =
    'JSON Value: {\n    "signature_name": 5\n} not formatted correctly. \'signature_name\' key must be a string value.'
  const absent = 'Servable not found for request: Latest(nobody)'
  const cases: [method: string, body: string, status: number, error: string][] = [
    ['predict', '', 400, 'JSON Parse error: The document is empty'],
    ['predict', '[]', 400, 'JSON Value: [] Is not object'],
    ['predict', '{"signature_name":5}', 400, misformed],
    ['predict', '{"instances":1}', 404, absent],
    ['regress', '{"examples":[1]}', 400, 'Example must be JSON object but got JSON Number'],
    ['classify', '{"signature_name":"x","examples":[{}]}', 404, absent],
  ]
  for (const [method, body, status, error] of cases) {
    assert.deepEqual(await refused(`nobody:${method}`, body), [status, error])
  }
})

test('hostile documents are refused and never a 500', async () => {
  const deep = `{"instances":${'['.repeat(50_000)}${']'.repeat(50_000)}}`
  const bodies = [
    deep,
    `{"instances":[${'['.repeat(20)}1${']'.repeat(20)}]}`,
    `{"instances":[[${'9'.repeat(400)}]]}`,
    '{"instances":[[1e999]]}',
    `{"inputs":${deep}}`,
    '{"instances":[{"b64":"aGk=","x":1}]}',
    '\0',
    '{"instances":[[1,2],[3]]}',
  ]
  for (const model of ['fp32', 'int64', 'words', 'cube']) {
    for (const method of ['predict', 'classify', 'regress']) {
      for (const body of bodies) {
        const { status } = await post(`${model}:${method}`, body)
        assert.equal(status, 400, `${model}:${method} ${body.slice(0, 40)}`)
      }
    }
  }
})

test('an error repeats the beginning of a long name', async () => {
  const long = 'k'.repeat(100_000)
  for (const [path, body] of [
    ['fp32:predict', { instances: [{ [long]: 1 }] }],
    ['fp32:classify', { examples: [{ [long]: [[1]] }] }],
  ] as const) {
    const [status, error] = await refused(path, body)
    assert.deepEqual([status, error.length], [400, 65_537])
  }
})

test('a large body and a large answer go through a thread', async () => {
  const rows = Array.from({ length: 200 }, (_, i) => [Array.from({ length: 200 }, (__, j) => i + j / 4)])
  assert.deepEqual(await post('cube:predict', { instances: rows }), answered({ predictions: rows }))
})

test('examples are classified and regressed by the features of the same names', async () => {
  assert.deepEqual(await post('fp32:regress', { examples: [{ X: 1.5 }, { X: [2] }] }), answered({ results: [1.5, 2] }))
  assert.deepEqual(await refused('int32:regress', { examples: [{ X: 1.5 }] }), [
    400,
    'Feature: X of example 0 is a list of float, the model takes INT32',
  ])
  assert.deepEqual(
    await post('fp32:regress', { examples: [{ X: 1.5 }, { X: [2.5] }] }),
    answered({ results: [1.5, 2.5] }),
  )
  assert.deepEqual(
    await post('fp32:regress', { context: { X: 0.5 }, examples: [{}, { X: 2.5 }] }),
    answered({ results: [0.5, 2.5] }),
  )
  assert.deepEqual(
    await post('fp32:classify', { examples: [{ X: [0.25, 0.75] }] }),
    answered({ results: [[['', 0.25], ['', 0.75]]] }), // prettier-ignore
  )
  const cases: [unknown, string][] = [
    [{}, "JSON Value: {} When method is classify, key 'examples' is expected and was not found"],
    [{ examples: [] }, 'JSON Value: {\n    "examples": []\n} \'examples\' value is an empty array'],
    [{ examples: 1 }, 'JSON Value: {\n    "examples": 1\n} Expecting \'examples\' value to be an list/array'],
    [{ examples: [1] }, 'Example must be JSON object but got JSON Number'],
    [{ examples: [{ X: [1, 'a'] }] }, 'Unexpected element type in feature: X expecting type: int64'],
    [{ examples: [{ X: [[1]] }] }, 'Feature: X has element with unexpected JSON type: Array'],
    [{ examples: [{ X: null }] }, 'Feature: X has element with unexpected JSON type: Null'],
    [{ signature_name: 'x', examples: [1] }, 'Example must be JSON object but got JSON Number'],
    [{ signature_name: 'x', examples: [{}] }, 'No signature was found with the name: x'],
  ]
  for (const [body, error] of cases) assert.deepEqual(await refused('fp32:classify', body), [400, error])
  const context = { words: 'a'.repeat(20_000) }
  assert.match(
    (await refused('fp32:regress', { context, examples: Array.from({ length: 1000 }, () => ({ X: 1 })) }))[1],
    /context takes/,
  )
  const many = JSON.stringify({ examples: [{ X: Array.from({ length: 70_000 }, () => 1) }] })
  assert.match((await refused('fp32:classify', many))[1], /more than 65536 values/)
})

test('a signature that the configuration chose is known by its name', async () => {
  for (const name of ['scores', 'serving_default', '']) {
    assert.deepEqual(await post('chosen:predict', { signature_name: name, instances: [1] }), answered({ predictions: [1] })) // prettier-ignore
    assert.deepEqual(await post('chosen:regress', { signature_name: name, examples: [{ X: 1 }] }), answered({ results: [1] })) // prettier-ignore
  }
  const { body } = await ask('GET', '/v1/models/chosen/metadata')
  const { metadata } = body as { metadata: { signature_def: { signature_def: object } } }
  assert.deepEqual(Object.keys(metadata.signature_def.signature_def), ['scores'])
  assert.equal((await post('fp32:predict', { signature_name: 'scores', instances: [[1]] })).status, 400)
})

test('status and metadata tell of versions and signatures', async () => {
  const status = { version: '1', state: 'AVAILABLE', status: { error_code: 'OK', error_message: '' } }
  assert.deepEqual(await ask('GET', '/v1/models/fp32'), answered({ model_version_status: [status] }))
  assert.deepEqual(await ask('GET', '/v1/models/fp32/versions/1'), answered({ model_version_status: [status] }))
  assert.deepEqual(await ask('GET', '/v1/models/fp32?x=/labels/y'), answered({ model_version_status: [status] }))
  assert.deepEqual(await ask('GET', '/v1/models/fp32/labels/any'), answered({ model_version_status: [status] }))
  assert.deepEqual(await ask('GET', '/v1/models/nobody'), {
    status: 404,
    body: { error: 'Could not find any versions of model nobody' },
  })
  assert.deepEqual(await ask('GET', '/v1/models/fp32/versions/3'), {
    status: 404,
    body: { error: 'Could not find version 3 of model fp32' },
  })
  const { body } = await ask('GET', '/v1/models/fp32/metadata')
  const tensor = {
    dtype: 'DT_FLOAT',
    tensor_shape: { dim: [{ size: '-1', name: '' }, { size: '-1', name: '' }], unknown_rank: false }, // prettier-ignore
    name: 'X:0',
  }
  assert.deepEqual(body, {
    model_spec: { name: 'fp32', signature_name: '', version: '1' },
    metadata: {
      signature_def: {
        signature_def: {
          serving_default: {
            inputs: { X: tensor },
            outputs: { X: tensor },
            method_name: 'tensorflow/serving/predict',
            defaults: {},
          },
        },
      },
    },
  })
})
