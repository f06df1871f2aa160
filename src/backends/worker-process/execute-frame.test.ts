import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { ParameterValue } from '../../model/parameters.ts'
import { emptyModelConfig } from '../../config/model-config.ts'
import { ModelSignature } from '../../config/model-signature.ts'
import { deviceBytes } from '../../cuda/device-bytes.ts'
import { InferenceRequest } from '../../model/inference-request.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { encodeExecute, parametersJson, parseParameters } from './execute-frame.ts'

test('parameters keep their values and types through their text', () => {
  const value: fc.Arbitrary<ParameterValue> = fc.oneof(
    fc.string(),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.boolean(),
    fc.double(),
    fc.constantFrom('NaN', '"Infinity', '\\NaN'),
  )
  const key = fc.string().filter((text) => text !== '__proto__' && !/^\d+$/.test(text))
  fc.assert(
    fc.property(fc.uniqueArray(fc.tuple(key, value), { selector: ([name]) => name }), (entries) => {
      const parameters = new Map(entries)
      assert.deepEqual([...parseParameters(parametersJson(parameters))], [...parameters])
    }),
  )
})

test('inputs on a GPU go to a worker that opens its memory, and to no other: these would read zeros', () => {
  const bytes = deviceBytes(0, 4096, 8, new Uint8Array(64))
  const inputs = [new Tensor('X', 'FP32', [2], bytes)]
  const request = new InferenceRequest({ modelName: 'm', inputs, sink: () => undefined })
  request.inputDevice = 0
  const signature = new ModelSignature({ ...emptyModelConfig(), name: 'm' })
  const encode = (opensDevices: boolean): unknown => encodeExecute(1, [request], 1, signature, null, opensDevices)
  assert.doesNotThrow(() => encode(true))
  assert.throws(() => encode(false), {
    code: 'UNAVAILABLE',
    message:
      /^inputs of the request lie on GPU 0, and the model left that GPU while the request waited: send it again$/,
  })
})

test('a text of any length beside a NaN is read', () => {
  for (const text of ['x'.repeat(20_000_000), '\n'.repeat(5_000_000), '\\"'.repeat(2_000_000)]) {
    const parameters = new Map<string, ParameterValue>([
      ['text', `${text}NaN`],
      ['number', NaN],
    ])
    const read = parseParameters(parametersJson(parameters))
    assert.ok(read.get('text') === parameters.get('text'))
    assert.deepEqual(read.get('number'), NaN)
  }
})
