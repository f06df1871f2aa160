import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createExperiment, reduceExperiment, type ExperimentEvent, type ExperimentState } from './reduce-experiment.ts'
import { readRolloutFile } from './rollout-file.ts'
import type { ExperimentPlan } from './rollout-plan.ts'

const arms = [{ name: 'a', version: 1, weight: 60 }, { name: 'b', version: 2, weight: 40 }] // prettier-ignore
const quiet: ExperimentEvent = { type: 'tick', winner: null, isSplitOdd: false, isLeader: true }
const asked = { by: 'ann', why: 'because' }

class Life {
  readonly plan: ExperimentPlan
  state: ExperimentState
  #nowNs = 0
  effects: string[] = []
  refusal: string | null = null

  constructor(change: object = {}) {
    this.plan = readRolloutFile({ kind: 'experiment', arms, goals: ['score:click'], ...change }, () => null).plan as ExperimentPlan // prettier-ignore
    this.state = createExperiment({ name: 'e1', author: 'ann', why: '' }, { nowNs: 0, wallMs: 0 }).state
  }

  send(event: ExperimentEvent, seconds = 0): this {
    this.#nowNs += seconds * 1e9
    const { state, effects, refusal } = reduceExperiment(this.plan, this.state, event, { nowNs: this.#nowNs, wallMs: this.#nowNs / 1e6 }) // prettier-ignore
    this.state = state
    this.effects = effects.flatMap((effect) => {
      if (effect.do === 'audit') return []
      return [effect.do === 'set-arm-weights' ? `weights ${effect.weights.join('/')}` : effect.do]
    })
    this.refusal = refusal
    return this
  }
}

test('an experiment runs with its weights until its time is over, pauses left out', () => {
  const life = new Life({ until: '1h', promote_winner: true }).send({ type: 'arms-ready' })
  assert.deepEqual([life.state.phase, life.effects], ['RUNNING', ['weights 6000/4000']])
  life.send(quiet, 1800).send({ type: 'pause', ...asked })
  assert.deepEqual([life.state.phase, life.effects], ['PAUSED', ['weights 10000/0']])
  life
    .send(quiet, 36_000)
    .send({ type: 'resume', ...asked })
    .send(quiet, 1700)
  assert.equal(life.state.phase, 'RUNNING')
  life.send({ type: 'tick', winner: 'b', isSplitOdd: false, isLeader: true }, 101)
  assert.deepEqual([life.state.phase, life.state.winner], ['ENDED', 'b'])
  assert.deepEqual(life.effects, ['freeze-report', 'promote-arm', 'weights 10000/0', 'unload-arms'])
  assert.equal(life.send({ type: 'end', arm: 'b', ...asked }).refusal, null)
  assert.match(life.send({ type: 'end', arm: null, ...asked }).refusal ?? '', /is ENDED: it cannot be ended/)
})

test('it ends at a moment, or when somebody ends it; without a winner nobody is promoted', () => {
  const life = new Life({ until: '1970-01-01T01:00:00Z', promote_winner: true }).send({ type: 'arms-ready' })
  assert.equal(life.send(quiet, 3599).state.phase, 'RUNNING')
  assert.equal(life.send(quiet, 2).state.phase, 'ENDED')
  assert.ok(!life.effects.includes('promote-arm'))
  assert.equal(new Life().send({ type: 'end', arm: null, ...asked }).state.phase, 'ENDED')
})

test('a split that is not that of the weights pauses it', () => {
  const life = new Life()
    .send({ type: 'arms-ready' })
    .send({ type: 'tick', winner: null, isSplitOdd: true, isLeader: true })
  assert.match(`${life.state.phase}: ${life.state.why}`, /^PAUSED: requests went elsewhere/)
})

test('an arm that does not load fails it; calls that the state forbids are refused', () => {
  const life = new Life().send({ type: 'load-failed', why: 'no version 2' })
  assert.deepEqual([life.state.phase, life.effects], ['FAILED', ['unload-arms']])
  for (const type of ['pause', 'resume', 'end'] as const) {
    assert.match(life.send({ type, arm: null, ...asked }).refusal ?? '', /experiment 'e1' is FAILED: it cannot/)
  }
})

test('a restart loads the arms again; no time passes meanwhile', () => {
  const life = new Life({ until: '1h' }).send({ type: 'arms-ready' }).send({ type: 'restored' }, 36_000)
  assert.deepEqual([life.effects, life.state.runNs], [['load-arms'], 0])
  assert.deepEqual(life.send({ type: 'arms-ready' }).effects, ['weights 6000/4000'])
  life.send({ type: 'restored' }).send({ type: 'load-failed', why: 'no version 2' })
  assert.match(`${life.state.phase}: ${life.state.why}`, /^PAUSED: an arm could not be loaded again: no version 2/)
})
