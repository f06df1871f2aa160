import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signatureOf } from '../../test/fixtures/signature-of.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { encodeBytesElements } from '../tensor/bytes-elements.ts'
import { Tensor } from '../tensor/tensor.ts'
import { writePredictResponse } from './predict-response.ts'

const signature = signatureOf('m', 8, [], [])

const write = (outputs: Tensor[], isColumnar = false): string =>
  writePredictResponse(InferenceResponse.of(outputs), {
    signature,
    outputs: [],
    binaryOutputDefault: false,
    isColumnar,
  }).head.toString()

const ints = (name: string, shape: number[], values: number[]): Tensor =>
  new Tensor(name, 'INT32', shape, new Uint8Array(Int32Array.from(values).buffer))
const words = (name: string, shape: number[], values: (string | Uint8Array)[]): Tensor =>
  new Tensor(name, 'BYTES', shape, encodeBytesElements(values))

test('the rows of one output are the predictions, nested as its shape says', () => {
  assert.equal(write([ints('y', [2, 2], [1, 2, 3, 4])]), '{"predictions":[[1,2],[3,4]]}')
  assert.equal(write([ints('y', [3], [1, 2, 3])]), '{"predictions":[1,2,3]}')
  assert.equal(write([ints('y', [2, 1, 2], [1, 2, 3, 4])]), '{"predictions":[[[1,2]],[[3,4]]]}')
  assert.equal(write([ints('y', [2, 0], [])]), '{"predictions":[[],[]]}')
  assert.equal(write([ints('y', [], [7])]), '{"predictions":7}')
})

test('of several outputs, a prediction is an object with a value of each', () => {
  const outputs = [ints('y', [2, 2], [1, 2, 3, 4]), words('z', [2], ['a', 'b"'])]
  assert.equal(write(outputs), String.raw`{"predictions":[{"y":[1,2],"z":"a"},{"y":[3,4],"z":"b\""}]}`)
  assert.equal(write([]), '{"predictions":[]}')
})

test('columns stand under the names of the outputs, or alone', () => {
  const y = ints('y', [2, 1], [1, 2])
  assert.equal(write([y], true), '{"outputs":[[1],[2]]}')
  assert.equal(write([y, words('z', [3], ['a', 'b', 'c'])], true), '{"outputs":{"y":[[1],[2]],"z":["a","b","c"]}}')
})

test('bytes that are no text are base64', () => {
  assert.equal(write([words('z', [2, 1], [Uint8Array.of(255, 0), 'é'])]), '{"predictions":[[{"b64":"/wA="}],["é"]]}')
})

test('outputs that cannot be rows, or do not fill their shape, are errors', () => {
  assert.throws(() => write([ints('y', [2], [1, 2]), ints('z', [3], [1, 2, 3])]), {
    code: 'INVALID_ARG',
    message: "the outputs have not the same number of rows ('y' [2], 'z' [3]): send 'inputs' in place of 'instances'",
  })
  assert.throws(() => write([ints('y', [2], [1, 2]), ints('z', [], [1])]), /not the same number of rows/)
  assert.throws(() => write([ints('y', [2], [1])]), /does not match size of output for 'y'/)
  assert.throws(() => write([words('z', [2], ['a'])]), /does not match size of output for 'z'/)
  assert.throws(() => write([new Tensor('z', 'BYTES', [1], Uint8Array.of(9, 0, 0, 0))]), /does not match/)
  assert.throws(() => write([new Tensor('h', 'FP16', [1], new Uint8Array(2))]), /sending FP16 data via JSON/)
})
