import assert from 'node:assert/strict'
import { test } from 'node:test'
import { selectRelease } from './select-release.ts'

type Facts = Parameters<typeof selectRelease>[0]

/** The version policy of these tests keeps the highest version. */
const select = (facts: Partial<Facts>): string => {
  const { chosen, newcomer, takesOver } = selectRelease({
    present: ['1', '2'],
    ofPolicy: (versions) => versions.slice(-1),
    held: new Set(),
    standard: '1',
    newest: '1',
    hasFile: true,
    isRenewal: false,
    needed: new Set(),
    candidates: new Set(),
    ...facts,
  })
  return `${chosen.join()} new ${newcomer} at once ${takesOver}`
}

test('with a rollout file a new version waits for its rollout, and the standard version stays', () => {
  assert.equal(select({}), '1 new 2 at once null')
})

test('without a rollout file a new version takes over at once', () => {
  assert.equal(select({ hasFile: false }), '2 new null at once 2')
  assert.equal(select({ hasFile: false, isRenewal: true }), '1 new 2 at once null', 'but not because a rollout asks')
})

test('a version that is held is not there', () => {
  assert.equal(select({ held: new Set(['2']) }), '1 new null at once null')
  assert.equal(select({ held: new Set(['2']), hasFile: false }), '1 new null at once null')
})

test('both arms of a rollout are in memory, whatever the policy says; a candidate that is not wanted yet is not', () => {
  assert.equal(select({ candidates: new Set(['2']), needed: new Set(['1', '2']) }), '1,2 new null at once null')
  assert.equal(select({ candidates: new Set(['2']), needed: new Set(['1']) }), '1 new null at once null')
})

test('a version that comes while another one is a candidate is new', () => {
  const facts = { present: ['1', '2', '3'], candidates: new Set(['2']), needed: new Set(['1', '2']) }
  assert.equal(select(facts), '1,2 new 3 at once null')
})

test('after a promotion to an older version the newer one is not new again', () => {
  assert.equal(select({ standard: '1', newest: '2' }), '1,2 new null at once null')
})

test('a standard version whose folder is gone does not count', () => {
  assert.equal(select({ present: ['2'], standard: '1', newest: '1' }), '2 new null at once 2')
})

test('a first load has no new version', () => {
  assert.equal(select({ standard: '', newest: '' }), '2 new null at once null')
})
