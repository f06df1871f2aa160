import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ServerError, errorCodes } from '../../base/server-error.ts'
import { encodeStatusMessage, GrpcStatus } from './grpc-status.ts'
import { parseTimeoutNs } from '../http2/request-head.ts'

test('a status message is percent-encoded where it is not printable ASCII', () => {
  assert.equal(encodeStatusMessage("model 'x' ~"), "model 'x' ~")
  assert.equal(encodeStatusMessage('100 %\n'), '100 %25%0A')
  assert.equal(encodeStatusMessage('ü'), '%C3%BC')
})

test('a status message too long for headers is cut between characters of its encoding', () => {
  const encoded = encodeStatusMessage('ü'.repeat(5000))
  assert.ok(encoded.length <= 4096)
  assert.match(encoded, /^(%[0-9A-F]{2})+$/)
})

test("Triton's eight codes each have their own status", () => {
  const codes = errorCodes.map((code) => GrpcStatus.of(new ServerError(code, '')).code)
  assert.deepEqual(codes, [2, 13, 5, 3, 14, 12, 6, 1])
})

test('grpc-timeout has up to eight digits and a unit; anything else is no deadline', () => {
  assert.equal(parseTimeoutNs('5S'), 5e9)
  assert.equal(parseTimeoutNs('100m'), 1e8)
  assert.equal(parseTimeoutNs('7u'), 7000)
  for (const text of [null, '', '5', 'S', '-5S', '123456789S', '5s']) assert.equal(parseTimeoutNs(text), null)
})
