import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parsePythonSettings } from './python-settings.ts'

test('settings have defaults, and a value that is no number is refused by name', () => {
  const defaults = parsePythonSettings(new Map())
  assert.equal(defaults.memory?.initialBytes, 1024 * 1024)
  assert.equal(parsePythonSettings(new Map([['shared-memory', 'off']])).memory, null)
  assert.throws(
    () => parsePythonSettings(new Map([['shm-max-byte-size', 'much']])),
    /python,shm-max-byte-size: expected a whole number, got 'much'/,
  )
  assert.throws(() => parsePythonSettings(new Map([['shm-default-byte-size', '1000']])), /at least 1048576/)
})
