// Whole rollouts in virtual time: requests are routed, answered, collected, judged, and the rollout moves by itself.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { RandomDraws } from '../../src/rollouts/assignment.ts'
import { Evidence } from '../../src/rollouts/judge/evidence.ts'
import { judgeRollout } from '../../src/rollouts/judge/judge-rollout.ts'
import { reduceRollout } from '../../src/rollouts/reduce-rollout.ts'
import { readRolloutFile } from '../../src/rollouts/rollout-file.ts'
import type { RolloutPlan } from '../../src/rollouts/rollout-plan.ts'
import { RolloutRouter } from '../../src/rollouts/rollout-router.ts'
import { createRollout, isLive, type RolloutEvent, type RolloutState } from '../../src/rollouts/rollout-state.ts'
import type { RouteFacts } from '../../src/rollouts/traffic-rule.ts'

const steps = [
  { weight: 5, for: '60s', min_requests: 50 },
  { weight: 50, for: '60s', min_requests: 50 },
  { weight: 100, bake: '60s' },
]

type Behaviour = { readonly errorRate: number; readonly slowness: number }
type Ending = { readonly state: RolloutState; readonly seconds: number; readonly toCandidateAfterEnd: number }

const planOf = (change: object): RolloutPlan => {
  const { plan, problems } = readRolloutFile({ kind: 'rollout', steps, key: ['principal'], ...change }, () => null)
  assert.deepEqual(problems, [])
  return plan as RolloutPlan
}

const factsOf = (principal: string): RouteFacts => ({
  protocol: 'http',
  header: () => null,
  groups: [],
  tenant: '',
  principal,
  country: () => '',
  parameter: () => null,
  correlationId: () => '',
})

/** 100 requests a second of 500 users, until the rollout is over. `candidate` tells how the candidate behaves at a second. */
function play(candidate: (second: number) => Behaviour, seed: number, change: object = {}, perSecond = 100): Ending {
  const plan = planOf(change)
  const draws = new RandomDraws(seed)
  const router = new RolloutRouter({ name: `r${seed}`, salt: '', key: plan.key, rules: plan.rules, arms: ['stable', 'candidate'] }, draws) // prettier-ignore
  const evidence = new Evidence(plan.judge.metrics, {}, draws.share, 0)
  let { state } = createRollout({ name: `r${seed}`, model: 'm', author: '', why: '' }, { nowNs: 0, wallMs: 0 })
  let candidateRequests = 0
  const send = (event: RolloutEvent, second: number): void => {
    const moved = reduceRollout(plan, state, event, { nowNs: second * 1e9, wallMs: second * 1000 })
    state = moved.state
    for (const effect of moved.effects) {
      if (effect.do === 'set-weight') router.setWeight(effect.weight)
      if (effect.do === 'write-pin' && effect.to === 'candidate') send({ type: 'pin-written' }, second)
    }
  }
  const answer = (second: number): void => {
    const { arm, bucket } = router.route(factsOf(`user-${Math.floor(draws.share() * 500)}`))
    const { errorRate, slowness } = arm === 1 ? candidate(second) : { errorRate: 0.01, slowness: 1 }
    if (arm === 1) candidateRequests++
    evidence.addRequest(arm === 1 ? 'candidate' : 'stable', {
      isError: draws.share() < errorRate,
      bucket,
      latencyMs: (5 + 10 * draws.share() * draws.share()) * slowness,
      firstResponseMs: NaN,
      computeSecondsPerRow: NaN,
      tokensPerSecond: NaN,
    })
  }
  send({ type: 'candidate-ready' }, 0)
  let second = 0
  while (isLive(state) && second++ < 3600) {
    for (let i = 0; i < perSecond; i++) answer(second)
    evidence.tick(second * 1e9, state.weight < 10_000)
    const judgement = judgeRollout(plan.judge.metrics, evidence.sums(), plan.judge.alpha)
    send({ type: 'tick', facts: { judgement, candidateRequests, compared: 0, isCandidateReady: true, isLeader: true } }, second) // prettier-ignore
  }
  const before = candidateRequests
  for (let i = 0; i < 500; i++) answer(second)
  return { state, seconds: second, toCandidateAfterEnd: candidateRequests - before }
}

const good: Behaviour = { errorRate: 0.01, slowness: 1 }

describe('a rollout that nobody touches', () => {
  test('of a good candidate reaches everybody', () => {
    for (let seed = 0; seed < 10; seed++) {
      const { state, toCandidateAfterEnd } = play(() => good, seed)
      assert.equal(state.phase, 'SUCCEEDED', state.why)
      assert.equal(toCandidateAfterEnd, 500)
    }
  })

  test('of a candidate with errors or slowness goes back, and no request reaches it afterwards', () => {
    const bad: [string, Behaviour, RegExp][] = [
      ['errors', { errorRate: 0.2, slowness: 1 }, /^errors is worse: candidate \d+ of \d+ .*e = /],
      ['slowness', { errorRate: 0.01, slowness: 1.6 }, /^latency_p\d+ is worse: candidate [\d.]+, stable [\d.]+/],
    ]
    for (const [name, behaviour, why] of bad) {
      const { state, toCandidateAfterEnd, seconds } = play(() => behaviour, 3)
      assert.equal(state.phase, 'ROLLING_BACK', name)
      assert.match(state.why, why)
      assert.equal(toCandidateAfterEnd, 0)
      assert.ok(seconds <= 40, `${name}: ${seconds} s`)
    }
  })

  test('of a candidate that turns bad at 100 % goes back too', () => {
    const { state } = play((second) => (second > 140 ? { errorRate: 0.3, slowness: 1 } : good), 5)
    assert.match(state.why, /errors is worse: .*at 100 %/)
  })

  test('of a dry run that is bad reaches everybody', () => {
    const metrics = { errors: { dry_run: true } }
    assert.equal(play(() => ({ errorRate: 0.5, slowness: 1 }), 6, { judge: { metrics } }).state.phase, 'SUCCEEDED')
  })

  test('with little traffic waits for its requests, and finds a candidate that fails always', () => {
    const quiet = play(() => good, 7, {}, 2)
    assert.equal(quiet.state.phase, 'SUCCEEDED')
    assert.ok(quiet.seconds > 300, String(quiet.seconds))
    assert.equal(play(() => ({ errorRate: 1, slowness: 1 }), 8, {}, 2).state.phase, 'ROLLING_BACK')
  })
})

test('no order of events breaks the rules of the states', () => {
  const asked = { by: 'ann', why: 'w' }
  const judgement = (worse: 'rollback' | 'pause' | 'note' | null): object => ({
    verdicts: [],
    worse: worse === null ? null : { act: worse, metric: 'errors', why: 'w' },
    areAllFine: worse === null,
  })
  const tick = fc
    .record({
      worse: fc.constantFrom(null, null, null, 'note', 'pause', 'rollback'),
      candidateRequests: fc.nat(1e6),
      isCandidateReady: fc.boolean(),
      isLeader: fc.boolean(),
    })
    .map(({ worse, ...facts }) => ({
      type: 'tick',
      facts: { ...facts, compared: 0, judgement: judgement(worse as null) },
    }))
  const simple = fc.constantFrom(
    ...['candidate-ready', 'worker-restarted', 'pin-written', 'drained', 'store-lost', 'store-back', 'restored'].map((type) => ({ type })), // prettier-ignore
    ...['pause', 'resume', 'advance', 'promote', 'rollback'].map((type) => ({ type, ...asked })),
    { type: 'approve', groups: ['g'], ...asked },
    { type: 'load-failed', why: 'w' },
    { type: 'pin-failed', why: 'w' },
    { type: 'webhook-answer', verdict: 'unsure', why: 'w' },
    { type: 'webhook-answer', verdict: 'pass', why: 'w' },
    { type: 'superseded', version: '3' },
  )
  const forwards = fc.constantFrom<object>(
    { type: 'candidate-ready' },
    { type: 'advance', ...asked },
    { type: 'restored' },
  )
  const kinds = fc.oneof({ arbitrary: forwards, weight: 2 }, simple, tick)
  const events = fc.array(fc.tuple(kinds as typeof simple, fc.nat(600)), { maxLength: 60 })
  const mixed = planOf({ steps: [{ shadow: 5 }, { weight: 5 }, { pause: {} }, { approval: { groups: ['g'] } }, { webhook: { url: 'http://h/' } }, { weight: 100, bake: '1m' }] }) // prettier-ignore
  fc.assert(
    fc.property(events, (all) => {
      let { state } = createRollout({ name: 'r', model: 'm', author: 'bob', why: '' }, { nowNs: 0, wallMs: 0 })
      let weight = 0
      let nowNs = 0
      for (const [event, seconds] of all) {
        nowNs += seconds * 1e9
        const before = state
        const moved = reduceRollout(mixed, state, event as RolloutEvent, { nowNs, wallMs: nowNs / 1e6 })
        state = moved.state
        for (const effect of moved.effects) if (effect.do === 'set-weight') weight = effect.weight
        // What the router was told is what the state says; after a restart it is told again when the candidate is there.
        if (event.type === 'restored') weight = state.isLoading ? 0 : weight
        if (!state.isLoading && isLive(state)) assert.equal(weight, state.weight)
        if (['ROLLING_BACK', 'ROLLED_BACK', 'FAILED', 'CANCELLED'].includes(state.phase)) assert.equal(weight, 0)
        if (moved.refusal !== null) assert.deepEqual([moved.effects, state.phase], [[], before.phase])
        assert.equal(state.phase === 'PAUSED', state.pauseReason !== null)
        const isOver = !isLive(before) && before.phase !== 'SUCCEEDED' && before.phase !== 'ROLLING_BACK'
        if (isOver) assert.equal(state.phase, before.phase)
      }
    }),
    { numRuns: 2000 },
  )
})
