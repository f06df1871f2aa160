import assert from 'node:assert/strict'
import test from 'node:test'
import { ensembleInconsistency, isEnsembleDecoupled } from './ensemble-consistency.ts'
import { emptyModelConfig, type ModelConfig, type ModelEnsemblingStep } from './model-config.ts'

type Tensors = readonly (readonly [name: string, dims: number[], dataType?: ModelConfig['input'][number]['dataType']])[]

function modelOf(name: string, inputs: Tensors, outputs: Tensors, fields: Partial<ModelConfig> = {}): ModelConfig {
  const empty = emptyModelConfig()
  const tensor = ([tensorName, dims, dataType = 'TYPE_FP32']: Tensors[number]): ModelConfig['input'][number] => ({
    name: tensorName,
    dataType,
    format: 'FORMAT_NONE',
    dims,
    reshape: null,
    isShapeTensor: false,
    allowRaggedBatch: false,
    optional: false,
    isNonLinearFormatIo: false,
  })
  const output = (given: Tensors[number]): ModelConfig['output'][number] => ({ ...tensor(given), labelFilename: '' })
  return { ...empty, name, input: inputs.map(tensor), output: outputs.map(output), ...fields }
}

const step = (
  modelName: string,
  inputMap: Record<string, string>,
  outputMap: Record<string, string>,
): ModelEnsemblingStep => ({
  modelName,
  modelVersion: -1,
  inputMap: new Map(Object.entries(inputMap)),
  outputMap: new Map(Object.entries(outputMap)),
  modelNamespace: '',
})

const ensembleOf = (
  inputs: Tensors,
  outputs: Tensors,
  steps: ModelEnsemblingStep[],
  fields: Partial<ModelConfig> = {},
): ModelConfig =>
  modelOf('e', inputs, outputs, {
    platform: 'ensemble',
    ensembleScheduling: { step: steps, maxInflightRequests: 0 },
    ...fields,
  })

const check = (ensemble: ModelConfig, ...models: ModelConfig[]): string | null =>
  ensembleInconsistency(
    ensemble,
    ({ modelName }) => models.find(({ name }) => name === modelName) ?? modelOf('none', [], []),
  )

const plain = modelOf('m', [['X', [2]]], [['Y', [2]]])
const mapped = step('m', { X: 'I' }, { Y: 'O' })

test('an ensemble whose tensors fit the models it calls is consistent', () => {
  assert.equal(check(ensembleOf([['I', [2]]], [['O', [2]]], [mapped]), plain), null)
  assert.equal(check(ensembleOf([['I', [-1]]], [['O', [-1]]], [mapped]), plain), null, 'an open dimension fits any')
})

test('data types and shapes must agree wherever a tensor is used', () => {
  assert.equal(
    check(ensembleOf([['I', [2], 'TYPE_INT32']], [['O', [2]]], [mapped]), plain),
    'in ensemble e, ensemble tensor I: inconsistent data type: TYPE_INT32 is inferred from model e while TYPE_FP32 is inferred from model m',
  )
  assert.equal(
    check(ensembleOf([['I', [2]]], [['O', [3]]], [mapped]), plain),
    'in ensemble e, ensemble tensor O: inconsistent shape: [3] is inferred from model e while [2] is inferred from model m',
  )
})

test('steps see the inputs and outputs of the ensemble as its reshape says', () => {
  const ensemble = ensembleOf([['I', [2, 1]]], [['O', [1, 2]]], [mapped])
  assert.notEqual(check(ensemble, plain), null, 'without the reshape the shapes differ')
  const reshaped = <T extends object>(tensor: T): T => ({ ...tensor, reshape: { shape: [2] } })
  const both = { ...ensemble, input: ensemble.input.map(reshaped), output: ensemble.output.map(reshaped) }
  assert.equal(check(both, plain), null)
  const wrong = { ...both, input: both.input.map((tensor) => ({ ...tensor, reshape: { shape: [1, 2] } })) }
  assert.equal(
    check(wrong, plain),
    'in ensemble e, ensemble tensor I: inconsistent shape: [1,2] is inferred from model e while [2] is inferred from model m',
  )
})

test('a model that writes the batch dimension into its shape fits one that batches', () => {
  const batching = modelOf('b', [['X', [2]]], [['Y', [2]]], { maxBatchSize: 8 })
  const wide = modelOf('w', [['X', [-1, 2]]], [['Z', [-1, 2]]])
  const steps = [step('b', { X: 'I' }, { Y: 'M' }), step('w', { X: 'M' }, { Z: 'O' })]
  assert.equal(check(ensembleOf([['I', [2]]], [['O', [2]]], steps, { maxBatchSize: 8 }), batching, wide), null)
})

test('maps name what the models have, and all that they require', () => {
  const ensemble = (only: ModelEnsemblingStep): ModelConfig => ensembleOf([['I', [2]]], [['O', [2]]], [only])
  assert.equal(
    check(ensemble(step('m', { X: 'I', Q: 'I' }, { Y: 'O' })), plain),
    'in ensemble e, ensemble tensor I is mapping to non-existing input Q in model m',
  )
  assert.equal(
    check(ensemble(step('m', { X: 'I' }, { Q: 'O' })), plain),
    'in ensemble e, ensemble tensor O is mapped from non-existing output Q in model m',
  )
  const two = modelOf(
    'm',
    [
      ['X', [2]],
      ['W', [2]],
    ],
    [['Y', [2]]],
  )
  assert.equal(check(ensemble(mapped), two), 'in ensemble e, input W in model m is not mapped to any ensemble tensors')
  const [, second] = two.input
  if (second !== undefined) second.optional = true
  assert.equal(check(ensemble(mapped), two), null)
})

test('an ensemble does not take larger batches than the models it calls', () => {
  const small = modelOf('m', [['X', [2]]], [['Y', [2]]], { maxBatchSize: 2 })
  assert.equal(
    check(ensembleOf([['I', [2]]], [['O', [2]]], [mapped], { maxBatchSize: 4 }), small),
    'ensemble e allows maximum batch size 4, but it contains model m which only allows maximum batch size to be 2',
  )
})

test('no step reads the responses of two decoupled ones', () => {
  const many = modelOf('d', [['X', [2]]], [['Y', [2]]], { modelTransactionPolicy: { decoupled: true } })
  const join = modelOf(
    'j',
    [
      ['A', [2]],
      ['B', [2]],
    ],
    [['Y', [2]]],
  )
  const steps = [
    step('d', { X: 'I' }, { Y: 'P' }),
    step('d', { X: 'I' }, { Y: 'Q' }),
    step('j', { A: 'P', B: 'Q' }, { Y: 'O' }),
  ]
  const ensemble = ensembleOf([['I', [2]]], [['O', [2]]], steps)
  const problem = (model: string): string =>
    `in ensemble e, step of model '${model}' receives inputs originated from different decoupled models`
  assert.equal(check(ensemble, many, join), problem('j'))
  const outputs: [string, number[]][] = [
    ['P', [2]],
    ['Q', [2]],
  ]
  assert.equal(check(ensembleOf([['I', [2]]], outputs, steps.slice(0, 2)), many), problem('e'))
  const beside = ensembleOf(
    [['I', [2]]],
    [['O', [2]]],
    [steps[0] as ModelEnsemblingStep, step('j', { A: 'P', B: 'I' }, { Y: 'O' })],
  )
  assert.equal(check(beside, many, join), null)
})

test('an ensemble is decoupled as soon as one of its steps is', () => {
  const many = modelOf('m', [['X', [2]]], [['Y', [2]]], { modelTransactionPolicy: { decoupled: true } })
  const ensemble = ensembleOf([['I', [2]]], [['O', [2]]], [mapped])
  assert.equal(
    isEnsembleDecoupled(ensemble, () => plain),
    false,
  )
  assert.equal(
    isEnsembleDecoupled(ensemble, () => many),
    true,
  )
})
