import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeTensorData, type TensorData } from '../../client/tensor-data.ts'
import type { DataType } from '../../tensor/data-type.ts'
import { exportedTensors } from './exported-tensors.ts'

const text = (dataType: DataType, data: TensorData): string =>
  exportedTensors([{ name: 'T', dataType, bytes: encodeTensorData('T', data, dataType).bytes }])

test('values are what they mean in every type: floats of half width, booleans, all digits of 64 bits', () => {
  assert.equal(text('FP16', [1.5, -2]), '{"T":[1.5,-2]}')
  assert.equal(text('BF16', [0.5, 4]), '{"T":[0.5,4]}')
  assert.equal(text('BOOL', [true, false]), '{"T":[true,false]}')
  assert.equal(text('INT64', [9007199254740993n, -1n]), '{"T":[9007199254740993,-1]}')
  assert.equal(text('BYTES', ['a"b', 'ü']), '{"T":["a\\"b","ü"]}')
  assert.equal(text('FP32', [NaN, 1]), '{"T":[null,1]}')
})

test('one value stands by itself, and what has more than 256 is left out', () => {
  assert.equal(text('INT32', [7]), '{"T":7}')
  assert.equal(text('INT32', new Int32Array(256)), `{"T":[${'0,'.repeat(255)}0]}`)
  assert.equal(text('INT32', new Int32Array(257)), '{}')
})
