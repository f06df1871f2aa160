// The life of an experiment: fixed weights, a report that may be read at any time, an end by time or by a person.

import type { ExperimentPlan } from './rollout-plan.ts'
import type { Moment } from './rollout-state.ts'

/** PENDING → RUNNING ⇄ PAUSED → ENDED. PENDING → FAILED. While it is paused everybody gets the control. */
export type ExperimentState = {
  readonly name: string
  readonly phase: 'PENDING' | 'RUNNING' | 'PAUSED' | 'ENDED' | 'FAILED'
  readonly why: string
  /** Time in RUNNING. */
  readonly runNs: number
  readonly seenNs: number
  /** The arm that beats the control for certain; null: none. It stays as it is when the experiment ends. */
  readonly winner: string | null
}

export type ExperimentEvent =
  | { readonly type: 'arms-ready' }
  | { readonly type: 'load-failed'; readonly why: string }
  /** `winner` as the report has it; `isSplitOdd`: requests went elsewhere than the weights say. */
  | { readonly type: 'tick'; readonly winner: string | null; readonly isSplitOdd: boolean }
  | { readonly type: 'pause' | 'resume' | 'end'; readonly by: string; readonly why: string }
  | { readonly type: 'restored' }

type ExperimentEffect =
  | { readonly do: 'load-arms' | 'unload-arms' | 'freeze-report' }
  /** Of all arms, the control first; all for the control while the experiment does not run. */
  | { readonly do: 'set-arm-weights'; readonly weights: readonly number[] }
  | { readonly do: 'promote-arm'; readonly arm: string }
  | { readonly do: 'audit'; readonly action: string; readonly by: string; readonly why: string }

type ExperimentTransition = {
  readonly state: ExperimentState
  readonly effects: readonly ExperimentEffect[]
  readonly refusal: string | null
}

export function createExperiment(name: string, by: string, now: Moment): ExperimentTransition {
  const state: ExperimentState = { name, phase: 'PENDING', why: '', runNs: 0, seenNs: now.nowNs, winner: null }
  return { state, effects: [{ do: 'audit', action: 'create', by, why: '' }, { do: 'load-arms' }], refusal: null }
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
  const weights = plan.arms.map(({ weight }) => weight)
  const run = (by: string, why: string): ExperimentTransition =>
    move(state, 'RUNNING', by, why, [{ do: 'set-arm-weights', weights }])
  const pause = (by: string, why: string): ExperimentTransition =>
    move(state, 'PAUSED', by, why, [{ do: 'set-arm-weights', weights: controlOnly(weights) }])
  switch (event.type) {
    case 'arms-ready':
      return state.phase === 'PENDING' || state.phase === 'RUNNING' ? run('', 'all arms are ready') : same
    case 'load-failed':
      return state.phase === 'PENDING' ? move(state, 'FAILED', '', event.why, [{ do: 'unload-arms' }]) : same
    case 'tick':
      if (state.phase !== 'RUNNING') return same
      if (event.isSplitOdd) return pause('', 'requests went elsewhere than the weights say')
      return isOver(plan, state, now)
        ? end(plan, { ...state, winner: event.winner }, '', 'its time is over')
        : { ...same, state: { ...state, winner: event.winner } }
    case 'pause':
      return state.phase === 'RUNNING'
        ? pause(event.by, event.why)
        : answer(same, state.phase === 'PAUSED', 'be paused')
    case 'resume':
      return state.phase === 'PAUSED' ? run(event.by, event.why) : answer(same, state.phase === 'RUNNING', 'be resumed')
    case 'end':
      if (state.phase === 'ENDED') return same
      return state.phase === 'FAILED' ? answer(same, false, 'be ended') : end(plan, state, event.by, event.why)
    case 'restored':
    default:
      // All requests go to the control until the arms are loaded again.
      return isOpen(state) ? { ...same, effects: [{ do: 'load-arms' }] } : same
  }
}

const isOpen = ({ phase }: ExperimentState): boolean => phase === 'PENDING' || phase === 'RUNNING' || phase === 'PAUSED'

const controlOnly = (weights: readonly number[]): number[] =>
  weights.map((_, i) => (i === 0 ? weights.reduce((sum, weight) => sum + weight, 0) : 0))

function isOver({ until }: ExperimentPlan, state: ExperimentState, now: Moment): boolean {
  if (until === null) return false
  return 'afterNs' in until ? state.runNs >= until.afterNs : now.wallMs >= until.wallMs
}

function end(plan: ExperimentPlan, state: ExperimentState, by: string, why: string): ExperimentTransition {
  const { winner } = state
  const weights = controlOnly(plan.arms.map(({ weight }) => weight))
  const promotion: ExperimentEffect[] =
    plan.isWinnerPromoted && winner !== null ? [{ do: 'promote-arm', arm: winner }] : []
  return move(state, 'ENDED', by, why, [
    { do: 'freeze-report' },
    ...promotion,
    { do: 'set-arm-weights', weights },
    { do: 'unload-arms' },
  ])
}

function move(
  state: ExperimentState,
  phase: ExperimentState['phase'],
  by: string,
  why: string,
  effects: readonly ExperimentEffect[],
): ExperimentTransition {
  const audit: ExperimentEffect = { do: 'audit', action: phase.toLowerCase(), by, why }
  return { state: { ...state, phase, why }, effects: [...effects, audit], refusal: null }
}

const answer = (same: ExperimentTransition, isSo: boolean, what: string): ExperimentTransition =>
  isSo ? same : { ...same, refusal: `experiment '${same.state.name}' is ${same.state.phase}: it cannot ${what}` }
