import assert from 'node:assert/strict'
import { test } from 'node:test'

import { parseHeaderLength } from './inference-header-length.ts'

test('the header is read like atoi', () => {
  for (const [text, length] of [
    ['335', 335],
    ['+335', 335],
    [' 335 ', 335],
    ['331x', 331],
    ['12.5', 12],
    ['0x14f', 0],
    ['abc', 0],
    ['', 0],
    ['-', 0],
    ['-0', 0],
    ['000335', 335],
  ] as const) {
    assert.equal(parseHeaderLength(text, 400), length, text)
  }
})

test('beyond the body or below zero is refused with the text as it was sent', () => {
  for (const text of ['-1', '401', '18446744073709551616', `1${'0'.repeat(400)}`]) {
    assert.throws(() => parseHeaderLength(text, 400), {
      code: 'INVALID_ARG',
      message: `inference header size should be in range (0, 400), got: ${text}`,
    })
  }
})
