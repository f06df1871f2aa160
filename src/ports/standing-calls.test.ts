import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Verdict } from '../access/admission.ts'
import { makeCaller } from '../access/caller.ts'
import type { Refusal } from '../access/refusal.ts'
import { factsOf } from '../../test/fakes/admission-facts.ts'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { StandingCalls } from './standing-calls.ts'

const refusal: Refusal = { kind: 'refused', reason: 'unauthenticated', message: 'gone' }

function standing(renew: () => Verdict | Promise<Verdict>): {
  readonly clock: ManualClock
  readonly calls: StandingCalls
  readonly seen: string[]
  readonly call: { isOver: boolean }
} {
  const clock = new ManualClock()
  const calls = new StandingCalls(clock, { admit: () => assert.fail('nothing may be counted'), renew })
  const seen: string[] = []
  const call = { isOver: false }
  calls.add({
    facts: factsOf({}),
    isOver: () => call.isOver,
    renewed: ({ principal }) => seen.push(principal),
    end: ({ message }) => seen.push(message),
  })
  return { clock, calls, seen, call }
}

test('a call that lasts goes on with what its caller may do now, and ends once the caller is refused', () => {
  let verdict: Verdict = makeCaller('api-key', 'web-1')
  const { clock, seen } = standing(() => verdict)
  clock.advanceMs(2000)
  verdict = refusal
  clock.advanceMs(2000)
  assert.deepEqual(seen, ['web-1', 'gone'])
  assert.equal(clock.pendingCount, 0, 'nobody waits any more')
})

test('who calls may be found out later, or not at all for a while', async () => {
  let next: Promise<Verdict> = Promise.reject(new Error('the issuer is away'))
  const { clock, seen } = standing(() => next)
  clock.advanceMs(2000)
  await Promise.allSettled([next])
  next = Promise.resolve(refusal)
  clock.advanceMs(2000)
  await next
  await Promise.resolve()
  assert.deepEqual(seen, ['gone'])
})

test('a call that is over is forgotten, and a port that closes waits for nothing', () => {
  const { clock, calls, seen, call } = standing(() => refusal)
  call.isOver = true
  clock.advanceMs(2000)
  assert.deepEqual([seen, clock.pendingCount], [[], 0])
  calls.add({ facts: factsOf({}), isOver: () => false, renewed: () => undefined, end: () => assert.fail('closed') })
  calls.close()
  assert.equal(clock.pendingCount, 0)
})
