import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { jsonInSteps } from './json-in-steps.ts'

function written(value: unknown): { readonly text: string; readonly steps: number; readonly longest: number } {
  const work = jsonInSteps(value)
  for (let steps = 1; ; steps++) {
    const { done, value: pieces } = work.next()
    if (done !== true) continue
    const text = Buffer.concat(pieces).toString()
    return { text, steps, longest: Math.max(...pieces.map(({ length }) => length)) }
  }
}

test('the text is that of JSON.stringify, whatever the value is', () => {
  fc.assert(fc.property(fc.jsonValue({ maxDepth: 9 }), (value) => assert.equal(written(value).text, JSON.stringify(value)))) // prettier-ignore
  const odd = {
    a: undefined,
    'b"': [undefined, NaN, Infinity, -0, null],
    c: {},
    d: [],
    e: '\ud800\u2028',
    f: [[[[[[[{}]]]]]]],
  }
  assert.equal(written(odd).text, JSON.stringify(odd))
})

test('typed numbers, and what can be gone through, are written as lists', () => {
  const values = [0.1, -0, NaN, -Infinity, 1e30]
  const value = { list: Float32Array.from(values), none: new Int32Array(0), made: [1, 2].values().map((one) => ({ one })) } // prettier-ignore
  const plain = { list: [...Float32Array.from(values)], none: [], made: [{ one: 1 }, { one: 2 }] }
  assert.equal(written(value).text, JSON.stringify(plain))
})

test('an answer with a million numbers is written in steps of some thousand', () => {
  const rows = Array.from({ length: 256 }, (_, index) => ({ index, row: new Float32Array(4096).fill(index + 0.1) }))
  const { text, steps, longest } = written({ data: rows })
  assert.equal(text, JSON.stringify({ data: rows.map(({ index, row }) => ({ index, row: [...row] })) }))
  assert.ok(steps > 100, `${steps} steps`)
  assert.ok(longest < 256 * 1024, `${longest} bytes`)
})
