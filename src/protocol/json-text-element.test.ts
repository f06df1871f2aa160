import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isBase64 } from './json-text-element.ts'

test('base64 may have white space, no padding, or exactly as much as it takes', () => {
  for (const text of ['', 'aGk=', 'aGk', 'aGk.', ' a G\nk = ', 'aGlh', 'aA==', 'aA', '_-8=', '+/8'])
    assert.ok(isBase64(text), text)
  for (const text of ['a', 'aGk==', 'aGlh=', 'aA=', '=', 'a=Gk', '*', 'aGk===']) assert.ok(!isBase64(text), text)
})

test('white space costs no more than any other text', () => {
  assert.ok(!isBase64(`${' '.repeat(4_000_000)}*`))
})
