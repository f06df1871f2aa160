// The recorded answers of the real Triton, replayed. What does not pass yet is listed in not-yet-passing.json, and a
// case on that list that passes must leave it.

import assert from 'node:assert/strict'
import test from 'node:test'
import { pendingCases, replay, replayableCases, summary } from './replay.ts'

test('the recorded cases of the real server get the recorded answers', async (t) => {
  const pending = pendingCases()
  const cases = replayableCases()
  const names = new Set(cases.map((recorded) => recorded.name))
  assert.deepEqual(
    [...pending].filter((name) => !names.has(name)),
    [],
    'the pending list names cases that exist',
  )
  // A setup whose cases are all pending proves nothing: no server is started for it.
  const worthwhile = cases.filter((recorded) => !pending.has(recorded.name))
  const outcomes = await replay(worthwhile)
  t.diagnostic(`${pending.size} cases are not passing yet (not-yet-passing.json)`)
  for (const line of summary(outcomes).split('\n')) t.diagnostic(line)
  for (const { recorded, problem } of outcomes) {
    await t.test(`${recorded.group}/${recorded.name}`, () => assert.equal(problem, null, problem ?? ''))
  }
})
