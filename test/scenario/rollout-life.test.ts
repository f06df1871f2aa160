// Every move of a rollout in virtual time.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { reduceRollout } from '../../src/rollouts/reduce-rollout.ts'
import { readRolloutFile } from '../../src/rollouts/rollout-file.ts'
import type { RolloutPlan } from '../../src/rollouts/rollout-plan.ts'
import { createRollout, isLive, type RolloutEffect, type RolloutEvent, type RolloutState, type TickFacts } from '../../src/rollouts/rollout-state.ts' // prettier-ignore
import { ManualClock } from '../fakes/manual-clock.ts'

const noJudgement = { verdicts: [], worse: null, areAllFine: false }
const healthy: TickFacts = { judgement: noJudgement, candidateRequests: 0, compared: 0, isCandidateReady: true, isLeader: true } // prettier-ignore
const asked = { by: 'ann', why: 'because' }

function planOf(change: object): RolloutPlan {
  const { plan, problems } = readRolloutFile({ kind: 'rollout', ...change }, () => null)
  assert.deepEqual(problems, [])
  return plan as RolloutPlan
}

/** A rollout with a clock. Every state goes through JSON, as through a store. */
class Life {
  readonly plan: RolloutPlan
  readonly clock = new ManualClock()
  readonly effects: RolloutEffect[] = []
  state: RolloutState
  facts = healthy
  refusal: string | null = null

  constructor(change: object = {}) {
    this.plan = planOf(change)
    const created = createRollout({ name: 'r1', model: 'm', author: 'ann', why: 'version 2 appeared' }, this.#now())
    this.state = created.state
    this.effects.push(...created.effects)
  }

  send(event: RolloutEvent): this {
    const { state, effects, refusal } = reduceRollout(this.plan, this.state, event, this.#now())
    assert.ok(state.generation >= this.state.generation)
    this.state = JSON.parse(JSON.stringify(state)) as RolloutState
    this.effects.push(...effects)
    this.refusal = refusal
    return this
  }

  ask(type: 'pause' | 'resume' | 'advance' | 'promote' | 'rollback'): this {
    return this.send({ type, ...asked })
  }

  start(): this {
    return this.send({ type: 'candidate-ready' })
  }

  /** Ticks once a second, or coarser for long times; requests come at 10 a second. */
  pass(seconds: number, facts: Partial<TickFacts> = {}, perSecond = 10): this {
    const longest = Math.max(1, Math.floor(seconds / 100))
    for (let left = seconds; left > 0; left -= longest) {
      const stride = Math.min(longest, left)
      this.clock.advanceUs(stride * 1e6)
      const requests = stride * perSecond
      this.facts = { ...this.facts, candidateRequests: this.facts.candidateRequests + requests, compared: this.facts.compared + requests } // prettier-ignore
      this.send({ type: 'tick', facts: { ...this.facts, ...facts } })
    }
    return this
  }

  /** The effects since the last call, in short. */
  taken(): string[] {
    return this.effects.splice(0).flatMap((effect) => {
      if (effect.do === 'audit') return []
      if (effect.do === 'set-weight') return [`weight ${effect.weight / 100}`]
      if (effect.do === 'set-shadow') return [`shadow ${effect.share / 100}`]
      if (effect.do === 'write-pin') return [`pin ${effect.to}`]
      return [effect.do === 'notify' ? `notify ${effect.event}` : effect.do]
    })
  }

  get place(): string {
    const { phase, step, pauseReason } = this.state
    return phase === 'RUNNING' ? `RUNNING ${step}` : pauseReason === null ? phase : `${phase} ${pauseReason}`
  }

  #now(): { nowNs: number; wallMs: number } {
    return { nowNs: this.clock.nowNs(), wallMs: this.clock.wallMs() }
  }
}

const worse = (act: 'rollback' | 'pause' | 'note', metric = 'errors'): Partial<TickFacts> => ({
  judgement: { verdicts: [], worse: { act, metric, why: 'candidate 9 of 10' }, areAllFine: false },
})
const fine: Partial<TickFacts> = { judgement: { ...noJudgement, areAllFine: true } }

const rolledBack = ['weight 0', 'hold-candidate', 'drain-candidate', 'freeze-report', 'notify rolled_back']
const minute = 60
const hour = 3600

describe('a good candidate', () => {
  test('goes through the usual steps to the end, and stable is let go an hour later', () => {
    const life = new Life()
    assert.deepEqual([life.place, life.taken()], ['PENDING', ['load-candidate']])
    life.start()
    assert.deepEqual([life.place, life.taken()], ['RUNNING 0', ['notify started', 'weight 1']])
    life.pass(10 * minute - 1)
    assert.equal(life.place, 'RUNNING 0')
    life.pass(6)
    assert.deepEqual([life.place, life.taken()], ['RUNNING 1', ['weight 5', 'notify step']])
    life
      .pass(31 * minute)
      .pass(31 * minute)
      .pass(31 * minute)
    assert.equal(life.place, 'RUNNING 4')
    life.taken()
    life.pass(61 * minute)
    assert.deepEqual([life.place, life.taken()[0]], ['PROMOTING', 'pin candidate'])
    life.send({ type: 'pin-written' })
    assert.deepEqual([life.place, life.taken()], ['SUCCEEDED', ['notify succeeded', 'freeze-report']])
    assert.equal(isLive(life.state), false)
    life.pass(59 * minute)
    assert.deepEqual(life.taken(), [])
    life.pass(5 * minute)
    assert.deepEqual(life.taken(), ['release-stable'])
    life.pass(hour)
    assert.deepEqual(life.taken(), [])
  })

  test('a step waits for its requests, and `early` does not wait for its time', () => {
    const steps = [
      { weight: 5, for: '1m', min_requests: 1000 },
      { weight: 100, bake: '1m' },
    ]
    const slow = new Life({ steps }).start().pass(80, {}, 10)
    assert.equal(slow.place, 'RUNNING 0')
    assert.equal(slow.pass(40, {}, 10).place, 'RUNNING 1')
    const early = new Life({
      steps: [
        { weight: 5, for: '1h' },
        { weight: 100, bake: '1m' },
      ],
      judge: { early: true },
    })
    assert.equal(early.start().pass(5, fine).place, 'RUNNING 0')
    assert.equal(early.pass(10, fine).place, 'RUNNING 1')
    // A bake takes its time.
    assert.equal(early.pass(30, fine).place, 'RUNNING 1')
  })

  test('a shadow step answers nobody and counts compared pairs', () => {
    const life = new Life({
      steps: [
        { shadow: 10, for: '1m', min_compared: 500 },
        { weight: 100, bake: '1m' },
      ],
    }).start()
    assert.deepEqual([life.taken(), life.state.weight], [['load-candidate', 'notify started', 'shadow 10'], 0])
    life.pass(90)
    assert.deepEqual([life.place, life.taken()], ['RUNNING 1', ['shadow 0', 'weight 100', 'notify step']])
  })

  test('is promoted at once when somebody says so', () => {
    const life = new Life().start().ask('promote')
    assert.deepEqual([life.place, life.taken().slice(-2)], ['PROMOTING', ['weight 100', 'pin candidate']])
    assert.equal(life.ask('promote').refusal, null)
    life.send({ type: 'pin-failed', why: 'disk full' })
    assert.match(life.state.why, /disk full/)
    life.pass(11)
    assert.deepEqual(life.taken(), ['pin candidate'])
  })
})

describe('a bad candidate', () => {
  test('that cannot be loaded changes nothing', () => {
    const life = new Life().send({ type: 'load-failed', why: 'needs 9 GB, 4 GB are free' })
    assert.deepEqual([life.place, life.state.why], ['FAILED', 'needs 9 GB, 4 GB are free'])
    assert.deepEqual(life.taken(), ['load-candidate', 'unload-candidate', 'notify failed'])
    assert.equal(life.pass(5).place, 'FAILED')
    assert.match(life.ask('rollback').refusal ?? '', /is FAILED: it cannot be rolled back/)
  })

  test('is withdrawn in every live phase, and the weight is the first effect', () => {
    const phases: [string, Life][] = [
      ['RUNNING', new Life().start()],
      ['PAUSED', new Life().start().ask('pause')],
      ['PROMOTING', new Life().start().ask('promote')],
    ]
    for (const [name, life] of phases) {
      life.taken()
      life.pass(1, worse('rollback'))
      assert.equal(life.place, 'ROLLING_BACK', name)
      const taken = life.taken()
      assert.deepEqual(taken.filter((each) => each !== 'pin stable'), rolledBack) // prettier-ignore
      assert.equal(taken.includes('pin stable'), name === 'PROMOTING')
      assert.match(life.state.why, /^errors is worse: candidate 9 of 10$/)
    }
  })

  test('ends drained and unloaded, by the event or when the time for it is over', () => {
    const drained = new Life().start().ask('rollback').send({ type: 'drained' })
    assert.deepEqual([drained.place, drained.taken().at(-1)], ['ROLLED_BACK', 'unload-candidate'])
    const late = new Life().start().ask('rollback').pass(29)
    assert.equal(late.place, 'ROLLING_BACK')
    assert.equal(late.pass(2).place, 'ROLLED_BACK')
    assert.deepEqual([drained.ask('rollback').refusal, drained.place], [null, 'ROLLED_BACK'])
  })

  test('that is not ready for 10 s is withdrawn; a short pause is not', () => {
    const life = new Life().start().pass(9, { isCandidateReady: false }).pass(1).pass(9, { isCandidateReady: false })
    assert.equal(life.place, 'RUNNING 0')
    life.pass(3, { isCandidateReady: false })
    assert.deepEqual([life.place, life.state.why], ['ROLLING_BACK', 'the candidate has not been ready for 10 s'])
  })

  test('whose workers restart three times in a minute is withdrawn; in two minutes it is not', () => {
    const slow = new Life().start()
    for (let i = 0; i < 5; i++) slow.send({ type: 'worker-restarted' }).pass(31)
    assert.equal(slow.place, 'RUNNING 0')
    const quick = new Life().start()
    for (let i = 0; i < 3; i++) quick.send({ type: 'worker-restarted' }).pass(5)
    assert.equal(quick.place, 'ROLLING_BACK')
  })

  test('an alert withdraws it', () => {
    const life = new Life().start().send({ type: 'alert', name: 'GalateaErrors' })
    assert.match(life.state.why, /the alert 'GalateaErrors' fires/)
  })

  test('after success goes back in one switch while stable is kept, and not later', () => {
    const life = new Life().start().ask('promote').send({ type: 'pin-written' })
    life.taken()
    life.ask('rollback')
    assert.deepEqual(life.taken(), ['weight 0', 'pin stable', ...rolledBack.slice(1)])
    life.send({ type: 'pin-failed', why: 'disk full' }).pass(1)
    assert.deepEqual(life.taken(), ['pin stable'])
    const late = new Life()
      .start()
      .ask('promote')
      .send({ type: 'pin-written' })
      .pass(62 * minute)
    assert.match(late.ask('rollback').refusal ?? '', /stable was let go; start a rollout of the old version/)
  })
})

describe('pauses', () => {
  test('stop the clock of the step, and resume goes on with it', () => {
    const life = new Life().start().pass(300).ask('pause').pass(hour)
    assert.deepEqual([life.place, life.state.weight], ['PAUSED asked', 100])
    assert.equal(life.ask('pause').refusal, null)
    life.ask('resume').pass(290)
    assert.equal(life.place, 'RUNNING 0')
    assert.equal(life.pass(15).place, 'RUNNING 1')
    assert.equal(life.ask('resume').refusal, null)
  })

  test('of a step end by time, or by resume', () => {
    const steps = [{ pause: { for: '5m' } }, { pause: {} }, { weight: 100, bake: '1m' }]
    const life = new Life({ steps }).start()
    assert.equal(life.place, 'PAUSED step')
    assert.equal(life.pass(4 * minute).state.step, 0)
    assert.deepEqual([life.pass(2 * minute).place, life.state.step], ['PAUSED step', 1])
    assert.equal(life.pass(24 * hour).state.step, 1)
    assert.equal(life.ask('resume').place, 'RUNNING 2')
  })

  test('a metric that only pauses does so once; one that is noted does not stop anything', () => {
    const life = new Life().start().pass(3, worse('pause'))
    assert.equal(life.place, 'PAUSED worse')
    assert.equal(life.ask('resume').pass(3, worse('pause')).place, 'RUNNING 0')
    assert.equal(life.pass(1, worse('pause', 'latency_p99')).place, 'PAUSED worse')
    const noted = new Life().start()
    noted.pass(20, worse('note'))
    assert.equal(noted.place, 'RUNNING 0')
    assert.equal(noted.effects.filter((effect) => effect.do === 'audit' && effect.action === 'note').length, 1)
  })

  test('a step without requests stalls after step_timeout: pause, advance or rollback', () => {
    const steps = [
      { weight: 5, for: '10m' },
      { weight: 100, bake: '1m' },
    ]
    const stalled = (onStall: string): Life => new Life({ steps, judge: { on_stall: onStall, step_timeout: '2h' } }).start().pass(119 * minute, {}, 0) // prettier-ignore
    assert.equal(stalled('pause').place, 'RUNNING 0')
    const paused = stalled('pause').pass(3 * minute, {}, 0)
    assert.deepEqual([paused.place, paused.state.why], ['PAUSED stall', 'the step had 0 of 100 requests after 2 h'])
    assert.equal(paused.ask('resume').pass(hour, {}, 0).place, 'RUNNING 0')
    assert.equal(paused.pass(90 * minute, {}, 0).place, 'PAUSED stall')
    assert.equal(stalled('advance').pass(100, {}, 0).place, 'RUNNING 1')
    assert.equal(stalled('rollback').pass(80, {}, 0).place, 'ROLLING_BACK')
  })

  test('`proven` waits for proof until step_timeout; a bake needs none', () => {
    const judge = { pass: 'proven', step_timeout: '1h' }
    const steps = [
      { weight: 5, for: '10m' },
      { weight: 100, bake: '1m' },
    ]
    const life = new Life({ steps, judge }).start().pass(59 * minute)
    assert.equal(life.place, 'RUNNING 0')
    assert.equal(life.pass(5 * minute).place, 'PAUSED unsure')
    assert.equal(life.ask('resume').pass(2, fine).place, 'RUNNING 1')
    assert.equal(life.pass(70).place, 'PROMOTING')
  })

  test('the shared store away freezes the rollout, which can still be rolled back', () => {
    const life = new Life().start().send({ type: 'store-lost' })
    assert.deepEqual([life.place, life.state.weight], ['PAUSED store', 100])
    assert.match(life.ask('resume').refusal ?? '', /the shared store is away/)
    assert.match(life.ask('advance').refusal ?? '', /the shared store is away/)
    assert.match(life.ask('promote').refusal ?? '', /the shared store is away/)
    assert.equal(life.send({ type: 'store-back' }).place, 'RUNNING 0')
    assert.equal(life.send({ type: 'store-lost' }).ask('rollback').place, 'ROLLING_BACK')
  })
})

describe('approvals and webhooks', () => {
  const approval = { groups: ['ml-leads'], not_author: true, timeout: '24h' }
  const steps = [{ approval }, { weight: 100, bake: '1m' }]

  test('an approval comes from the group and not from the author', () => {
    const life = new Life({ steps }).start()
    const approve = (by: string, ...groups: string[]): string | null => life.send({ type: 'approve', by, groups, why: 'ok' }).refusal // prettier-ignore
    assert.equal(life.place, 'PAUSED approval')
    assert.match(approve('bob', 'staff') ?? '', /'bob', who is not in the group ml-leads/)
    assert.match(approve('ann', 'ml-leads') ?? '', /'ann', who created it/)
    assert.match(life.ask('advance').refusal ?? '', /needs an approval/)
    assert.match(life.ask('resume').refusal ?? '', /needs an approval/)
    assert.match(life.ask('promote').refusal ?? '', /step 1 needs an approval/)
    assert.deepEqual([approve('bob', 'ml-leads'), life.place], [null, 'RUNNING 1'])
    assert.equal(approve('bob', 'ml-leads'), null)
    assert.match(
      new Life().start().send({ type: 'approve', by: 'bob', groups: [], why: '' }).refusal ?? '',
      /no step waits/,
    )
  })

  test('that nobody gives stay open: time approves nothing', () => {
    assert.equal(new Life({ steps, judge: { on_stall: 'advance' } }).start().pass(48 * hour).place, 'PAUSED approval')
    assert.equal(new Life({ steps, judge: { on_stall: 'rollback' } }).start().pass(25 * hour).state.phase.startsWith('ROLL'), true) // prettier-ignore
  })

  test('a webhook passes, fails or is unsure', () => {
    const webhook = { steps: [{ webhook: { url: 'http://h/' } }, { weight: 100, bake: '1m' }] }
    const answered = (verdict: 'pass' | 'fail' | 'unsure', judge: object = {}): Life =>
      new Life({ ...webhook, judge }).start().send({ type: 'webhook-answer', verdict, why: 'x' })
    assert.ok(new Life(webhook).start().taken().includes('ask-webhook'))
    assert.equal(answered('pass').place, 'RUNNING 1')
    assert.equal(answered('fail').place, 'ROLLING_BACK')
    assert.equal(answered('fail', { on_worse: 'pause' }).place, 'PAUSED webhook')
    assert.equal(answered('fail', { on_worse: 'note' }).place, 'RUNNING 1')
    assert.equal(answered('unsure').place, 'PAUSED webhook')
    assert.equal(answered('unsure').ask('resume').place, 'RUNNING 1')
    assert.equal(answered('pass').send({ type: 'webhook-answer', verdict: 'fail', why: 'late' }).place, 'RUNNING 1')
  })
})

describe('others', () => {
  test('a newer version takes its place before the bake, and waits during it', () => {
    const life = new Life().start().send({ type: 'superseded', version: '3' })
    assert.deepEqual([life.place, life.taken().slice(-3)], ['CANCELLED', ['weight 0', 'unload-candidate', 'notify cancelled']]) // prettier-ignore
    const baking = new Life({ steps: [{ weight: 100, bake: '1h' }] }).start()
    assert.match(baking.send({ type: 'superseded', version: '3' }).refusal ?? '', /give way to version 3: it bakes/)
  })

  test('a server that is not the leader rolls back, and does not advance', () => {
    const life = new Life().start().pass(hour, { isLeader: false })
    assert.equal(life.place, 'RUNNING 0')
    assert.equal(life.pass(1, { isLeader: false, ...worse('rollback') }).place, 'ROLLING_BACK')
  })

  test('a restart loads the candidate first, and goes on where it was', () => {
    const life = new Life().start().pass(11 * minute)
    assert.equal(life.place, 'RUNNING 1')
    life.clock.advanceUs(3 * hour * 1e6)
    life.taken()
    life.send({ type: 'restored' })
    assert.deepEqual(life.taken(), ['load-candidate'])
    const before = life.state.stepNs
    life.pass(50, { isCandidateReady: false })
    assert.deepEqual([life.place, life.state.stepNs], ['RUNNING 1', before])
    life.start()
    assert.deepEqual(life.taken(), ['weight 5', 'shadow 0'])
    assert.equal(life.pass(31 * minute).place, 'RUNNING 2')
    const lost = new Life().start().send({ type: 'restored' }).send({ type: 'load-failed', why: 'gone' })
    assert.equal(lost.place, 'ROLLING_BACK')
    assert.equal(lost.send({ type: 'restored' }).place, 'ROLLED_BACK')
  })

  test('calls that the state forbids are refused with the state, and change nothing', () => {
    const calls = ['pause', 'resume', 'advance', 'promote'] as const
    for (const life of [new Life(), new Life().start().ask('rollback')]) {
      for (const call of calls) {
        const before = life.state
        assert.match(life.ask(call).refusal ?? '', /^rollout 'r1' is (PENDING|ROLLING_BACK): it cannot/)
        assert.deepEqual(life.state, before)
      }
    }
  })

  test('an advance goes to the next step at once; the history tells who and why, and has a bound', () => {
    const life = new Life().start().ask('advance')
    assert.deepEqual([life.place, life.state.history.at(-1)?.by], ['RUNNING 1', 'ann'])
    for (let i = 0; i < 300; i++) life.ask('pause').ask('resume')
    assert.equal(life.state.history.length, 200)
  })
})
