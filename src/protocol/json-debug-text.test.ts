import assert from 'node:assert/strict'
import { test } from 'node:test'
import { jsonDebugText } from './json-debug-text.ts'

test('a message shows the beginning of a long value, whatever the value is', () => {
  const long = 'x'.repeat(1_000_000)
  for (const node of [long, [long, long], new Map([[long, long]]), new Map([['b64', long]])]) {
    assert.ok(jsonDebugText(node).length < 1000, `${jsonDebugText(node).length} characters`)
  }
  assert.equal(jsonDebugText('a"b'), '"a\\"b"')
})
