import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { NumberTable } from './number-table.ts'

type Item = { readonly name: string }

const key = fc.oneof(
  fc.integer({ min: 0, max: 40 }),
  // Numbers that differ in their high bits only.
  fc.integer({ min: 0, max: 20 }).map((n) => n * 2 ** 20),
  fc.maxSafeNat(),
)
const step = fc.oneof(
  fc.record({ kind: fc.constant('set' as const), key }),
  fc.record({ kind: fc.constant('delete' as const), key }),
  fc.record({ kind: fc.constantFrom('clear' as const, 'get' as const), key }),
)

test('a table holds what a Map would hold, whatever is put in and taken out', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
      const table = new NumberTable<Item>()
      const map = new Map<number, Item>()
      for (const [i, { kind, key: k }] of steps.entries()) {
        const item = { name: String(i) }
        if (kind === 'set') {
          table.set(k, item)
          map.set(k, item)
        } else if (kind === 'delete') {
          assert.equal(table.delete(k), map.delete(k))
        } else if (kind === 'clear' && i % 10 === 0) {
          table.clear()
          map.clear()
        }
        assert.equal(table.get(k), map.get(k))
        assert.equal(table.size, map.size)
      }
      const byKey = (entries: [number, Item][]): [number, Item][] => entries.toSorted((a, b) => a[0] - b[0])
      assert.deepEqual(byKey(table.entries()), byKey([...map]))
    }),
    { numRuns: 500 },
  )
})

test('a list of what is in a table can be read while the table changes', () => {
  const table = new NumberTable<Item>()
  for (let i = 0; i < 100; i++) table.set(i, { name: String(i) })
  for (const [k] of table.entries()) table.delete(k)
  assert.equal(table.size, 0)
})
