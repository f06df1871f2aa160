import assert from 'node:assert/strict'
import { test } from 'node:test'

import { RestrictedApiGuard } from './restricted-api-guard.ts'

const guard = new RestrictedApiGuard([
  { apis: ['inference', 'model-config'], key: 'Admin-Key', value: 'secret' },
  { apis: ['logging'], key: 'log', value: 'l' },
])

test('a restricted API wants its header with exactly its value; the name may be in any case', () => {
  assert.equal(guard.missingHeader('inference', ['admin-key', 'secret']), null)
  for (const headers of [[], ['admin-key', ''], ['admin-key', 'secret '], ['admin-key', 'Secret'], ['log', 'secret']]) {
    assert.equal(guard.missingHeader('inference', headers), 'Admin-Key')
  }
})

test('what is not restricted needs no header', () => {
  assert.equal(guard.missingHeader('health', []), null)
  assert.equal(guard.missingHeader('logging', ['log', 'l']), null)
})

test('an unknown API and one in two groups are refused at start', () => {
  assert.throws(() => new RestrictedApiGuard([{ apis: ['everything'], key: 'a', value: 'b' }]), {
    message: /unknown restricted api 'everything'.*expected one of: health, metadata/,
  })
  assert.throws(
    () =>
      new RestrictedApiGuard([
        { apis: ['health'], key: 'a', value: 'b' },
        { apis: ['health'], key: 'c', value: 'd' },
      ]),
    { message: /can not be specified in multiple config groups/ },
  )
})
