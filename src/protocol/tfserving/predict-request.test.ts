import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultRequestLimits } from '../../../test/fixtures/request-limits.ts'
import { signatureOf } from '../../../test/fixtures/signature-of.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { readTfPredict } from './predict-request.ts'

const limits = { ...defaultRequestLimits, maxInputBytes: 1 << 20 }

function read(body: string, dataType: 'FP32' | 'FP64' = 'FP64'): Tensor {
  const signature = signatureOf('m', 8, [['x', dataType, [-1]]], [['y', dataType, [-1]]])
  const [tensor] = readTfPredict(Buffer.from(body), { signature, limits }).inputs
  assert.ok(tensor)
  return tensor
}

test('numbers of any length become the nearest float', () => {
  let state = 1
  const random = (): number => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32
  const texts: string[] = []
  for (let i = 0; i < 4000; i++) {
    const digits = Array.from({ length: 1 + Math.floor(random() * 27) }, () => Math.floor(random() * 10)).join('')
    const whole = String(Math.floor(random() * 10 ** Math.floor(random() * 18)))
    texts.push(`${random() < 0.5 ? '-' : ''}${whole}${random() < 0.9 ? `.${digits}` : ''}`)
  }
  const body = `{"instances":[[${texts.join(',')}]]}`
  const doubles = Buffer.from(new Float64Array(texts.map(Number)).buffer)
  assert.ok(doubles.equals(read(body).bytes))
  assert.ok(Buffer.from(new Float32Array(texts.map(Number)).buffer).equals(read(body, 'FP32').bytes))
})

test('members come in any order, the first of a name counts, and what is wrong is told in order', () => {
  assert.equal(read('{"signature_name":"serving_default","instances":[[1,2]],"instances":"no"}').bytes.length, 16)
  assert.equal(read('{"more":[{}],"instances":[[1,2]],"signature_name":""}').bytes.length, 16)
  assert.equal(read('{"signature_name":"","signature_name":5,"instances":[[1,2]]}').bytes.length, 16)
  assert.throws(() => read('{"instances":["a"],"signature_name":"other"}'), /Serving signature name: "other" not found/)
  assert.throws(() => read('{"instances":["a"],'), /JSON Parse error/)
  assert.throws(() => read('{"instances":["a"],"inputs":[1]}'), /expecting only one of/)
  assert.throws(() => read('{"instances":[["a"]]}'), /Failed to process element: 0 of 'instances' list/)
  assert.throws(() => read('{}'), /Missing 'inputs' or 'instances' key/)
  assert.throws(() => read('[1]'), /Is not object/)
})
