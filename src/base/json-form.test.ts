import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { deepestJson, jsonFormProblem } from './json-form.ts'

const problemOf = (text: string, most?: number): string => jsonFormProblem(Buffer.from(text), most)

describe('jsonFormProblem', () => {
  it('lets JSON pass whose brackets are in texts, also behind escapes', () => {
    const texts = ['[[[[', '"[', '\\', '\\"[[', '{{{']
    assert.equal(problemOf(JSON.stringify({ texts }), 2), '')
    assert.equal(problemOf('{"a":"[[[', 1), '')
  })

  it('counts lists and objects, and how deep they lie', () => {
    assert.equal(problemOf('[[],{},[]]', 4), '')
    assert.match(problemOf('[[],{},[]]', 3), /more than 3 lists and objects/)
    assert.equal(problemOf('['.repeat(deepestJson) + ']'.repeat(deepestJson)), '')
    assert.match(problemOf('['.repeat(deepestJson + 1)), /deeper than 256 levels/)
    assert.match(problemOf(`{"a":${'[],'.repeat(65_536)}[]}`), /more than 65536 lists/)
  })

  it('counts the members of objects', () => {
    assert.equal(problemOf('{"a":1,"b:":"c:d","e":[]}', 2), '')
    assert.match(problemOf('{"a":1,"b":2,"c":3,"d":4,"e":5}', 2), /its objects have more than 4 members/)
    const names = Array.from({ length: 70_000 }, (_, i) => `"k${i}":1`)
    assert.match(problemOf(`{${names.join(',')}}`), /more than 65536 members/)
    assert.match(problemOf(`{${names.join(',')}}`, 1_000_000), /more than 65536 members/)
  })

  it('takes time that follows the length of a text of backslashes', () => {
    // A quote behind an odd number of backslashes looks back over all of them, once.
    assert.equal(problemOf(`["${'\\"'.repeat(100_000)}"]`), '')
  })
})
