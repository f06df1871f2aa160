import assert from 'node:assert/strict'
import test from 'node:test'
import type { ServerError } from '../base/server-error.ts'
import type { DataType } from '../tensor/data-type.ts'
import { configDataType } from '../tensor/data-type.ts'
import { Tensor } from '../tensor/tensor.ts'
import { tensorOfStrings } from '../tensor/typed-values.ts'
import { InferenceRequest } from './inference-request.ts'
import { configMessage, emptyModelConfig, type ConfigDataType } from '../config/model-config.ts'
import { ModelSignature } from '../config/model-signature.ts'
import { isLongToValidate, validateInSteps, validateRequest } from './validate-request.ts'

type TensorConfig = { name: string; type?: DataType; dims: number[]; optional?: boolean }

function signature(maxBatchSize: number, inputs: TensorConfig[], backend = ''): ModelSignature {
  const config = emptyModelConfig()
  config.backend = backend
  config.name = 'm'
  config.maxBatchSize = maxBatchSize
  const dataType = (type: DataType = 'FP32'): ConfigDataType => configDataType(type) as ConfigDataType
  config.input = inputs.map(({ name, type, dims, optional = false }) =>
    configMessage('ModelInput', { name, dataType: dataType(type), dims, optional }),
  )
  config.output = [configMessage('ModelOutput', { name: 'OUT', dataType: dataType(), dims: [4] })]
  return new ModelSignature(config)
}

const fp32 = (name: string, shape: number[]): Tensor =>
  new Tensor(name, 'FP32', shape, new Uint8Array(4 * shape.reduce((a, b) => a * b, 1)))

function request(inputs: Tensor[], fields: { id?: string; requestedOutputs?: string[] } = {}): InferenceRequest {
  return new InferenceRequest({ modelName: 'm', inputs, sink: () => undefined, ...fields })
}

const batching = signature(8, [
  { name: 'A', dims: [4] },
  { name: 'B', dims: [4] },
])
const plain = signature(0, [{ name: 'A', dims: [4] }])
const strings = signature(0, [{ name: 'S', type: 'BYTES', dims: [-1] }])
const withOptional = signature(0, [
  { name: 'A', dims: [4] },
  { name: 'B', dims: [4], optional: true },
])
const anyShape = signature(0, [{ name: 'A', dims: [-1] }])
const note =
  'NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting max_batch_size to zero. See the model configuration docs for more info on max_batch_size.'

const refusals: [rule: string, model: ModelSignature, inputs: Tensor[], message: string][] = [
  [
    'a missing input is named',
    batching,
    [fp32('A', [1, 4])],
    "[request id: <id_unknown>] expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['A'], but missing required input(s) ['B']. Please provide all required input(s).",
  ],
  [
    'one input too many is reported by count first, in Triton’s words and order',
    batching,
    [fp32('A', [1, 4]), fp32('B', [1, 4]), fp32('NOPE', [1, 4])],
    "[request id: <id_unknown>] expected 2 inputs but got 3 inputs for model 'm'. Got input(s) ['NOPE','B','A'], but missing required input(s) ]. Please provide all required input(s).",
  ],
  [
    'with optional inputs the count is a range',
    withOptional,
    [],
    "[request id: <id_unknown>] expected number of inputs between 1 and 2 but got 0 inputs for model 'm'. Got input(s) [], but missing required input(s) ['A']. Please provide all required input(s).",
  ],
  ['an unknown input', plain, [fp32('X', [4])], "unexpected inference input 'X' for model 'm'"],
  [
    'the same input twice',
    batching,
    [fp32('A', [1, 4]), fp32('A', [1, 4])],
    "[request id: <id_unknown>] input 'A' already exists in request",
  ],
  [
    'an input once more beside all inputs',
    batching,
    [fp32('A', [1, 4]), fp32('B', [1, 4]), fp32('A', [1, 4])],
    "[request id: <id_unknown>] input 'A' already exists in request",
  ],
  [
    'no batch dimension',
    batching,
    [fp32('A', [1, 4]), fp32('B', [])],
    "[request id: <id_unknown>] input 'B' has no shape but model requires batch dimension for 'm'",
  ],
  [
    'batch sizes that differ',
    batching,
    [fp32('A', [2, 4]), fp32('B', [1, 4])],
    "[request id: <id_unknown>] input 'A' batch size does not match other inputs for 'm'",
  ],
  [
    'more rows than max_batch_size',
    batching,
    [fp32('A', [9, 4]), fp32('B', [9, 4])],
    "[request id: <id_unknown>] inference request batch-size must be <= 8 for 'm'",
  ],
  [
    'another data type',
    plain,
    [new Tensor('A', 'INT32', [4], new Uint8Array(16))],
    "[request id: <id_unknown>] inference input 'A' data-type is 'INT32', but model 'm' expects 'FP32'",
  ],
  [
    'another shape, with the note on the batch dimension',
    batching,
    [fp32('A', [1, 4]), fp32('B', [1, 5])],
    `[request id: <id_unknown>] unexpected shape for input 'B' for model 'm'. Expected [-1,4], got [1,5]. ${note}`,
  ],
  [
    'another shape of a model that does not batch, without the note',
    plain,
    [fp32('A', [5])],
    "[request id: <id_unknown>] unexpected shape for input 'A' for model 'm'. Expected [4], got [5]. ",
  ],
  [
    'an open dimension in a request',
    anyShape,
    [new Tensor('A', 'FP32', [-1], new Uint8Array(0))],
    "[request id: <id_unknown>] All input dimensions should be specified for input 'A' for model 'm', got [-1]",
  ],
  [
    'fewer bytes than the shape says',
    plain,
    [new Tensor('A', 'FP32', [4], new Uint8Array(12))],
    "[request id: <id_unknown>] input byte size mismatch for input 'A' for model 'm'. Expected 16, got 12",
  ],
  [
    'a batch of no rows, of which Triton expects the bytes of one',
    batching,
    [fp32('A', [0, 4]), fp32('B', [0, 4])],
    "[request id: <id_unknown>] input byte size mismatch for input 'B' for model 'm'. Expected 16, got 0",
  ],
  [
    'a batch of no rows that brings the bytes of one',
    batching,
    [fp32('A', [1, 4]), new Tensor('B', 'FP32', [0, 4], new Uint8Array(16))],
    "[request id: <id_unknown>] inference request batch-size must be >= 1 for 'm', but input 'B' has shape [0,4]",
  ],
  [
    'too many strings',
    strings,
    [new Tensor('S', 'BYTES', [1], tensorOfStrings('S', [2], ['a', 'b']).bytes)],
    "[request id: <id_unknown>] unexpected number of string elements 2 for inference input 'S' for model 'm', expecting 1",
  ],
  [
    'too few strings',
    strings,
    [new Tensor('S', 'BYTES', [3], tensorOfStrings('S', [2], ['a', 'b']).bytes)],
    "[request id: <id_unknown>] expected 3 string elements for inference input 'S' for model 'm', got 2",
  ],
  [
    'a string length cut short',
    strings,
    [new Tensor('S', 'BYTES', [1], new Uint8Array(2))],
    "[request id: <id_unknown>] incomplete string length indicator for inference input 'S' for model 'm', expecting 4 bytes but only 2 bytes available. Please make sure the string length indicator is in one buffer.",
  ],
  [
    'a string length cut short behind the last string',
    strings,
    [new Tensor('S', 'BYTES', [1], Uint8Array.of(1, 0, 0, 0, 65, 0))],
    "[request id: <id_unknown>] incomplete string length indicator for inference input 'S' for model 'm', expecting 4 bytes but only 1 bytes available. Please make sure the string length indicator is in one buffer.",
  ],
  [
    'a string cut short',
    strings,
    [new Tensor('S', 'BYTES', [1], Uint8Array.of(8, 0, 0, 0, 65))],
    "incomplete string data for inference input 'S', expecting string of length 8 but only 1 bytes available",
  ],
]

for (const [rule, model, inputs, message] of refusals) {
  test(`refused: ${rule}`, () => {
    assert.throws(
      () => validateRequest(request(inputs), model),
      (error: ServerError) => {
        assert.equal(error.code, 'INVALID_ARG')
        assert.equal(error.message, message)
        return true
      },
    )
  })
}

test('refused: an output the model does not have', () => {
  const asked = request([fp32('A', [4])], { requestedOutputs: ['OUT', 'NOPE'] })
  assert.throws(() => validateRequest(asked, plain), { message: "unexpected inference output 'NOPE' for model 'm'" })
})

test('the client’s id stands in front of a refusal', () => {
  assert.throws(() => validateRequest(request([fp32('A', [5])], { id: '7' }), plain), {
    message: /^\[request id: 7\] /,
  })
})

test('rows are the first dimension when the model batches, and 0 when it does not', () => {
  const rows = (model: ModelSignature, inputs: Tensor[]): number => {
    const valid = request(inputs)
    validateRequest(valid, model)
    return valid.batchSize
  }
  assert.equal(rows(batching, [fp32('A', [3, 4]), fp32('B', [3, 4])]), 3)
  assert.equal(rows(plain, [fp32('A', [4])]), 0)
  assert.equal(rows(anyShape, [fp32('A', [0])]), 0)
  assert.equal(rows(withOptional, [fp32('A', [4])]), 0)
})

test('inputs of very many strings are validated in steps, others at once', () => {
  const long = request([new Tensor('S', 'BYTES', [2_500_000], new Uint8Array(10_000_000))])
  assert.equal(isLongToValidate(long), true)
  assert.equal(isLongToValidate(request([new Tensor('S', 'BYTES', [1], new Uint8Array(1_000_000))])), false)
  assert.equal(isLongToValidate(request([new Tensor('A', 'UINT8', [1], new Uint8Array(10_000_000))])), false)
  assert.equal([...validateInSteps(long, strings)].length, 2)
})

test('validation in steps finds what validation at once finds', () => {
  for (const [elements, bytes] of [
    [2_500_001, 10_000_000],
    [2_499_999, 10_000_000],
    [2_500_000, 10_000_002],
  ] as const) {
    const inputs = [new Tensor('S', 'BYTES', [elements], new Uint8Array(bytes))]
    const messageOf = (act: () => unknown): string => {
      try {
        act()
      } catch (reason) {
        return (reason as ServerError).message
      }
      return 'nothing was thrown'
    }
    const expected = messageOf(() => validateRequest(request(inputs), strings))
    assert.match(expected, /string/)
    assert.equal(
      messageOf(() => [...validateInSteps(request(inputs), strings)]),
      expected,
    )
  }
})

test('an estimator that is described as FP64 takes FP32 too, which is widened up to a MiB; other models do not', () => {
  const wide: TensorConfig[] = [{ name: 'A', type: 'FP64', dims: [-1] }]
  // A view that begins at an odd address, as tensors of messages do.
  const bytes = new Uint8Array(9)
  bytes.set(new Uint8Array(new Float32Array([0.1, -2]).buffer), 1)
  const asked = request([new Tensor('A', 'FP32', [2], bytes.subarray(1))])
  validateRequest(asked, signature(0, wide, 'sklearn'))
  const [tensor] = asked.inputs
  assert.equal(tensor?.dataType, 'FP64')
  assert.deepEqual(new Float64Array(tensor.bytes.slice().buffer), new Float64Array([Math.fround(0.1), -2]))
  const mismatch = { message: /data-type is 'FP32', but model 'm' expects 'FP64'/ }
  assert.throws(() => validateRequest(request([fp32('A', [262_145])]), signature(0, wide, 'sklearn')), mismatch)
  assert.throws(() => validateRequest(request([fp32('A', [2])]), signature(0, wide, 'python')), mismatch)
})
