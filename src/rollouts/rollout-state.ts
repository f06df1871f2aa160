// The life of a rollout as values: what it is (state), what happens to it (event), what must be done then (effects).
// `reduceRollout` in reduce-rollout.ts joins the three. State and effects are plain values, which can be stored as JSON.

import type { Judgement } from './judge/judge-rollout.ts'
import type { NotifyEvent } from './rollout-plan.ts'

/**
 * PENDING → RUNNING ⇄ PAUSED → PROMOTING → SUCCEEDED. From all of these before SUCCEEDED, and from SUCCEEDED while stable is
 * kept: → ROLLING_BACK → ROLLED_BACK. PENDING → FAILED. → CANCELLED when a newer version comes before the bake.
 */
export type RolloutPhase =
  'PENDING' | 'RUNNING' | 'PAUSED' | 'PROMOTING' | 'SUCCEEDED' | 'ROLLING_BACK' | 'ROLLED_BACK' | 'FAILED' | 'CANCELLED'

export type PauseReason = 'asked' | 'step' | 'approval' | 'stall' | 'unsure' | 'worse' | 'webhook' | 'store'

/** The two ways to tell the time: one to measure with, one to show. */
export type Moment = { readonly nowNs: number; readonly wallMs: number }

export type HistoryEntry = {
  readonly wallMs: number
  readonly phase: RolloutPhase
  readonly step: number
  readonly by: string
  readonly why: string
}

export type RolloutState = {
  readonly name: string
  readonly model: string
  /** Who created it; '' for a new version that appeared. */
  readonly author: string
  readonly phase: RolloutPhase
  /** Why it is in this phase, for people. */
  readonly why: string
  /** The place in the list of steps; -1 before the first one. */
  readonly step: number
  /** The candidate's share in hundredths of a per cent. */
  readonly weight: number
  /** The share of requests that are copied, in the same unit. */
  readonly shadow: number
  readonly pauseReason: PauseReason | null
  /** Time in this step, without pauses, and time in this phase. They grow with every event. */
  readonly stepNs: number
  readonly phaseNs: number
  /** Time in the step when its time-out began to count: somebody who resumes a stalled step gives it another time-out. */
  readonly timeoutFromNs: number
  /** When the two times grew last. Not of use after a restart: see the event `restored`. */
  readonly seenNs: number
  /** What the candidate had when the step began. */
  readonly requestsBefore: number
  readonly comparedBefore: number
  /** For how long the candidate has not been ready. */
  readonly notReadyNs: number
  /** Restarts of its workers in the last minute: how long ago, in nanoseconds. */
  readonly restartAges: readonly number[]
  /** Metrics that were found worse without a rollback: noted, or paused for and resumed. */
  readonly knownWorse: readonly string[]
  readonly isStableReleased: boolean
  /** The candidate is being loaded, at the beginning or after a restart. */
  readonly isLoading: boolean
  /** The pin of stable could not be written and is written again. */
  readonly owesPin: boolean
  readonly history: readonly HistoryEntry[]
  /** Grows with every change; several servers compare it before they write. */
  readonly generation: number
}

/** What is known at a tick, once a second. */
export type TickFacts = {
  readonly judgement: Judgement
  /** Judged requests of the candidate since the rollout began. */
  readonly candidateRequests: number
  /** Compared shadow copies since the rollout began. */
  readonly compared: number
  readonly isCandidateReady: boolean
  /** Any server may roll back; only the leader may go on. */
  readonly isLeader: boolean
}

export type RolloutEvent =
  | { readonly type: 'candidate-ready' }
  | { readonly type: 'load-failed'; readonly why: string }
  | { readonly type: 'tick'; readonly facts: TickFacts }
  | { readonly type: 'worker-restarted' }
  | {
      readonly type: 'pause' | 'resume' | 'advance' | 'promote' | 'rollback'
      readonly by: string
      readonly why: string
    }
  | { readonly type: 'approve'; readonly by: string; readonly groups: readonly string[]; readonly why: string }
  | { readonly type: 'webhook-answer'; readonly verdict: 'pass' | 'fail' | 'unsure'; readonly why: string }
  | { readonly type: 'alert'; readonly name: string }
  | { readonly type: 'pin-written' | 'drained' | 'store-lost' | 'store-back' | 'restored' }
  | { readonly type: 'pin-failed'; readonly why: string }
  | { readonly type: 'superseded'; readonly version: string }

export type RolloutAudit = 'create' | 'start' | 'step' | 'pause' | 'resume' | 'approve' | 'promote' | 'rollback' | 'fail' | 'cancel' | 'end' | 'note' // prettier-ignore

export type RolloutEffect =
  | { readonly do: 'load-candidate' }
  /** The router's weight. It is the first effect of a rollback, and must not wait for anything. */
  | { readonly do: 'set-weight'; readonly weight: number }
  | { readonly do: 'set-shadow'; readonly share: number }
  | { readonly do: 'ask-webhook'; readonly url: string; readonly timeoutNs: number }
  /** The default version of the model, which survives restarts. Answered by `pin-written` or `pin-failed`. */
  | { readonly do: 'write-pin'; readonly to: 'candidate' | 'stable' }
  /** Queued requests go to stable, those under way may end. Answered by `drained`. */
  | { readonly do: 'drain-candidate' }
  /** Neither a poll nor a load starts this version with this content again. */
  | { readonly do: 'hold-candidate' }
  | { readonly do: 'unload-candidate' }
  | { readonly do: 'release-stable' }
  | { readonly do: 'freeze-report' }
  | { readonly do: 'notify'; readonly event: NotifyEvent; readonly why: string }
  | { readonly do: 'audit'; readonly action: RolloutAudit; readonly by: string; readonly why: string }

export type Transition = {
  readonly state: RolloutState
  readonly effects: readonly RolloutEffect[]
  /** Why a call cannot be done in this state; null where it was done, or was so already. */
  readonly refusal: string | null
}

const livePhases: readonly RolloutPhase[] = ['PENDING', 'RUNNING', 'PAUSED', 'PROMOTING']

/** A live rollout keeps other rollouts of its model out. */
export const isLive = (state: RolloutState): boolean => livePhases.includes(state.phase)

export function createRollout(
  of: { readonly name: string; readonly model: string; readonly author: string; readonly why: string },
  now: Moment,
): Transition {
  const state: RolloutState = {
    name: of.name,
    model: of.model,
    author: of.author,
    phase: 'PENDING',
    why: of.why,
    step: -1,
    weight: 0,
    shadow: 0,
    pauseReason: null,
    stepNs: 0,
    phaseNs: 0,
    timeoutFromNs: 0,
    seenNs: now.nowNs,
    requestsBefore: 0,
    comparedBefore: 0,
    notReadyNs: 0,
    restartAges: [],
    knownWorse: [],
    isStableReleased: false,
    isLoading: true,
    owesPin: false,
    history: [{ wallMs: now.wallMs, phase: 'PENDING', step: -1, by: of.author, why: of.why }],
    generation: 1,
  }
  const audit: RolloutEffect = { do: 'audit', action: 'create', by: of.author, why: of.why }
  return { state, effects: [audit, { do: 'load-candidate' }], refusal: null }
}
