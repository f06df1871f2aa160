import assert from 'node:assert/strict'
import { test } from 'node:test'
import { searchByHalves, searchLinearly, type SearchRange } from './load-search.ts'

async function visited(
  search: typeof searchLinearly,
  range: SearchRange,
  isGood: (load: number) => boolean,
): Promise<number[]> {
  const loads: number[] = []
  await search(range, async (load) => {
    loads.push(load)
    return isGood(load)
  })
  return loads
}

test('a range is measured from its start to its end, in steps', async () => {
  assert.deepEqual(await visited(searchLinearly, { start: 1, end: 8, step: 3 }, () => true), [1, 4, 7])
  assert.deepEqual(await visited(searchLinearly, { start: 4, end: 4, step: 1 }, () => true), [4])
  assert.deepEqual(await visited(searchLinearly, { start: 4, end: 1, step: 1 }, () => true), [4])
  assert.deepEqual(
    await visited(searchLinearly, { start: 0.1, end: 0.3, step: 0.1 }, () => true),
    [0.1, 0.2, 0.30000000000000004],
  )
})

test('the first load that is too much ends the search; a range without end has no other', async () => {
  assert.deepEqual(await visited(searchLinearly, { start: 1, end: 0, step: 1 }, (load) => load < 4), [1, 2, 3, 4])
})

test('halving looks at the start, then at the end, then between them down to a step', async () => {
  const range = { start: 1, end: 17, step: 1 }
  assert.deepEqual(await visited(searchByHalves, range, () => true), [1, 17])
  assert.deepEqual(await visited(searchByHalves, range, () => false), [1])
  const loads = await visited(searchByHalves, range, (load) => load <= 6)
  assert.deepEqual(loads, [1, 17, 9, 5, 7, 6])
})
