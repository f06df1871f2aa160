import assert from 'node:assert/strict'
import test from 'node:test'
import { parseCollectorUrl } from './collector-url.ts'

test('an address of a collector may leave out http, as in Triton; a port of gRPC alone means gRPC', () => {
  const seen = (text: string): unknown[] => [parseCollectorUrl(text).url.href, parseCollectorUrl(text).isGrpc]
  assert.deepEqual(seen('localhost:4318/v1/traces'), ['http://localhost:4318/v1/traces', false])
  assert.deepEqual(seen('[::1]:4318/v1/traces'), ['http://[::1]:4318/v1/traces', false])
  assert.deepEqual(seen('collector:4317'), ['http://collector:4317/', true])
  assert.deepEqual(seen('grpcs://collector:443'), ['https://collector/', true])
  for (const text of ['x', 'x/v1/traces', 'localhost:port/v1/traces', 'ftp://localhost:1', '/v1/traces', '']) {
    assert.throws(() => parseCollectorUrl(text), { code: 'INVALID_ARG', message: /is no address of a trace collector/ })
  }
})
