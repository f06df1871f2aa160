// What is kept of rollouts and of models that had one. All of it is plain values that go through JSON without a loss.

import type { KeptGoal } from '../rollouts/judge/experiment-report.ts'
import type { EvidenceSums } from '../rollouts/judge/metric-sums.ts'
import type { ExperimentState } from '../rollouts/reduce-experiment.ts'
import type { ExperimentPlan, RolloutPlan } from '../rollouts/rollout-plan.ts'
import type { RolloutState } from '../rollouts/rollout-state.ts'

/** A version that serves one side of a rollout. */
export type ArmVersion = {
  /** 'stable', 'candidate', or the name of an arm of an experiment. */
  readonly arm: string
  readonly model: string
  readonly version: string
  /** The hash of its files; '' when it is not known. */
  readonly hash: string
}

/** The third arm of a rollout with `baseline: true`: a copy of stable, with as many requests as the candidate. */
export const baselineArmName = 'baseline'

export type ReleaseNote = { readonly at: string; readonly by: string; readonly text: string }

export const noteText = ({ at, by, text }: ReleaseNote): string => `${at} ${by === '' ? '' : `${by}: `}${text}`

type SharedRecord = {
  readonly name: string
  readonly model: string
  readonly author: string
  readonly createdMs: number
  /** The object as somebody wrote it, without defaults. */
  readonly spec: unknown
  /** Stable or the control first. */
  readonly arms: readonly ArmVersion[]
  readonly evidence: EvidenceSums
  readonly notes: readonly ReleaseNote[]
  /** What was seen at the end; null while it lives. */
  readonly report: unknown
}

export type RolloutRecord = SharedRecord & { readonly plan: RolloutPlan; readonly state: RolloutState }
export type ExperimentRecord = SharedRecord & {
  readonly plan: ExperimentPlan
  readonly state: ExperimentState
  /** The values of each goal. */
  readonly goals: Readonly<Record<string, KeptGoal>>
}
export type ReleaseRecord = RolloutRecord | ExperimentRecord

export const isRolloutRecord = (record: ReleaseRecord): record is RolloutRecord => record.plan.kind === 'rollout'

/** A version that was withdrawn: neither a poll nor a load starts it again while its files are the same. */
export type HeldVersion = {
  readonly version: string
  readonly hash: string
  readonly rollout: string
  /** A version of another model; left out: of the model itself. */
  readonly model?: string
}

export type VersionOfModel = { readonly model: string; readonly version: string }

/** What outlives the rollouts of a model. */
export type ModelPins = {
  readonly model: string
  /** The repository that has the model: a model of the same name elsewhere is another one. */
  readonly repository: string
  /** The version that requests without a version get; '': the highest one. */
  readonly standard: string
  /** Requests without a version go to this version of another model, which took over; null or left out: to the model itself. */
  readonly instead?: VersionOfModel | null
  /** Versions above this one are new; '': none is. */
  readonly newest: string
  readonly held: readonly HeldVersion[]
  readonly labels: Readonly<Record<string, string>>
}

/** What may change of them. */
export type PinChange = Partial<Omit<ModelPins, 'model' | 'repository'>>

/** What is pinned where this version serves the requests of the model. */
export const pinTo = (model: string, arm: VersionOfModel): Pick<ModelPins, 'instead'> & Partial<ModelPins> =>
  arm.model === model
    ? { standard: arm.version, instead: null }
    : { instead: { model: arm.model, version: arm.version } }

export const noPins = (model: string, repository: string): ModelPins => ({
  model,
  repository,
  standard: '',
  newest: '',
  held: [],
  labels: {},
})
