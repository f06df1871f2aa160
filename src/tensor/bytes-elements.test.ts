import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ServerError } from '../base/server-error.ts'
import { encodeBytesElements, parseBytesElements } from './bytes-elements.ts'

test('elements survive encoding and parsing', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array()), (elements) => {
      assert.deepEqual(
        parseBytesElements(encodeBytesElements(elements)).map((each) => [...each]),
        elements.map((each) => [...each]),
      )
    }),
  )
})

test('strings are UTF-8 behind their length in bytes', () => {
  assert.deepEqual(
    [...encodeBytesElements(['ab', '', 'é'])],
    [2, 0, 0, 0, 0x61, 0x62, 0, 0, 0, 0, 2, 0, 0, 0, 0xc3, 0xa9],
  )
})

test('elements that are cut off are refused', () => {
  assert.throws(
    () => parseBytesElements(Uint8Array.of(1, 0)),
    new ServerError('INVALID_ARG', 'incomplete string length indicator, expecting 4 bytes but only 2 bytes available'),
  )
  assert.throws(
    () => parseBytesElements(Uint8Array.of(8, 0, 0, 0, 1)),
    new ServerError('INVALID_ARG', 'incomplete string data, expecting string of length 8 but only 1 bytes available'),
  )
})
