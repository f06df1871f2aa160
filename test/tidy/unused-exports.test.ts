import assert from 'node:assert/strict'
import test from 'node:test'
import { findUnusedExports } from './unused-exports.ts'

/** The exports of `a.ts` that `b.ts` leaves over. */
const leftOver = (a: string, b: string): string[] => {
  const texts = new Map([
    ['src/a.ts', a],
    ['test/b.ts', b],
  ])
  return findUnusedExports(new Map([['src/a.ts', a]]), texts)
}

test('every kind of export is found when nobody imports it', () => {
  const kinds = ['const x = 1', 'function x() {}', 'async function x() {}', 'class x {}', 'abstract class x {}']
  for (const kind of [
    ...kinds,
    'type x = 1',
    'interface x {}',
    'function* x() {}',
    '{ x }',
    "{ y as x } from './y.ts'",
  ]) {
    assert.deepEqual(leftOver(`export ${kind}`, ''), ['src/a.ts: x'], kind)
  }
  assert.deepEqual(leftOver('const x = 1', ''), [])
})

test('every kind of import counts, whoever it is by', () => {
  const from = "from '../src/a.ts'"
  const imports = [
    `import { x } ${from}`,
    `import { z, x } ${from}`,
    `import {\n  z,\n  type x as y,\n} ${from}`,
    `import type { x } ${from}`,
    `import * as all ${from}`,
    `export { x } ${from}`,
    `export * ${from}`,
    "const { x } = await import('../src/a.ts')",
  ]
  for (const each of imports) assert.deepEqual(leftOver('export const x = 1', each), [], each)
})

test('a name of the same spelling elsewhere is another name', () => {
  assert.deepEqual(leftOver('export const x = 1', "import { x } from './a.ts'"), ['src/a.ts: x'])
  assert.deepEqual(leftOver('export const x = 1', "import { y as x } from '../src/a.ts'"), ['src/a.ts: x'])
})
