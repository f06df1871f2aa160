import assert from 'node:assert/strict'
import { test } from 'node:test'
import { staticFieldIndex, staticFields, staticNameIndex } from './hpack-static-table.ts'

test('the table has the 61 fields of RFC 7541, numbered from 1', () => {
  assert.equal(staticFields.length, 61)
  assert.equal(staticFieldIndex(':method', 'POST'), 3)
  assert.equal(staticFieldIndex(':status', '500'), 14)
  assert.equal(staticNameIndex('content-type'), 31)
  assert.equal(staticNameIndex('user-agent'), 58)
  assert.equal(staticNameIndex('www-authenticate'), 61)
})

test('a name that stands several times has its lowest number', () => {
  assert.equal(staticNameIndex(':status'), 8)
  assert.equal(staticNameIndex(':path'), 4)
})

test('what the table lacks has the number 0', () => {
  assert.equal(staticNameIndex('grpc-status'), 0)
  assert.equal(staticFieldIndex(':status', '418'), 0)
})
