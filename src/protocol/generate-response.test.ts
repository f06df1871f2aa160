import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ParameterValue } from '../model/parameters.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { Tensor } from '../tensor/tensor.ts'
import { encodeErrorEvent, encodeGenerateEvent, encodeGenerateResponse } from './generate-response.ts'

const context = { modelName: 'm', modelVersion: '3', id: '' }
const ints = (name: string, values: number[]): Tensor =>
  new Tensor(name, 'INT32', [values.length], new Uint8Array(Int32Array.from(values).buffer))
const text = (name: string, value: string): Tensor => {
  const length = Buffer.alloc(4)
  length.writeUInt32LE(Buffer.byteLength(value))
  return new Tensor(name, 'BYTES', [1], Buffer.concat([length, Buffer.from(value)]))
}
const encode = (outputs: Tensor[], parameters: [string, ParameterValue][] = [], id = ''): string =>
  encodeGenerateResponse(InferenceResponse.of(outputs, { parameters: new Map(parameters) }), {
    ...context,
    id,
  }).toString()

test('keys are sorted, one element stands alone, more are a flat array', () => {
  assert.equal(
    encode([text('z', 'a"b'), ints('B', [7]), ints('a', [1, 2]), ints('none', [])]),
    '{"B":7,"a":[1,2],"model_name":"m","model_version":"3","none":[],"z":"a\\"b"}',
  )
})

test('of two things of one name the id and the model win over parameters, these over outputs', () => {
  assert.equal(
    encode(
      [ints('id', [1]), ints('p', [2]), ints('model_name', [3])],
      [
        ['p', 'kept'],
        ['model_version', 5n],
      ],
      'q',
    ),
    '{"id":"q","model_name":"m","model_version":"3","p":"kept"}',
  )
})

test('parameters keep their kind', () => {
  assert.equal(
    encode(
      [],
      [
        ['i', 5n],
        ['d', 2],
        ['b', false],
      ],
    ),
    '{"b":false,"d":2.0,"i":5,"model_name":"m","model_version":"3"}',
  )
})

test('an event is one data line and an empty one', () => {
  const event = encodeGenerateEvent(InferenceResponse.of([text('t', 'one\ntwo')]), context).toString()
  assert.equal(event, 'data: {"model_name":"m","model_version":"3","t":"one\\ntwo"}\n\n')
  assert.equal(encodeErrorEvent('a\nb').toString(), 'data: {"error":"a\\nb"}\n\n')
})

test('an output that has no JSON form is an error', () => {
  const half = new Tensor('h', 'FP16', [1], new Uint8Array(2))
  assert.throws(() => encodeGenerateResponse(InferenceResponse.of([half]), context), /sending FP16 data via JSON/)
})
