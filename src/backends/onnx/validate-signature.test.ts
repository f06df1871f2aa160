import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emptyModelConfig, type ModelConfig } from '../../config/model-config.ts'
import { inputConfig, outputConfig } from './onnx-backend.contract.ts'
import type { OnnxTensorSpec } from './onnx-session.ts'
import { validateSignature } from './validate-signature.ts'

const tensor = (name: string, shape: number[] | null): OnnxTensorSpec => ({
  name,
  dataType: 'FP32',
  typeText: 'FP32',
  shape,
  symbols: [],
})
const config = (fields: Partial<ModelConfig>): ModelConfig => ({ ...emptyModelConfig(), name: 'm', ...fields })
const model = (inputs: OnnxTensorSpec[], outputs: OnnxTensorSpec[], overridable: OnnxTensorSpec[] = []) => ({
  inputs,
  outputs,
  overridable,
})
const output = [outputConfig('y', 'TYPE_FP32', [-1])]

test('channels first and last swapped is said in so many words', () => {
  const swapped = config({ maxBatchSize: 4, input: [inputConfig('input', 'TYPE_FP32', [224, 224, 3])], output })
  assert.throws(
    () => validateSignature(swapped, model([tensor('input', [-1, 3, 224, 224])], [tensor('y', [-1, -1])])),
    (error: Error) => {
      assert.match(
        error.message,
        /^model 'm', tensor 'input': the model expects 4 dimensions \(shape \[-1,3,224,224\]\) but/,
      )
      assert.match(error.message, /model input 'input' expects \[3,224,224\], config says \[224,224,3\]/)
      return true
    },
  )
})

test('a name the model does not have is refused with those it has, in alphabetical order', () => {
  const wrong = config({ input: [inputConfig('z', 'TYPE_FP32', [1]), inputConfig('b', 'TYPE_FP32', [1])], output })
  assert.throws(() => validateSignature(wrong, model([tensor('b', [1]), tensor('a', [1])], [tensor('y', [1])])), {
    message: "unexpected inference input 'z', allowed inputs are: a, b",
  })
})

test('a different number of inputs is refused with both numbers', () => {
  const wrong = config({ input: [inputConfig('a', 'TYPE_FP32', [1])], output })
  assert.throws(() => validateSignature(wrong, model([tensor('a', [1]), tensor('b', [1])], [tensor('y', [1])])), {
    message: "unable to load model 'm', configuration expects 1 inputs, model provides 2",
  })
})

test('fewer outputs than the model has are fine', () => {
  const some = config({ input: [inputConfig('a', 'TYPE_FP32', [1])], output })
  validateSignature(some, model([tensor('a', [1])], [tensor('y', [1]), tensor('z', [1])]))
})

test('open dimensions fit anything on either side, and a model without shapes fits everything', () => {
  const open = config({ input: [inputConfig('a', 'TYPE_FP32', [-1, 5])], output })
  validateSignature(open, model([tensor('a', [3, -1])], [tensor('y', null)]))
})

test('an initializer that may be replaced counts only when the configuration names it', () => {
  const bias = tensor('bias', [2])
  const plain = config({ input: [inputConfig('a', 'TYPE_FP32', [1])], output })
  validateSignature(plain, model([tensor('a', [1])], [tensor('y', [1])], [bias]))
  const naming = config({ input: [...plain.input, inputConfig('bias', 'TYPE_FP32', [2], true)], output })
  validateSignature(naming, model([tensor('a', [1])], [tensor('y', [1])], [bias]))
})
