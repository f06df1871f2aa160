import assert from 'node:assert/strict'
import test from 'node:test'

import { unorderedMapOrder } from './unordered-map-order.ts'

// Recorded from Triton 2.51, which lists the inputs of a request in this order.
const recorded: [put: string, listed: string][] = [
  ['A B C', 'B C A'],
  ['C B A', 'B A C'],
  ['A B C D E', 'E B D C A'],
  ['INPUT0 INPUT1 INPUT2', 'INPUT2 INPUT1 INPUT0'],
  ['A B C D E F G H I J K L M N O', 'O N A C D I B H E F G K J L M'],
]

for (const [put, listed] of recorded) {
  test(`the keys ${put} are listed as Triton lists them`, () => {
    assert.equal(unorderedMapOrder(put.split(' ')).join(' '), listed)
  })
}

test('any number of keys is listed, each of them once', () => {
  for (const count of [0, 1, 13, 14, 30, 12_000]) {
    const keys = Array.from({ length: count }, (_, index) => `key ${index}`)
    assert.deepEqual(new Set(unorderedMapOrder(keys)), new Set(keys))
  }
})
