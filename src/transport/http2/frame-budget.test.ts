import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { FrameBudget } from './frame-budget.ts'
import { errorCodes } from './http2-format.ts'
import { Http2Error } from './http2-error.ts'

test('a budget is used up at once, and comes back with time', () => {
  const clock = new ManualClock()
  const budget = new FrameBudget(clock)
  const charge = (): void => budget.charge('settings')
  const tooMany = (reason: unknown): boolean =>
    reason instanceof Http2Error && reason.code === errorCodes.ENHANCE_YOUR_CALM && /settings/.test(reason.message)
  for (let i = 0; i < 100; i++) charge()
  assert.throws(charge, tooMany)
  // Others have budgets of their own.
  budget.charge('ping')
  clock.advanceMs(200)
  charge()
  charge()
  assert.throws(charge, tooMany)
  clock.advanceMs(3_600_000)
  for (let i = 0; i < 100; i++) charge()
  assert.throws(charge, tooMany)
})
