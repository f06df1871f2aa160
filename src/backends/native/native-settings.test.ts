import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseNativeSettings } from './native-settings.ts'

test('a host is for a model, for a device, or for all models of a backend, and another word is refused by name', () => {
  const hostOf = (host: string): string => parseNativeSettings('acme', new Map([['host', host]])).host
  assert.deepEqual(['model', 'device', 'shared'].map(hostOf), ['model', 'device', 'shared'])
  assert.equal(parseNativeSettings('acme', new Map()).host, 'model')
  assert.throws(() => hostOf('gpu'), {
    message: "--backend-config=acme,host: expected 'model', 'device' or 'shared', got 'gpu'",
  })
})
