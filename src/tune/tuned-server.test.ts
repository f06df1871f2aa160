import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hostOf } from './tuned-server.ts'

test('metrics are looked for on the host of the server, also when that is an IPv6 address', () => {
  assert.equal(hostOf('localhost:8000'), 'localhost')
  assert.equal(hostOf('http://10.0.0.7:8000/prefix'), '10.0.0.7')
  assert.equal(hostOf('[::1]:8000'), '[::1]')
  assert.equal(hostOf('models.example'), 'models.example')
})
