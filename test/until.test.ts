import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from './until.ts'

test('a condition that comes true ends the wait with its answer', async () => {
  let looks = 0
  assert.equal(await until(() => (++looks === 3 ? 'there' : null), 'the third look'), 'there')
  assert.equal(await until(async () => Promise.resolve(++looks > 4 && looks), 'the fifth look'), 5)
})

test('a condition that stays false fails at the deadline, with what it waited for and what it saw last', async () => {
  const limits = { seconds: 0.03 }
  await assert.rejects(
    until(() => null, 'a miracle', limits),
    new Error('waited 0.03 s for a miracle; last seen: null'),
  )
  await assert.rejects(
    until(() => false, 'a ship', { ...limits, everyMs: 1, seen: () => ['sea'] }),
    new Error("waited 0.03 s for a ship; last seen: [ 'sea' ]"),
  )
})

test('a condition that throws ends the wait at once', async () => {
  await assert.rejects(
    until(() => {
      throw new RangeError('gone')
    }, 'anything'),
    RangeError,
  )
})
