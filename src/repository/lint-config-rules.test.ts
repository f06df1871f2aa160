import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { emptyModelConfig } from '../config/model-config.ts'
import { configWarnings } from './lint-config-rules.ts'

const backendWarnings = (backend: string): string[] =>
  [...configWarnings({ ...emptyModelConfig(), name: 'm', backend })]
    .filter(({ rule }) => rule === 'backend')
    .map(({ message }) => message)

test('a backend that comes with Galatea needs no warning, those of frameworks among them', () => {
  const frameworks = readdirSync(path.join(import.meta.dirname, '../../python/backends'))
  assert.ok(frameworks.includes('pytorch'))
  for (const backend of ['', 'onnxruntime', 'python', 'typescript', 'identity', ...frameworks]) {
    assert.deepEqual(backendWarnings(backend), [])
  }
})

test("a backend of Triton's that is not here, and one that nobody knows, are named", () => {
  assert.match(backendWarnings('tensorrt').join(), /'tensorrt' is one of Triton's that Galatea does not have/)
  assert.match(backendWarnings('scale').join(), /'scale' is not one of Galatea's own \(.*pytorch.*\)/)
})

test('a parameter that was nearly right is named with the right one; a model may have others of its own', () => {
  const parameters = new Map(['lasy', 'temperature', 'pad_value.ids'].map((key) => [key, { stringValue: 'true' }]))
  const found = [...configWarnings({ ...emptyModelConfig(), name: 'm', backend: 'python', parameters })]
  assert.deepEqual(
    found.map(({ rule, path, fix }) => [rule, path, fix]),
    [['parameter', 'parameters["lasy"]', "did you mean 'lazy'?"]],
  )
})
