// The requests of an experiment, for the control of rollouts: weights, values of goals, the check of the split.

import { fullWeight } from '../rollouts/assignment.ts'
import { GoalValues, isSplitOdd, type KeptGoal } from '../rollouts/judge/experiment-report.ts'
import { openLiveRollout } from '../rollouts/live-rollout.ts'
import { reportGoals, type GoalReport } from '../rollouts/report-experiment.ts'
import type { ArmOutcomes } from './live-traffic.ts'
import type { ExperimentRecord } from './release-record.ts'
import type { TrafficParts } from './release-traffic.ts'

/** The requests of a model while an experiment lives. */
export interface ExperimentTraffic {
  /** Of all arms, in hundredths of a per cent. The count of the split begins anew. */
  setWeights(weights: readonly number[]): void
  /** Whether chance sent more or fewer requests to an arm than its weight explains. */
  isSplitOdd(): boolean
  /** Values so far. */
  changes(): number
  /** With those of other servers. */
  goals(others: readonly Readonly<Record<string, KeptGoal>>[]): readonly GoalReport[]
  kept(): Readonly<Record<string, KeptGoal>>
  outcomes(): readonly ArmOutcomes[]
  /** Requests that wait for another arm than the control go to the control. */
  withdraw(): void
  /** Requests are routed as without an experiment. */
  close(): void
}

/** All versions serve when this is called. */
export type OpenExperiment = (record: ExperimentRecord) => ExperimentTraffic

export const experimentTraffic =
  (parts: TrafficParts): OpenExperiment =>
  ({ name, model, plan, arms, goals: knownGoals }) => {
    const live = openLiveRollout(
      { ...parts, engine: parts.fleet.routing },
      {
        name,
        model,
        plan,
        arms: arms.map(({ arm, model: ofModel, version }) => ({ name: arm, model: ofModel, version })),
        known: {},
        knownGoals,
        seed: Math.floor(Math.random() * 2 ** 32),
      },
    )
    let weights: readonly number[] = [fullWeight]
    const setWeights = (wanted: readonly number[]): void => {
      weights = wanted
      live.setWeights(wanted)
      for (const arm of live.arms) arm.drawn = 0
    }
    setWeights(arms.map((_, i) => (i === 0 ? fullWeight : 0)))
    return {
      setWeights,
      isSplitOdd: () => {
        const all = live.arms.reduce((sum, { drawn }) => sum + drawn, 0)
        return all > 0 && live.arms.some(({ drawn }, i) => isSplitOdd(drawn, all, (weights[i] ?? 0) / fullWeight))
      },
      changes: () => live.goals.values().reduce((sum, { changes }) => sum + changes, 0),
      goals: (others) =>
        reportGoals(plan, others.length === 0 ? live.goals : mergedGoals(live.goals, arms.length, others)),
      kept: () => Object.fromEntries([...live.goals].map(([goal, values]) => [goal, values.kept()])),
      outcomes: () => live.arms.map(({ settings, ended }) => ({ ...settings, ended })),
      withdraw: () => void live.withdraw(),
      close: () => live.close(),
    }
  }

function mergedGoals(
  own: ReadonlyMap<string, GoalValues>,
  arms: number,
  others: readonly Readonly<Record<string, KeptGoal>>[],
): ReadonlyMap<string, GoalValues> {
  return new Map(
    [...own].map(([goal, values]) => {
      const merged = new GoalValues(arms, values.kept())
      for (const other of others) merged.addAll(new GoalValues(arms, other[goal]))
      return [goal, merged]
    }),
  )
}
