import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RestrictedProtocolGuard } from './restricted-protocol-guard.ts'

const guard = new RestrictedProtocolGuard([{ apis: ['inference', 'trace'], key: 'k', value: 'v' }])

test('a restricted protocol passes with its metadata and names it otherwise', () => {
  assert.equal(guard.missingMetadata('inference', ['triton-grpc-protocol-k', 'v']), null)
  assert.equal(guard.missingMetadata('trace', ['triton-grpc-protocol-k', 'w']), 'triton-grpc-protocol-k')
  assert.equal(guard.missingMetadata('trace', []), 'triton-grpc-protocol-k')
  assert.equal(guard.missingMetadata('health', []), null)
})

test('a protocol belongs to one group, and must exist', () => {
  const group = { apis: ['health'], key: 'k', value: 'v' }
  assert.throws(() => new RestrictedProtocolGuard([group, group]), /can not be specified in multiple config groups/)
  assert.throws(() => new RestrictedProtocolGuard([{ ...group, apis: ['nope'] }]), /unknown restricted protocol 'nope'/)
})
