import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configMessage, emptyModelConfig } from '../../config/model-config.ts'
import type { LanguageFacts } from '../../llm/language-facts.ts'
import { idleGpuSettings, llamaSettings } from './llama-settings.ts'

const facts = { kind: 'generation', contextLength: 512 } as unknown as LanguageFacts
const files = { repositoryPath: '/r', modelDirectory: '/r/m', versionDirectory: '/r/m/1', version: '1' }

test('layers are on a GPU only for an instance on a GPU, whatever the model asks for', () => {
  const config = { ...emptyModelConfig(), parameters: new Map([['n_gpu_layers', { stringValue: '7' }]]) }
  const layers = (kind: 'KIND_GPU' | 'KIND_CPU', of = config): number =>
    llamaSettings(of, facts, files, { kind, deviceId: 0 }).gpuLayers
  assert.deepEqual([layers('KIND_GPU'), layers('KIND_CPU')], [7, 0])
  assert.equal(layers('KIND_GPU', emptyModelConfig() as typeof config), 999)
  const told = (kind: 'KIND_GPU' | 'KIND_CPU'): string[] =>
    idleGpuSettings({ ...config, instanceGroup: [configMessage('ModelInstanceGroup', { kind })] })
  assert.deepEqual(told('KIND_CPU'), ["parameter 'n_gpu_layers' has no effect: no instance of the model is on a GPU"])
  assert.deepEqual(told('KIND_GPU'), [])
})
