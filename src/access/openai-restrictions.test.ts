import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AdmissionFacts } from './admission-facts.ts'
import { openAiRestrictions } from './openai-restrictions.ts'

const admission = openAiRestrictions([
  { apis: ['inference', 'model-repository'], key: 'Admin-Key', value: 'hush' },
  { apis: ['embedding'], key: 'other', value: 'quiet' },
])
const kindOf = (path: string, headers: Record<string, string> = {}): unknown => {
  const facts = { path, header: (name: string) => headers[name] ?? null } as unknown as AdmissionFacts
  const verdict = admission?.admit(facts) as { kind: string } | undefined
  return verdict?.kind
}

test('each group of the OpenAI API wants its own header', () => {
  for (const path of ['/v1/chat/completions', '/v1/completions', '/v1/models', '/v1/models/m/load', '/tokenize', '/v1/files/f/content']) {
    assert.equal(kindOf(path), 'refused', path)
    assert.equal(kindOf(path, { 'admin-key': 'hush!' }), 'refused', path)
    assert.notEqual(kindOf(path, { 'admin-key': 'hush' }), 'refused', path)
  } // prettier-ignore
  assert.equal(kindOf('/v1/embeddings', { 'admin-key': 'hush' }), 'refused')
  assert.notEqual(kindOf('/v1/embeddings', { other: 'quiet' }), 'refused')
})

test('a model whose name has a namespace is no way around the key', () => {
  for (const path of ['/v1/models/shop::m', '/v1/models/shop::m/load', '/v1/models/a:b/unload', '/v1/models/shop::predict']) {
    assert.equal(kindOf(path), 'refused', path)
  } // prettier-ignore
  for (const path of ['/v1/models/shop::m:predict', '/v1/models/m:explain']) assert.notEqual(kindOf(path), 'refused')
})

test('other paths need no header, and an unknown group is refused', () => {
  for (const path of ['/v2/models/m/infer', '/v1/models/m:predict', '/metrics', '/health/ready']) {
    assert.notEqual(kindOf(path), 'refused', path)
  }
  assert.equal(openAiRestrictions([]), null)
  assert.throws(
    () => openAiRestrictions([{ apis: ['all'], key: 'k', value: 'v' }]),
    /expected one of: inference, embedding/,
  )
})
