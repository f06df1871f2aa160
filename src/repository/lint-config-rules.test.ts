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
