import assert from 'node:assert/strict'
import { test } from 'node:test'
import { jsonDebugText } from './json-debug-text.ts'

const debugText = (json: string): string => jsonDebugText(Buffer.from(json), 0)

test('a message shows the beginning of a long value, whatever the value is', () => {
  const long = 'x'.repeat(1_000_000)
  for (const value of [
    long,
    [long, long],
    { [long]: long },
    { b64: long },
    Array.from({ length: 100_000 }, () => [1]),
  ]) {
    const text = debugText(JSON.stringify(value))
    assert.ok(text.length < 1000, `${text.length} characters`)
  }
  const deep = `${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}`
  assert.equal(debugText(deep), '['.repeat(256))
  assert.equal(debugText('"a\\"b"'), '"a\\"b"')
})

test('numbers and texts have the forms of RapidJSON', () => {
  const numbers = '[1, 1.0, -0.0, 1e21, 123456789012345678901, 1e-7, 18446744073709551615]'
  const shown = '[1, 1.0, -0.0, 1e21, 123456789012345680000.0, 1e-7, 18446744073709551615]'
  assert.equal(debugText(numbers), shown)
  assert.equal(debugText('"\\u001f\\n/é"'), '"\\u001F\\n/é"')
})

test('a number that JSON has no form for ends the text', () => {
  assert.equal(debugText('[1, NaN, 2]'), '[1, ')
})

test('lists count for the indentation, though they stand on one line', () => {
  const text = '[{\n        "a": [{\n                "b": 1\n            }, 2],\n        "c": {}\n    }]'
  assert.equal(debugText('[{"a": [{"b": 1}, 2], "c": {}}]'), text)
})

test('a value begins before 256 bytes are written, and brings what stands before it', () => {
  const digits = (count: number): string => `[${Array.from({ length: count }, () => '7').join(', ')}`
  assert.equal(debugText(`${digits(300)}]`), digits(86))
  assert.equal(digits(86).length, 257)
})
