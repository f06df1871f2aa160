import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InferenceResponse } from '../../model/inference-response.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { doubleText, floatText } from '../decimal-text.ts'
import { writeTfPredict } from './predict-response.ts'

const floats = (name: string, shape: number[], ...values: number[]): Tensor =>
  new Tensor(name, 'FP32', shape, Buffer.from(new Float32Array(values).buffer))
const texts = (name: string, shape: number[], ...values: (string | Buffer)[]): Tensor => {
  const parts = values.flatMap((value) => {
    const bytes = Buffer.from(value as Buffer)
    const length = Buffer.alloc(4)
    length.writeUInt32LE(bytes.length)
    return [length, bytes]
  })
  return new Tensor(name, 'BYTES', shape, Buffer.concat(parts))
}
const written = (isColumnar: boolean, ...outputs: Tensor[]): string =>
  writeTfPredict(InferenceResponse.of(outputs), { isColumnar, ranks: null }).toString()

test('decimals are as short as six digits allow, and whole otherwise', () => {
  const cases: [number, string][] = [
    [0.2, '0.2'],
    [1, '1.0'],
    [-0, '-0.0'],
    [1_000_000, '1e+06'],
    [9_000_000, '9e+06'],
    [0.00003, '3e-05'],
    [123456.7, '123456.703'],
    [0.123456789, '0.123456791'],
    [1e10, '1e+10'],
    [16_777_217, '16777216.0'],
    [1.5e-7, '1.5e-07'],
    [3.4028234663852886e38, '3.40282347e+38'],
    [Number.NaN, 'NaN'],
    [-Infinity, '-Infinity'],
  ]
  for (const [value, text] of cases) assert.equal(floatText(Math.fround(value)), text)
  assert.equal(doubleText(0.1), '0.1')
  assert.equal(doubleText(1 / 3), '0.33333333333333331')
  assert.equal(doubleText(123456789), '123456789.0')
})

test('rows of one output are on one line', () => {
  assert.equal(written(false, floats('y', [3], 2.5, 3, 4.5)), '{\n    "predictions": [2.5, 3.0, 4.5\n    ]\n}')
  assert.equal(
    written(false, floats('y', [2, 2], 1, 2, 3, 4)),
    '{\n    "predictions": [[1.0, 2.0], [3.0, 4.0]\n    ]\n}',
  )
})

test('rows of several outputs are objects', () => {
  assert.equal(
    written(false, floats('a', [2], 1, 2), texts('b', [2], 'x', '"')),
    `{
    "predictions": [
        {
            "a": 1.0,
            "b": "x"
        },
        {
            "a": 2.0,
            "b": "\\""
        }
    ]
}`,
  )
})

test('columns have an element on each line', () => {
  assert.equal(
    written(true, floats('a', [2, 1], 1, 2)),
    `{
    "outputs": [
        [
            1.0
        ],
        [
            2.0
        ]
    ]
}`,
  )
})

test('lists around an object count for its indentation', () => {
  const shown = '{\n    "predictions": [[{\n                "b64": "eA=="\n            }]\n    ]\n}'
  assert.equal(written(false, texts('a_bytes', [1, 1], 'x')), shown)
})

test('texts of a name that ends in _bytes are base64', () => {
  const answer = JSON.parse(written(false, texts('image_bytes', [1], Buffer.from([0xff])))) as unknown
  assert.deepEqual(answer, { predictions: [{ b64: '/w==' }] })
})

test('outputs without rows of one number are refused', () => {
  assert.throws(() => written(false, floats('a', [], 1)), { message: 'Tensor name: a has no shape information ' })
  assert.throws(() => written(false, floats('a', [1], 1), floats('b', [2], 1, 2)), {
    message: 'Tensor name: b has inconsistent batch size: 2 expecting: 1',
  })
  assert.deepEqual(JSON.parse(written(true, floats('a', [], 1))), { outputs: 1 })
})
