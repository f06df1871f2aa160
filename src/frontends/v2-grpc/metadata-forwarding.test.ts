import assert from 'node:assert/strict'
import test from 'node:test'
import type { ParameterValue } from '../../model/parameters.ts'
import { MetadataForwarding } from './metadata-forwarding.ts'

test('metadata is forwarded, the headers of HTTP/2 and gRPC are not', () => {
  const parameters = new Map<string, ParameterValue>()
  const ofTransport = [':path', '/x', 'te', 'trailers', 'content-type', 'application/grpc', 'grpc-timeout', '30S']
  new MetadataForwarding('.').forward([...ofTransport, 'user-agent', 'u', 'tenant', 'a', 'tenant', 'b'], parameters)
  assert.deepEqual(
    [...parameters],
    [
      ['user-agent', 'u'],
      ['tenant', 'b'],
    ],
  )
})
