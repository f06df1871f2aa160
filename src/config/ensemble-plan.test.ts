import assert from 'node:assert/strict'
import test from 'node:test'
import { EnsemblePlan } from './ensemble-plan.ts'
import { emptyModelConfig, type ModelConfig } from './model-config.ts'
import { ModelSignature } from './model-signature.ts'

const same = (names: readonly string[]): Map<string, string> => new Map(names.map((name) => [name, name]))

/** Steps as `[reads, writes]`; those listed in `decoupled` answer more than once. */
function planOf(
  outputs: readonly string[],
  steps: readonly (readonly [string[], string[]])[],
  decoupled: readonly number[] = [],
): EnsemblePlan {
  const step = steps.map(([reads, writes], i) => ({
    modelName: `m${i}`,
    modelVersion: i === 0 ? 3 : -1,
    inputMap: same(reads),
    outputMap: same(writes),
    modelNamespace: '',
  }))
  const output = outputs.map((name) => ({
    name,
    dataType: 'TYPE_FP32' as const,
    dims: [1],
    reshape: null,
    labelFilename: '',
    isShapeTensor: false,
    isNonLinearFormatIo: false,
  }))
  const config: ModelConfig = {
    ...emptyModelConfig(),
    name: 'e',
    output,
    ensembleScheduling: { step, maxInflightRequests: 0 },
  }
  const models = ({ modelName }: { modelName: string }): ModelConfig => ({
    ...emptyModelConfig(),
    name: modelName,
    modelTransactionPolicy: { decoupled: decoupled.includes(Number(modelName.slice(1))) },
  })
  return new EnsemblePlan(config, new ModelSignature(config), models, { isLikeTriton: false })
}

test('a selection holds the steps and tensors that its outputs need, and no others', () => {
  const plan = planOf(
    ['S', 'D', 'T'],
    [
      [['I'], ['S', 'D']],
      [['S'], ['T']],
    ],
  )
  const chosen = plan.select(['D'])
  assert.deepEqual(
    [chosen.steps.map(({ index }) => index), [...chosen.tensors], chosen.outputs],
    [[0], ['D', 'I'], ['D']],
  )
  assert.deepEqual(plan.select([]).outputs, ['T', 'D', 'S'], 'the order of the configuration backwards')
  assert.equal(plan.select(['D']), chosen, 'worked out once')
  assert.deepEqual(
    plan.steps.map(({ modelVersion }) => modelVersion),
    ['3', ''],
  )
})

test('a step belongs to the decoupled step whose responses it works on, directly or through others', () => {
  const plan = planOf(
    ['O', 'I2'],
    [
      [['I'], ['D']],
      [['D'], ['A']],
      [['A', 'I2'], ['O']],
      [['I'], ['I2']],
    ],
    [0],
  )
  assert.deepEqual(
    plan.steps.map(({ origin }) => origin),
    [-1, 0, 0, -1],
  )
  assert.equal(plan.select(['O']).origin, 0)
  assert.equal(plan.select(['I2']).origin, -1)
})

test('a graph that splits and joins many times is planned without walking every path', () => {
  const steps = Array.from({ length: 60 }, (_, i): [string[], string[]] => [
    [`a${i}`, `b${i}`],
    [`a${i + 1}`, `b${i + 1}`],
  ])
  assert.equal(planOf(['a60'], steps).select([]).steps.length, 60)
})
