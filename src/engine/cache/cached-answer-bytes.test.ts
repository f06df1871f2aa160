import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import type { ParameterValue } from '../../model/parameters.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { decodeAnswer, encodeAnswer } from './cached-answer-bytes.ts'

const parameterValue: fc.Arbitrary<ParameterValue> = fc.oneof(
  fc.string(),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.boolean(),
  fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => !Object.is(value, -0)),
)
const output = fc
  .record({ name: fc.string(), bytes: fc.uint8Array({ maxLength: 40 }) })
  .map(({ name, bytes }) => new Tensor(name, 'UINT8', [bytes.byteLength], bytes))
const response = fc
  .record({
    outputs: fc.array(output, { maxLength: 4 }),
    parameters: fc.option(fc.array(fc.tuple(fc.string(), parameterValue))),
  })
  .map(({ outputs, parameters }) => InferenceResponse.of(outputs, { parameters: parameters && new Map(parameters) }))

test('an answer comes back as it was', () => {
  fc.assert(
    fc.property(response, (original) => {
      const answer = decodeAnswer(encodeAnswer(original))
      assert.ok(answer !== null)
      assert.deepEqual(answer.parameters, original.parameters)
      const facts = (tensors: readonly Tensor[]): unknown =>
        tensors.map(({ name, dataType, shape, bytes }) => [name, dataType, [...shape], [...bytes]])
      assert.deepEqual(facts(answer.outputs), facts(original.outputs))
    }),
  )
})

test('bytes that were cut, changed in length or never an answer are none', () => {
  fc.assert(
    fc.property(response, fc.nat(), (original, cut) => {
      const bytes = encodeAnswer(original)
      assert.equal(decodeAnswer(bytes.subarray(0, cut % bytes.byteLength)), null)
      assert.equal(decodeAnswer(Buffer.concat([bytes, Buffer.of(0)])), null)
    }),
  )
  fc.assert(
    fc.property(fc.uint8Array(), (noise) => {
      decodeAnswer(Buffer.from(noise))
    }),
  )
  const head = (text: string): Buffer => Buffer.concat([Buffer.of(text.length, 0, 0, 0), Buffer.from(text)])
  assert.equal(decodeAnswer(head('{"outputs":[["Y","UINT8",[-1],0]],"parameters":null}')), null)
  assert.equal(decodeAnswer(head('{"outputs":[["Y","COLOUR",[0],0]],"parameters":null}')), null)
})
