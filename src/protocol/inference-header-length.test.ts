import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ServerError } from '../base/server-error.ts'
import { parseInferenceHeaderLength } from './inference-header-length.ts'

test('the header length is read like atoi', () => {
  const cases: [text: string | undefined, length: number | null][] = [
    [undefined, null],
    ['', 0],
    ['abc', 0],
    ['0x1', 0],
    ['12.5', 12],
    ['+33', 33],
    ['33x', 33],
    [' 33 ', 33],
    ['100', 100],
  ]
  for (const [text, length] of cases) assert.equal(parseInferenceHeaderLength(text, 100), length)
})

test('a length outside the body is refused with the text of the header', () => {
  for (const text of ['-1', '101', '18446744073709551616']) {
    assert.throws(
      () => parseInferenceHeaderLength(text, 100),
      new ServerError('INVALID_ARG', `inference header size should be in range (0, 100), got: ${text}`),
    )
  }
})
