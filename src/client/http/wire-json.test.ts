import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { jsonObjectEnd, parseWireJson, wireJsonText } from './wire-json.ts'

test('what JSON.parse reads is read the same, and written so that JSON.parse reads it back', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = JSON.stringify(value)
      // Integers that a number cannot hold are what the two differ in.
      fc.pre(!/\d{16}/.test(text))
      assert.deepEqual(parseWireJson(text), JSON.parse(text))
      // The long integer makes it take the careful way.
      assert.deepEqual(parseWireJson(`[12345678901234567890,${text}]`), [12345678901234567890n, JSON.parse(text)])
      assert.deepEqual(JSON.parse(wireJsonText(value)), JSON.parse(text))
    }),
  )
})

test('bare NaN and Infinity are numbers, integers keep all their digits', () => {
  assert.deepEqual(parseWireJson('{"data":[NaN,-Infinity,Inf,1.5,-9223372036854775808,18446744073709551615]}'), {
    data: [NaN, -Infinity, Infinity, 1.5, -9223372036854775808n, 18446744073709551615n],
  })
  assert.deepEqual(parseWireJson('{"a":"NaN","b":[0.10000000149011612]}'), { a: 'NaN', b: [0.10000000149011612] })
  assert.equal(wireJsonText({ id: 2n ** 63n, gone: undefined }), '{"id":9223372036854775808}')
  assert.equal(wireJsonText({ x: Float32Array.of(1.5, NaN), y: [BigInt64Array.of(-1n)] }), '{"x":[1.5,NaN],"y":[[-1]]}')
})

test('broken JSON is refused', () => {
  for (const text of ['[NaN', '[NaN,]', '{"a":NaN,}', '[NaN] x', '[NaN,1.2.3]', '[NaN,nul]', '[NaN']) {
    assert.throws(() => parseWireJson(text), { name: 'InferenceError', code: 'PROTOCOL' }, text)
  }
})

test('the end of a JSON object is found in front of whatever follows it', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.uint8Array(), (value, rest) => {
      const json = Buffer.from(JSON.stringify(value))
      assert.equal(jsonObjectEnd(Buffer.concat([json, rest])), json.length)
    }),
  )
  assert.throws(() => jsonObjectEnd(Buffer.from('{"a":[1')), /no whole JSON object/)
})
