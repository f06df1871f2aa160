import assert from 'node:assert/strict'
import test from 'node:test'
import { findImportCycles } from './import-cycles.ts'

const graph = (text: string): Map<string, string[]> =>
  new Map(
    text.split(' ').map((line) => {
      const [file = '', targets = ''] = line.split('>')
      return [file, targets.split('')]
    }),
  )

test('files that import each other, directly or around a corner, are one cycle each', () => {
  assert.deepEqual(findImportCycles(graph('a>b b>c c>')), [])
  assert.deepEqual(findImportCycles(graph('a>b b>a c>a')), ['a b'])
  assert.deepEqual(findImportCycles(graph('a>b b>c c>ad d>e e>d f>x')), ['a b c', 'd e'])
  assert.deepEqual(findImportCycles(graph('a>bc b>d c>d d>a')), ['a b c d'])
})
