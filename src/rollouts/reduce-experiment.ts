// The life of an experiment: fixed weights, a report that may be read at any time, an end by time or by a person.

import { mostHistory } from './rollout-change.ts'
import type { ExperimentPlan } from './rollout-plan.ts'
import type { Moment, RolloutAudit } from './rollout-state.ts'

type ExperimentPhase = 'PENDING' | 'RUNNING' | 'PAUSED' | 'ENDED' | 'FAILED'

/** PENDING → RUNNING ⇄ PAUSED → ENDED. PENDING → FAILED. While it is paused everybody gets the control. */
export type ExperimentState = {
  readonly name: string
  /** Grows with every move. An experiment that an older server kept has none. */
  readonly generation?: number
  readonly phase: ExperimentPhase
  readonly why: string
  /** Time in RUNNING. */
  readonly runNs: number
  readonly seenNs: number
  /** The arm that beats the control for certain; null: none. It stays as it is when the experiment ends. */
  readonly winner: string | null
  /** The arm that became the default version at the end; null: the control stays. */
  readonly promoted: string | null
  readonly history: readonly {
    readonly wallMs: number
    readonly phase: ExperimentPhase
    readonly by: string
    readonly why: string
  }[]
}

export type ExperimentEvent =
  | { readonly type: 'arms-ready' }
  | { readonly type: 'load-failed'; readonly why: string }
  /** `winner` as the report has it; `isSplitOdd`: requests went elsewhere than the weights say. Only a leader ends it by time. */
  | { readonly type: 'tick'; readonly winner: string | null; readonly isSplitOdd: boolean; readonly isLeader: boolean }
  | { readonly type: 'pause' | 'resume'; readonly by: string; readonly why: string }
  /** `arm` becomes the default version; null: the control stays. */
  | { readonly type: 'end'; readonly arm: string | null; readonly by: string; readonly why: string }
  | { readonly type: 'restored' }

export type ExperimentEffect =
  | { readonly do: 'load-arms' | 'unload-arms' | 'freeze-report' }
  /** Of all arms, the control first; all for the control while the experiment does not run. */
  | { readonly do: 'set-arm-weights'; readonly weights: readonly number[] }
  | { readonly do: 'promote-arm'; readonly arm: string }
  | { readonly do: 'audit'; readonly action: RolloutAudit; readonly by: string; readonly why: string }

export type ExperimentTransition = {
  readonly state: ExperimentState
  readonly effects: readonly ExperimentEffect[]
  readonly refusal: string | null
}

export function createExperiment(
  of: { readonly name: string; readonly author: string; readonly why: string },
  { nowNs, wallMs }: Moment,
): ExperimentTransition {
  const { name, author: by, why } = of
  const history = [{ wallMs, phase: 'PENDING', by, why } as const]
  const state: ExperimentState = { name, generation: 1, phase: 'PENDING', why, runNs: 0, seenNs: nowNs, winner: null, promoted: null, history } // prettier-ignore
  return { state, effects: [{ do: 'audit', action: 'create', by, why }, { do: 'load-arms' }], refusal: null }
}

export function reduceExperiment(
  plan: ExperimentPlan,
  before: ExperimentState,
  event: ExperimentEvent,
  now: Moment,
): ExperimentTransition {
  const passedNs = event.type === 'restored' || before.phase !== 'RUNNING' ? 0 : Math.max(0, now.nowNs - before.seenNs)
  const state = { ...before, seenNs: now.nowNs, runNs: before.runNs + passedNs }
  const same: ExperimentTransition = { state, effects: [], refusal: null }
  const full = weightsOf(plan)
  const move = mover(state, now)
  const pause = (by: string, why: string): ExperimentTransition => move('PAUSED', 'pause', by, why, [controlOnly(plan)])
  switch (event.type) {
    case 'arms-ready':
      if (state.phase === 'PENDING') return move('RUNNING', 'start', '', 'all arms are ready', [full])
      return state.phase === 'RUNNING' ? { ...same, effects: [full] } : same
    case 'load-failed':
      if (state.phase === 'PENDING') return move('FAILED', 'fail', '', event.why, [{ do: 'unload-arms' }])
      // After a restart, or after a pause: the arms served before.
      return state.phase === 'RUNNING' ? pause('', `an arm could not be loaded again: ${event.why}`) : same
    case 'tick':
      return tick(plan, state, event, now)
    case 'pause':
      return state.phase === 'RUNNING'
        ? pause(event.by, event.why)
        : answer(same, state.phase === 'PAUSED', 'be paused')
    case 'resume':
      return state.phase === 'PAUSED'
        ? move('RUNNING', 'resume', event.by, event.why, [full])
        : answer(same, state.phase === 'RUNNING', 'be resumed')
    case 'end':
      if (isExperimentOpen(state)) return end(plan, state, event, now)
      return answer(same, state.phase === 'ENDED' && state.promoted === event.arm, 'be ended')
    case 'restored':
    default:
      // All requests go to the control until the arms are loaded again.
      return isExperimentOpen(state) ? { ...same, effects: [{ do: 'load-arms' }] } : same
  }
}

/** It keeps rollouts and other experiments of its model out. */
export const isExperimentOpen = ({ phase }: ExperimentState): boolean =>
  phase === 'PENDING' || phase === 'RUNNING' || phase === 'PAUSED'

function tick(
  plan: ExperimentPlan,
  before: ExperimentState,
  { winner, isSplitOdd, isLeader }: Extract<ExperimentEvent, { readonly type: 'tick' }>,
  now: Moment,
): ExperimentTransition {
  if (!isExperimentOpen(before)) return { state: before, effects: [], refusal: null }
  // Feedback comes while it is paused, too.
  const state = { ...before, winner }
  if (state.phase === 'RUNNING' && isSplitOdd) {
    return mover(state, now)('PAUSED', 'pause', '', 'requests went elsewhere than the weights say', [controlOnly(plan)])
  }
  if (!isLeader || state.phase === 'PENDING' || !isOver(plan, state, now)) return { state, effects: [], refusal: null }
  return end(plan, state, { arm: plan.isWinnerPromoted ? winner : null, by: '', why: 'its time is over' }, now)
}

/** What a server does whose experiment was moved by another one. Who moved it has told people of it. */
export function experimentAdoption(
  plan: ExperimentPlan,
  before: ExperimentState,
  after: ExperimentState,
): ExperimentEffect[] {
  if (after.phase === before.phase) return []
  const promotion: ExperimentEffect[] = after.promoted === null ? [] : [{ do: 'promote-arm', arm: after.promoted }]
  switch (after.phase) {
    case 'RUNNING':
      return [weightsOf(plan)]
    case 'PAUSED':
      return [controlOnly(plan)]
    case 'ENDED':
      return [{ do: 'freeze-report' }, ...promotion, controlOnly(plan), { do: 'unload-arms' }]
    case 'FAILED':
      return [{ do: 'unload-arms' }]
    case 'PENDING':
    default:
      return []
  }
}

const weightsOf = ({ arms }: ExperimentPlan): ExperimentEffect => ({
  do: 'set-arm-weights',
  weights: arms.map(({ weight }) => weight),
})

const controlOnly = ({ arms }: ExperimentPlan): ExperimentEffect => ({
  do: 'set-arm-weights',
  weights: arms.map((_, i) => (i === 0 ? arms.reduce((sum, { weight }) => sum + weight, 0) : 0)),
})

function isOver({ until }: ExperimentPlan, state: ExperimentState, now: Moment): boolean {
  if (until === null) return false
  return 'afterNs' in until ? state.runNs >= until.afterNs : now.wallMs >= until.wallMs
}

function end(
  plan: ExperimentPlan,
  state: ExperimentState,
  { arm, by, why }: { readonly arm: string | null; readonly by: string; readonly why: string },
  now: Moment,
): ExperimentTransition {
  const promotion: ExperimentEffect[] = arm === null ? [] : [{ do: 'promote-arm', arm }]
  return mover({ ...state, promoted: arm }, now)('ENDED', arm === null ? 'end' : 'promote', by, why, [
    { do: 'freeze-report' },
    ...promotion,
    controlOnly(plan),
    { do: 'unload-arms' },
  ])
}

const mover =
  (state: ExperimentState, { wallMs }: Moment) =>
  (
    phase: ExperimentPhase,
    action: RolloutAudit,
    by: string,
    why: string,
    effects: readonly ExperimentEffect[],
  ): ExperimentTransition => {
    const history = [...state.history, { wallMs, phase, by, why }].slice(-mostHistory)
    return {
      state: { ...state, generation: (state.generation ?? 1) + 1, phase, why, history },
      effects: [...effects, { do: 'audit', action, by, why }],
      refusal: null,
    }
  }

const answer = (same: ExperimentTransition, isSo: boolean, what: string): ExperimentTransition =>
  isSo ? same : { ...same, refusal: `experiment '${same.state.name}' is ${same.state.phase}: it cannot ${what}` }
