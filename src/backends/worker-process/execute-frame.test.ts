import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { ParameterValue } from '../../model/parameters.ts'
import { parametersJson, parseParameters } from './execute-frame.ts'

test('parameters keep their values and types through their text', () => {
  const value: fc.Arbitrary<ParameterValue> = fc.oneof(
    fc.string(),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.boolean(),
    fc.double(),
    fc.constantFrom('NaN', '"Infinity', '\\NaN'),
  )
  const key = fc.string().filter((text) => text !== '__proto__' && !/^\d+$/.test(text))
  fc.assert(
    fc.property(fc.uniqueArray(fc.tuple(key, value), { selector: ([name]) => name }), (entries) => {
      const parameters = new Map(entries)
      assert.deepEqual([...parseParameters(parametersJson(parameters))], [...parameters])
    }),
  )
})

test('a text of any length beside a NaN is read', () => {
  for (const text of ['x'.repeat(20_000_000), '\n'.repeat(5_000_000), '\\"'.repeat(2_000_000)]) {
    const parameters = new Map<string, ParameterValue>([
      ['text', `${text}NaN`],
      ['number', NaN],
    ])
    const read = parseParameters(parametersJson(parameters))
    assert.ok(read.get('text') === parameters.get('text'))
    assert.deepEqual(read.get('number'), NaN)
  }
})
