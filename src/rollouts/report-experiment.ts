// What people and programs see of an experiment: its arms, each goal with sizes, differences and intervals, what happened when.

import { reportGoal, winnerOf, type ArmReport, type GoalValues } from './judge/experiment-report.ts'
import type { Interval } from './judge/share-interval.ts'
import { plain, short } from './rollout-report.ts'
import type { ExperimentState } from './reduce-experiment.ts'
import type { ExperimentPlan } from './rollout-plan.ts'

/** Ends that are not known yet are null. */
type ShownInterval = { readonly low: number | null; readonly high: number | null }

type ShownArm = {
  readonly arm: string
  /** Values that feedback brought. */
  readonly values: number
  readonly users: number
  readonly mean: number
  readonly interval: ShownInterval
  /** Against the first arm; null for the first arm itself. `evidence` is log₁₀ e against "both are equal". */
  readonly difference: (ShownInterval & { readonly value: number; readonly evidence: number | null }) | null
}

/** As JSON shows it. */
export type ExperimentReport = {
  readonly name: string
  readonly model: string
  readonly kind: 'experiment'
  readonly state: string
  readonly reason: string
  readonly author: string
  readonly winner: string | null
  readonly promoted: string | null
  readonly arms: readonly { readonly arm: string; readonly version: string; readonly weight: number }[]
  readonly goals: readonly { readonly goal: string; readonly arms: readonly ShownArm[] }[]
  readonly history: readonly { readonly at: string; readonly state: string; readonly by: string; readonly why: string }[] // prettier-ignore
  readonly notes: readonly string[]
}

export type GoalReport = { readonly goal: string; readonly arms: readonly ArmReport[] }

export const reportGoals = (
  { goals, arms, alpha }: ExperimentPlan,
  values: ReadonlyMap<string, GoalValues>,
): GoalReport[] =>
  // prettier-ignore
  goals.flatMap((goal) => {
    const ofGoal = values.get(goal)
    return ofGoal === undefined ? [] : [{ goal, arms: reportGoal(arms.map(({ name }) => name), ofGoal, alpha, goals.length) }] // prettier-ignore
  })

/** The first goal decides; the others must not be worse for certain. */
export const winnerOfGoals = ([first, ...others]: readonly GoalReport[]): string | null =>
  first === undefined ? null : winnerOf(first.arms, others.map(({ arms }) => arms)) // prettier-ignore

type ReportFacts = {
  readonly plan: ExperimentPlan
  readonly state: ExperimentState
  readonly model: string
  readonly author: string
  /** Version numbers in the order of the plan. */
  readonly versions: readonly string[]
  readonly goals: readonly GoalReport[]
  readonly notes: readonly string[]
}

export function reportExperiment(facts: ReportFacts): ExperimentReport {
  const { plan, state, model, author, versions, goals, notes } = facts
  return {
    name: state.name,
    model,
    kind: 'experiment',
    state: state.phase,
    reason: state.why,
    author,
    winner: state.winner,
    promoted: state.promoted,
    arms: plan.arms.map(({ name, weight }, i) => ({ arm: name, version: versions[i] ?? '', weight: weight / 100 })),
    goals: goals.map(({ goal, arms }) => ({ goal, arms: arms.map(shownArm) })),
    history: state.history.map(({ wallMs, phase, by, why }) => ({
      at: new Date(wallMs).toISOString(),
      state: phase,
      by,
      why,
    })),
    notes,
  }
}

function shownArm({ arm, requests, users, mean, interval, difference }: ArmReport): ShownArm {
  const against =
    difference === null
      ? null
      : { value: difference.value, ...shown(difference.interval), evidence: finite(difference.logEvidence / Math.LN10) }
  return { arm, values: requests, users, mean, interval: shown(interval), difference: against }
}

const finite = (value: number): number | null => (Number.isFinite(value) ? value : null)
const shown = ({ low, high }: Interval): ShownInterval => ({ low: finite(low), high: finite(high) })

/** For people: a page of Markdown. */
export function experimentMarkdown(report: ExperimentReport): string {
  const lines = [
    `# Experiment ${plain(report.name)}: ${report.state}`,
    '',
    `Model ${plain(report.model)}: ${report.arms.map(({ arm, version, weight }) => `${plain(arm)} is version ${version} with ${weight} %`).join(', ')}. ${plain(report.reason)}`, // prettier-ignore
    '',
    report.winner === null
      ? 'No arm beats the first one for certain.'
      : `The arm ${plain(report.winner)} beats the first one for certain.`,
  ]
  for (const { goal, arms } of report.goals) {
    lines.push('', `## ${plain(goal)}`, '', '| arm | users | values | mean | less the first arm | log10 e |', '|---|---|---|---|---|---|') // prettier-ignore
    for (const { arm, users, values, mean, interval, difference } of arms) {
      const against = difference === null ? ' | ' : `${short(difference.value)}${intervalText(difference)} | ${difference.evidence === null ? '' : short(difference.evidence)}` // prettier-ignore
      lines.push(`| ${plain(arm)} | ${users} | ${values} | ${short(mean)}${intervalText(interval)} | ${against} |`)
    }
  }
  lines.push('', '| time | state | by | why |', '|---|---|---|---|')
  for (const { at, state, by, why } of report.history) lines.push(`| ${at} | ${state} | ${plain(by)} | ${plain(why)} |`)
  if (report.notes.length > 0) lines.push('', '## Notes', '', ...report.notes.map((note) => `- ${plain(note)}`))
  return `${lines.join('\n')}\n`
}

const intervalText = ({ low, high }: ShownInterval): string =>
  low === null && high === null ? '' : ` (${low === null ? '?' : short(low)} to ${high === null ? '?' : short(high)})`
