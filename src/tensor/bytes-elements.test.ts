import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { encodeBytesElements, splitBytesElements } from './bytes-elements.ts'

const cutShort = (index: number): Error => new RangeError(`element ${index} is cut short`)

test('elements survive encoding and splitting', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array()), (elements) => {
      assert.deepEqual(
        splitBytesElements(encodeBytesElements(elements), cutShort).map((each) => [...each]),
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
  assert.throws(() => splitBytesElements(Uint8Array.of(1, 0), cutShort), /element 0 is cut short/)
  assert.throws(() => splitBytesElements(Uint8Array.of(0, 0, 0, 0, 8, 0, 0, 0, 1), cutShort), /element 1 is cut short/)
})
