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
  const outcomes = await replay(cases)
  for (const line of summary(outcomes).split('\n')) t.diagnostic(line)
  for (const { recorded, problem } of outcomes) {
    const isPending = pending.has(recorded.name)
    await t.test(`${recorded.group}/${recorded.name}${isPending ? ' (not yet)' : ''}`, () => {
      if (isPending) assert.notEqual(problem, null, 'it passes now: take it off not-yet-passing.json')
      else assert.equal(problem, null, problem ?? '')
    })
  }
})
