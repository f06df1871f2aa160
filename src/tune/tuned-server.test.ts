import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'
import { hostOf, refuseUnknownModel } from './tuned-server.ts'

test('metrics are looked for on the host of the server, also when that is an IPv6 address', () => {
  assert.equal(hostOf('localhost:8000'), 'localhost')
  assert.equal(hostOf('http://10.0.0.7:8000/prefix'), '10.0.0.7')
  assert.equal(hostOf('[::1]:8000'), '[::1]')
  assert.equal(hostOf('models.example'), 'models.example')
})

test('a model that the repository does not have is told before a server starts', () => {
  const examples = path.join(import.meta.dirname, '../../examples/models')
  refuseUnknownModel(examples, 'simple')
  refuseUnknownModel('s3://bucket/models', 'simple')
  assert.throws(
    () => refuseUnknownModel(examples, 'simpel'),
    /there is no model 'simpel' in .*; did you mean 'simple'\?/,
  )
})
