import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { editDistance, nearestWord } from './nearest-word.ts'

test('a word with a slip of the finger finds the word that was meant', () => {
  const known = ['http-port', 'grpc-port', 'model-repository', 'load-model']
  assert.equal(nearestWord('htpp-port', known), 'http-port')
  assert.equal(nearestWord('model-repositroy', known), 'model-repository')
  assert.equal(nearestWord('lode-model', known), 'load-model')
})

test('a word that was cut short finds the shortest that begins with it', () => {
  assert.equal(
    nearestWord('model-repo', new Set(['model-repository-x', 'model-repository', 'load-model']).values()),
    'model-repository',
  )
  assert.equal(nearestWord('mod', new Set(['model-repository']).values()), null)
})

test('a word that resembles nothing finds nothing', () => {
  assert.equal(nearestWord('zebra', ['http-port', 'load-model']), null)
  assert.equal(nearestWord('', ['http-port']), null)
})

test('insertions, drops, replacements and swaps of neighbours cost one each', () => {
  assert.equal(editDistance('port', 'port'), 0)
  assert.equal(editDistance('port', 'ports'), 1)
  assert.equal(editDistance('port', 'prt'), 1)
  assert.equal(editDistance('port', 'part'), 1)
  assert.equal(editDistance('port', 'prot'), 1)
  assert.equal(editDistance('', 'abc'), 3)
  assert.equal(editDistance('abc', ''), 3)
})

test('distance is symmetric, zero only for equal words and never over the longer length', () => {
  const word = fc.string({ maxLength: 12 })
  fc.assert(
    fc.property(word, word, (a, b) => {
      const distance = editDistance(a, b)
      assert.equal(distance, editDistance(b, a))
      assert.equal(distance === 0, a === b)
      assert.ok(distance <= Math.max(a.length, b.length))
    }),
  )
})
