import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emptyModelConfig, type ModelConfig } from '../config/model-config.ts'
import { completeBackendFields } from './backend-detection.ts'
import type { StoreEntryKind } from './repository-store.ts'

function completed(config: Partial<ModelConfig>, files: Readonly<Record<string, StoreEntryKind>>): string[] {
  const draft = { ...emptyModelConfig(), ...config }
  completeBackendFields(draft, 'm', new Map(Object.entries(files)))
  return [draft.backend, draft.platform, draft.defaultModelFilename]
}

for (const [file, kind, expected] of [
  ['model.savedmodel', 'directory', ['tensorflow', 'tensorflow_savedmodel', 'model.savedmodel']],
  ['model.graphdef', 'file', ['tensorflow', 'tensorflow_graphdef', 'model.graphdef']],
  ['model.plan', 'file', ['tensorrt', 'tensorrt_plan', 'model.plan']],
  ['model.onnx', 'file', ['onnxruntime', 'onnxruntime_onnx', 'model.onnx']],
  ['model.onnx', 'directory', ['onnxruntime', 'onnxruntime_onnx', 'model.onnx']],
  ['model.xml', 'file', ['openvino', '', 'model.xml']],
  ['model.pt', 'file', ['pytorch', 'pytorch_libtorch', 'model.pt']],
  ['model.pt2', 'file', ['pytorch', 'torch_aoti', 'model.pt2']],
  ['model.py', 'file', ['python', '', 'model.py']],
  ['model.ts', 'file', ['typescript', '', 'model.ts']],
  ['model.js', 'file', ['typescript', '', 'model.js']],
  ['model.mjs', 'file', ['typescript', '', 'model.mjs']],
] as const) {
  test(`a ${kind} ${file} alone is enough to know the backend`, () => {
    assert.deepEqual(completed({}, { [file]: kind }), expected)
  })
}

test('of several model files the first in Triton’s order counts', () => {
  assert.deepEqual(completed({}, { 'model.py': 'file', 'model.onnx': 'file' })[0], 'onnxruntime')
})

test('a platform or a file name in the configuration decides without looking at the files', () => {
  assert.deepEqual(completed({ platform: 'onnxruntime_onnx' }, {}), ['onnxruntime', 'onnxruntime_onnx', 'model.onnx'])
  assert.deepEqual(completed({ defaultModelFilename: 'model.pt' }, {}), ['pytorch', 'pytorch_libtorch', 'model.pt'])
})

test('what the configuration says is kept', () => {
  assert.deepEqual(completed({ backend: 'onnxruntime', defaultModelFilename: 'net.onnx' }, { 'model.py': 'file' }), [
    'onnxruntime',
    'onnxruntime_onnx',
    'net.onnx',
  ])
  assert.deepEqual(completed({ backend: 'mine' }, { 'model.py': 'file' }), ['mine', '', ''])
  assert.deepEqual(completed({ platform: 'ensemble' }, {}), ['', 'ensemble', ''])
})

test('a TensorFlow model whose platform nobody knows gets none, and is refused for it', () => {
  assert.deepEqual(completed({ backend: 'tensorflow' }, {}), ['tensorflow', '', ''])
  assert.deepEqual(completed({ platform: 'tensorflow_graphdef' }, {}), [
    'tensorflow',
    'tensorflow_graphdef',
    'model.graphdef',
  ])
})

test('a TypeScript model without a file name gets the one that is there', () => {
  assert.deepEqual(completed({ backend: 'typescript' }, { 'model.mjs': 'file' })[2], 'model.mjs')
  assert.deepEqual(completed({ backend: 'typescript' }, {})[2], 'model.ts')
})
