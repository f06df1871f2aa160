import assert from 'node:assert/strict'
import test from 'node:test'
import { readUnloadRequest } from './repository-request.ts'

test('dependents go along only when the body says so in the right place and type', () => {
  const read = (text: string): boolean => readUnloadRequest(Buffer.from(text))
  assert.equal(read('{"parameters":{"unload_dependents":true}}'), true)
  for (const text of [
    '',
    '{}',
    '[]',
    '{"parameters":{"unload_dependents":false}}',
    '{"parameters":{"unload_dependents":"x"}}',
    '{"parameters":7}',
    '{',
  ]) {
    assert.equal(read(text), false, text)
  }
})
