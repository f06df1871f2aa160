import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configMessage, emptyModelConfig, type ModelConfig, type ModelInstanceGroup } from './model-config.ts'
import { normaliseModelConfig, normaliseInstanceGroups } from './normalise-model-config.ts'

const group = (part: Partial<ModelInstanceGroup> = {}): ModelInstanceGroup => configMessage('ModelInstanceGroup', part)
const config = (part: Partial<ModelConfig> = {}): ModelConfig => ({ ...emptyModelConfig(), name: 'm', ...part })

function groupsOf(part: Partial<ModelConfig>, gpuCount = 0): readonly (readonly unknown[])[] {
  const draft = config(part)
  normaliseInstanceGroups(draft, { gpuCount })
  return draft.instanceGroup.map(({ name, kind, count, gpus }) => [name, kind, count, gpus])
}

test('a version policy, pinned memory and an idle time are filled in where none is given', () => {
  const draft = config({ sequenceBatching: configMessage('ModelSequenceBatching') })
  normaliseModelConfig(draft)
  assert.deepEqual(draft.versionPolicy?.latest, { numVersions: 1 })
  assert.deepEqual(draft.optimization?.inputPinnedMemory, { enable: true })
  assert.deepEqual(draft.optimization?.outputPinnedMemory, { enable: true })
  assert.equal(draft.sequenceBatching?.maxSequenceIdleMicroseconds, 1_000_000n)
})

test('what is given stays', () => {
  const draft = config({ versionPolicy: { latest: null, all: {}, specific: null } })
  draft.optimization = configMessage('ModelOptimizationPolicy', {
    inputPinnedMemory: { enable: false },
  })
  normaliseModelConfig(draft)
  assert.equal(draft.versionPolicy?.latest, null)
  assert.deepEqual(draft.optimization?.inputPinnedMemory, { enable: false })
})

test('an ensemble gets no optimization and no instance groups', () => {
  const draft = config({ platform: 'ensemble', ensembleScheduling: configMessage('ModelEnsembling') })
  normaliseModelConfig(draft)
  normaliseInstanceGroups(draft, { gpuCount: 0 })
  assert.equal(draft.optimization, null)
  assert.deepEqual(draft.instanceGroup, [])
})

test('a scheduler the backend added is normalised with the batch size the backend set', () => {
  const draft = config()
  normaliseModelConfig(draft)
  draft.maxBatchSize = 6
  draft.dynamicBatching = configMessage('ModelDynamicBatching')
  normaliseModelConfig(draft)
  assert.deepEqual(draft.dynamicBatching.preferredBatchSize, [6])
  normaliseModelConfig(draft)
  assert.deepEqual(draft.dynamicBatching.preferredBatchSize, [6], 'a second time changes nothing')
})

test('preferred sizes stay empty for a model that does not batch', () => {
  const draft = config({ dynamicBatching: configMessage('ModelDynamicBatching') })
  normaliseModelConfig(draft)
  assert.deepEqual(draft.dynamicBatching?.preferredBatchSize, [])
})

test('without a group there is one, named like the model; unnamed groups are numbered', () => {
  assert.deepEqual(groupsOf({ backend: 'python' }), [['m', 'KIND_CPU', 1, []]])
  assert.deepEqual(groupsOf({ backend: 'python', instanceGroup: [group({ name: 'a' }), group()] }), [
    ['a', 'KIND_CPU', 1, []],
    ['m_1', 'KIND_CPU', 1, []],
  ])
})

test('a group on the CPU without a count has two instances for ONNX Runtime, else one', () => {
  assert.equal(groupsOf({ backend: 'onnxruntime' })[0]?.[2], 2)
  assert.equal(groupsOf({ backend: 'onnxruntime', instanceGroup: [group({ count: 3 })] })[0]?.[2], 3)
  assert.equal(groupsOf({ backend: 'onnxruntime', instanceGroup: [group({ kind: 'KIND_MODEL' })] })[0]?.[2], 1)
  assert.equal(groupsOf({ backend: 'python', instanceGroup: [group({ count: -1 })] })[0]?.[2], 1)
})

test('KIND_AUTO uses all GPUs where there are some and all those listed exist, else the CPU', () => {
  assert.deepEqual(groupsOf({ instanceGroup: [group()] }, 2), [['m_0', 'KIND_GPU', 1, [0, 1]]])
  assert.deepEqual(groupsOf({ instanceGroup: [group({ gpus: [1] })] }, 2), [['m_0', 'KIND_GPU', 1, [1]]])
  assert.deepEqual(groupsOf({ instanceGroup: [group({ gpus: [5] })] }, 2), [['m_0', 'KIND_CPU', 1, [5]]])
})

test('KIND_AUTO of a backend that runs on the CPU alone is the CPU, whatever GPUs there are', () => {
  assert.deepEqual(groupsOf({ backend: 'sklearn' }, 2), [['m', 'KIND_CPU', 1, []]])
  assert.deepEqual(groupsOf({ backend: 'pytorch' }, 2), [['m', 'KIND_GPU', 1, [0, 1]]])
})
