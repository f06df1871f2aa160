// What a rollout file says, after it was read: every value is there, in the units of the server.

import type { OutputComparison } from './compare-outputs.ts'
import type { MetricRule, OnWorse } from './judge/metric-rule.ts'
import type { TrafficRule } from './traffic-rule.ts'

/** Of this model, or of another model with the same signature. `version` may be `latest` or `current`. */
export type VersionReference = { readonly model: string | null; readonly version: string }

/** Where the sticky key of a request comes from. */
export type KeySource =
  | { readonly from: 'header' | 'cookie' | 'parameter'; readonly name: string }
  | { readonly from: 'principal' | 'tenant' | 'variant' }

/** Weights and shares count in hundredths of a per cent: 0 to 10,000. */
export type Step =
  | {
      readonly kind: 'weight'
      readonly weight: number
      readonly forNs: number
      readonly minRequests: number
      /** At 100 %: stable stays in memory until the end of the step. */
      readonly isBake: boolean
    }
  | {
      readonly kind: 'shadow'
      readonly share: number
      readonly forNs: number
      readonly minCompared: number
      /** Null: twice the number of the candidate's instances. */
      readonly maxInFlight: number | null
      readonly maxBytes: number
      readonly isKeepingInputs: boolean
    }
  /** Null: until somebody resumes. */
  | { readonly kind: 'pause'; readonly forNs: number | null }
  | {
      readonly kind: 'approval'
      readonly groups: readonly string[]
      readonly isNotAuthor: boolean
      readonly timeoutNs: number
    }
  | { readonly kind: 'webhook'; readonly url: string; readonly timeoutNs: number }

export type ShadowStep = Extract<Step, { readonly kind: 'shadow' }>

export const notifyEvents = [
  'started',
  'step',
  'paused',
  'resumed',
  'succeeded',
  'rolled_back',
  'failed',
  'cancelled',
] as const
export type NotifyEvent = (typeof notifyEvents)[number]

export type Notification = {
  readonly url: string
  readonly events: readonly NotifyEvent[]
  /** The environment variable with the key that signs the message; '' for none. */
  readonly secretEnv: string
}

export type JudgePolicy = {
  readonly alpha: number
  readonly pass: 'not_worse' | 'proven'
  readonly isEarly: boolean
  readonly metrics: readonly MetricRule[]
  readonly onWorse: OnWorse
  readonly onStall: 'pause' | 'advance' | 'rollback'
  readonly stepTimeoutNs: number
}

export type FeedbackPolicy = {
  readonly output: string
  readonly kind: 'top1' | 'exact' | 'threshold'
  readonly threshold: number
}

type SharedPlan = {
  readonly key: readonly KeySource[]
  /** '': the rollout's name, so every rollout draws other users. */
  readonly salt: string
  readonly rules: readonly TrafficRule[]
  readonly notify: readonly Notification[]
  readonly feedback: FeedbackPolicy | null
  /** Answers say which arm made them. */
  readonly isExposed: boolean
}

export type RolloutPlan = SharedPlan & {
  readonly kind: 'rollout'
  readonly candidate: VersionReference
  readonly stable: VersionReference
  readonly steps: readonly Step[]
  readonly judge: JudgePolicy
  readonly fallback: 'stable' | 'none'
  /** By output, for shadow copies. */
  readonly compare: Readonly<Record<string, OutputComparison>>
  readonly sequences: 'finish' | 'fail'
  readonly drainNs: number
  readonly keepStableNs: number
  readonly isCandidateKept: boolean
  readonly isSignatureChangeAllowed: boolean
  /** A second copy of stable with the candidate's instances and share is the control. */
  readonly hasBaseline: boolean
}

export type ExperimentArm = { readonly name: string; readonly reference: VersionReference; readonly weight: number }

export type ExperimentPlan = SharedPlan & {
  readonly kind: 'experiment'
  /** The first one is the control. */
  readonly arms: readonly ExperimentArm[]
  readonly goals: readonly string[]
  readonly alpha: number
  /** When it ends: after a time, at a moment (milliseconds since 1970), or when somebody ends it. */
  readonly until: { readonly afterNs: number } | { readonly wallMs: number } | null
  readonly isWinnerPromoted: boolean
}
