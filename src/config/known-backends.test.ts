import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { backendAdvice, shippedBackends } from './known-backends.ts'

test('the backends that come with Galatea are known, those of frameworks among them', () => {
  const frameworks = readdirSync(path.join(import.meta.dirname, '../../python/backends'))
  assert.ok(frameworks.includes('pytorch'))
  for (const name of ['onnxruntime', 'python', 'typescript', 'identity', ...frameworks]) {
    assert.ok(shippedBackends.includes(name), name)
  }
})

test("a backend of Triton's that is not here, a name that is nearly right, and one that nobody knows get advice", () => {
  assert.match(backendAdvice('tensorrt'), /'tensorrt' is a backend of Triton's that Galatea does not have: export/)
  assert.match(backendAdvice('fil'), /"xgboost" or "lightgbm"/)
  assert.equal(backendAdvice('onnx'), "did you mean 'onnxruntime'?")
  assert.equal(backendAdvice('Torch'), "did you mean 'pytorch'?")
  assert.match(backendAdvice('acme_speech'), /own backends are .*pytorch.*<backend-directory>\/acme_speech/)
})
