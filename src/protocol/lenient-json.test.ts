import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { strictJsonOf } from './lenient-json.ts'

describe('JSON as protobuf reads it', () => {
  for (const [lenient, strict] of [
    [`{a: 1, $b_2: 'x', "c": null}`, { a: 1, $b_2: 'x', c: null }],
    [`{'it\\'s "x"': "\\x41\\u0041\\n"}`, { 'it\'s "x"': 'x41A\n' }],
    [`[1, [2, ], {"a": [], }, ]`, [1, [2], { a: [] }]],
    ['{"a": "tab\there,\nline: {b: 1,}"}', { a: 'tab\there,\nline: {b: 1,}' }],
    ['{direct : {}}', { direct: {} }],
  ] as const) {
    test(`read: ${lenient}`, () => {
      assert.deepEqual(JSON.parse(strictJsonOf(lenient)), strict)
    })
  }

  for (const text of [
    '[,]',
    '{,}',
    '[1,,]',
    '{"a":,}',
    '[1 2]',
    '{true: 1}',
    '{a-b: 1}',
    '{1: 2}',
    '[a]',
    '{"a": True}',
    '["\\u12"]',
    "['a]",
    '{"a": 1} x',
    '{/*x*/"a": 1}',
  ]) {
    test(`refused by protobuf's reader, too: ${text}`, () => {
      assert.throws(() => JSON.parse(strictJsonOf(text)), SyntaxError)
    })
  }

  test('strict JSON says the same as before', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        assert.deepEqual(JSON.parse(strictJsonOf(JSON.stringify(value, null, 1))), JSON.parse(JSON.stringify(value)))
      }),
    )
  })

  test('a text of 256 KB that is one long string takes no time', () => {
    const long = `['${'\\'.repeat(1 << 18)}`
    assert.throws(() => JSON.parse(strictJsonOf(long)), SyntaxError)
    assert.deepEqual(JSON.parse(strictJsonOf(`['${'a'.repeat(1 << 18)}',]`)), ['a'.repeat(1 << 18)])
  })

  test('nor does a word of 256 KB, or a text without its end: each of its letters began a name that went to the end', () => {
    const word = 'a'.repeat(1 << 18)
    for (const text of [`{${word}`, `{a:'${word}`, `[${word}]`])
      assert.throws(() => JSON.parse(strictJsonOf(text)), SyntaxError)
    assert.deepEqual(JSON.parse(strictJsonOf(`{${word}: 1}`)), { [word]: 1 })
  })
})
