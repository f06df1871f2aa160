import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { ParameterValue } from '../../model/parameters.ts'
import { parametersJson, parseParameters } from './execute-frame.ts'
import { parsePythonSettings } from './python-settings.ts'

test('parameters keep their values and types through their text', () => {
  const value: fc.Arbitrary<ParameterValue> = fc.oneof(
    fc.string(),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.boolean(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
  )
  const key = fc.string().filter((text) => text !== '__proto__' && !/^\d+$/.test(text))
  fc.assert(
    fc.property(fc.uniqueArray(fc.tuple(key, value), { selector: ([name]) => name }), (entries) => {
      const parameters = new Map(entries)
      assert.deepEqual([...parseParameters(parametersJson(parameters))], [...parameters])
    }),
  )
})

test('settings have defaults, and a value that is no number is refused by name', () => {
  const defaults = parsePythonSettings(new Map())
  assert.equal(defaults.memory?.initialBytes, 1024 * 1024)
  assert.equal(parsePythonSettings(new Map([['shared-memory', 'off']])).memory, null)
  assert.throws(
    () => parsePythonSettings(new Map([['shm-max-byte-size', 'much']])),
    /python,shm-max-byte-size: expected a whole number, got 'much'/,
  )
  assert.throws(() => parsePythonSettings(new Map([['shm-default-byte-size', '1000']])), /at least 1048576/)
})
