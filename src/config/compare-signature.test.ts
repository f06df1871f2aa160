import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signatureProblems, type FileSignature } from './compare-signature.ts'
import type { ConfigProblem } from './config-problem.ts'
import { configMessage, emptyModelConfig, type ConfigDataType, type ModelConfig } from './model-config.ts'

type Tensor = readonly [name: string, dataType: ConfigDataType, dims: number[]]

function configOf(maxBatchSize: number, inputs: readonly Tensor[], outputs: readonly Tensor[] = []): ModelConfig {
  return {
    ...emptyModelConfig(),
    name: 'm',
    maxBatchSize,
    input: inputs.map(([name, dataType, dims]) => configMessage('ModelInput', { name, dataType, dims })),
    output: outputs.map(([name, dataType, dims]) => configMessage('ModelOutput', { name, dataType, dims })),
  }
}

const signature = (inputs: readonly Tensor[], outputs: readonly Tensor[] = []): FileSignature => ({
  inputs: inputs.map(([name, dataType, shape]) => ({ name, dataType, shape })),
  outputs: outputs.map(([name, dataType, shape]) => ({ name, dataType, shape })),
})

const problems = (config: ModelConfig, actual: FileSignature): ConfigProblem[] => [...signatureProblems(config, actual)]

test('a configuration that fits has no problems; -1 on either side fits any size', () => {
  const config = configOf(8, [['x', 'TYPE_FP32', [3, -1]]], [['y', 'TYPE_FP32', [10]]])
  const actual = signature(
    [['x', 'TYPE_FP32', [-1, 3, 224]]],
    [
      ['y', 'TYPE_FP32', [-1, -1]],
      ['extra', 'TYPE_FP32', [-1]],
    ],
  )
  assert.deepEqual(problems(config, actual), [])
})

test('images with swapped channels are recognised, both ways', () => {
  const first = signature([['input', 'TYPE_FP32', [-1, 3, 224, 224]]])
  const [swapped] = problems(configOf(4, [['input', 'TYPE_FP32', [224, 224, 3]]]), first)
  assert.equal(
    swapped?.message,
    "model 'm', tensor 'input': the model expects 4 dimensions (shape [-1,3,224,224]) but the model configuration specifies 4 dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete shape [-1,224,224,3])",
  )
  assert.equal(
    swapped?.fix,
    "model input 'input' expects [3,224,224], config says [224,224,3]: the model takes channels first (NCHW), the config has them last, write dims: [ 3, 224, 224 ]",
  )
  assert.equal(swapped?.path, 'input[0].dims')
  const last = signature([['input', 'TYPE_FP32', [1, 224, 224, 3]]])
  assert.match(
    problems(configOf(0, [['input', 'TYPE_FP32', [1, 3, 224, 224]]]), last)[0]?.fix ?? '',
    /channels last \(NHWC\)/,
  )
})

test('a wrong data type says what was expected and what was given', () => {
  const [wrong] = problems(configOf(0, [['x', 'TYPE_FP32', [4]]]), signature([['x', 'TYPE_INT64', [4]]]))
  assert.equal(
    wrong?.message,
    "unable to load model 'm', configuration expects datatype TYPE_FP32 for input 'x', model provides TYPE_INT64",
  )
  assert.equal(wrong?.fix, 'write data_type: TYPE_INT64')
})

test('wrong names and counts are told with the names the model has', () => {
  const found = problems(
    configOf(0, [['z', 'TYPE_FP32', [1]]]),
    signature([
      ['a', 'TYPE_FP32', [1]],
      ['b', 'TYPE_FP32', [1]],
    ]),
  )
  assert.deepEqual(
    found.map((problem) => problem.message),
    [
      "unable to load model 'm', configuration expects 1 inputs, model provides 2",
      "unexpected inference input 'z', allowed inputs are: a, b",
    ],
  )
  assert.equal(found[0]?.fix, "the configuration lacks 'a', 'b'")
})

test('a batch dimension too many or too few, or a fixed one, is recognised', () => {
  const open = signature([['x', 'TYPE_FP32', [-1, 4]]])
  assert.match(
    problems(configOf(8, [['x', 'TYPE_FP32', [-1, 4]]]), open)[0]?.fix ?? '',
    /leave the batch dimension out of dims/,
  )
  assert.match(
    problems(configOf(0, [['x', 'TYPE_FP32', [4]]]), open)[0]?.fix ?? '',
    /set max_batch_size, or put the batch dimension/,
  )
  const fixed = problems(configOf(8, [['x', 'TYPE_FP32', [4]]]), signature([['x', 'TYPE_FP32', [1, 4]]]))
  assert.match(
    fixed[0]?.message ?? '',
    /^model 'm', tensor 'x': for the model to support batching the shape should have/,
  )
  assert.match(fixed[0]?.fix ?? '', /exported with a fixed batch size: set max_batch_size: 0 and dims: \[ 1, 4 \]/)
})

test('the shape the model gets is the reshape, where there is one', () => {
  const config = configOf(0, [['x', 'TYPE_FP32', [12]]])
  const [input] = config.input
  assert.ok(input)
  input.reshape = { shape: [3, 4] }
  assert.deepEqual(problems(config, signature([['x', 'TYPE_FP32', [3, 4]]])), [])
})

test('sequence controls and states count as inputs', () => {
  const config = configOf(0, [['x', 'TYPE_FP32', [1]]])
  config.sequenceBatching = configMessage('ModelSequenceBatching', { controlInput: [{ name: 'START', control: [] }] })
  assert.deepEqual(
    problems(
      config,
      signature([
        ['x', 'TYPE_FP32', [1]],
        ['START', 'TYPE_INT32', [1]],
      ]),
    ),
    [],
  )
})
