// What the API shows of a rollout.

import type { RolloutFigures } from '../telemetry/rollout-families.ts'
import type { ExperimentRun } from './experiment-run.ts'
import type { RolloutRun } from './rollout-run.ts'

export type ReleaseRun = RolloutRun | ExperimentRun

type Shown = Readonly<Record<string, unknown>>

/** In lists. */
export const releaseSummary = (run: ReleaseRun): Shown =>
  run.kind === 'rollout' ? rolloutSummary(run) : experimentSummary(run)

/** By itself. */
export const releaseDetails = (run: ReleaseRun): Shown =>
  run.kind === 'rollout' ? rolloutDetails(run) : experimentDetails(run)

/** For metrics. */
export const releaseFigures = (run: ReleaseRun): RolloutFigures =>
  run.kind === 'rollout' ? rolloutFigures(run) : experimentFigures(run)

function experimentSummary(run: ExperimentRun): Shown {
  const { name, model, author, createdMs, state, plan, arms } = run.record
  return {
    name,
    model,
    kind: plan.kind,
    state: state.phase,
    reason: state.why,
    winner: state.winner,
    promoted: state.promoted,
    arms: arms.map(({ arm, version }, i) => ({ arm, version, weight: (plan.arms[i]?.weight ?? 0) / 100 })),
    author,
    created: new Date(createdMs).toISOString(),
    since: new Date(state.history.at(-1)?.wallMs ?? createdMs).toISOString(),
  }
}

function experimentDetails(run: ExperimentRun): Shown {
  const { spec, arms, notes, plan } = run.record
  const { goals, history } = run.report()
  const outcomes = run.outcomes()
  return {
    ...experimentSummary(run),
    arms: arms.map((arm, i) => ({
      ...arm,
      weight: (plan.arms[i]?.weight ?? 0) / 100,
      ended: outcomes[i]?.ended ?? {},
    })),
    goals,
    history,
    notes,
    spec,
  }
}

/** The weight is that of all arms beside the first one; evidence: that an arm differs from the first one. */
function experimentFigures(run: ExperimentRun): RolloutFigures {
  const { name, model, state, plan } = run.record
  const evidence = run.goals.flatMap(({ goal, arms }) =>
    arms.flatMap(
      ({ arm, difference }): [string, number][] =>
      difference === null || !Number.isFinite(difference.logEvidence) ? [] : [[`${goal}/${arm}`, difference.logEvidence / Math.LN10]], // prettier-ignore
    ),
  )
  const weight = plan.arms.slice(1).reduce((sum, one) => sum + one.weight, 0)
  return {
    rollout: name,
    model,
    state: state.phase,
    isLive: run.isLive,
    weight: state.phase === 'RUNNING' ? weight / 100 : 0,
    evidence: new Map(evidence),
    arms: run.outcomes(),
    shadow: null,
  }
}

function rolloutSummary(run: RolloutRun): Shown {
  const { name, model, author, createdMs, state, plan, arms } = run.record
  const last = state.history.at(-1)
  return {
    name,
    model,
    kind: plan.kind,
    state: state.phase,
    ...(state.pauseReason === null ? {} : { pause_reason: state.pauseReason }),
    reason: state.why,
    step: state.step + 1,
    steps: plan.steps.length,
    weight: state.weight / 100,
    shadow: state.shadow / 100,
    stable: arms[0]?.version,
    candidate: arms[1]?.version,
    author,
    created: new Date(createdMs).toISOString(),
    since: new Date(last?.wallMs ?? createdMs).toISOString(),
  }
}

/** By itself: the object as it was written, both arms, the verdicts, what comes next, what happened. */
function rolloutDetails(run: RolloutRun): Shown {
  const { spec, arms, notes } = run.record
  const report = run.report()
  const outcomes = new Map(run.outcomes().map(({ name, ended }) => [name, ended]))
  return {
    ...rolloutSummary(run),
    next: nextText(run),
    arms: arms.map((arm) => ({
      ...arm,
      ...armFigures(run, arm.arm === 'stable' ? 'stable' : 'candidate'),
      ended: outcomes.get(arm.arm) ?? {},
    })),
    metrics: report.metrics,
    ...(run.queryProblems.size === 0 ? {} : { problems: Object.fromEntries(run.queryProblems) }),
    shadow_copies: report.shadow_copies,
    history: report.history,
    notes,
    spec,
  }
}

function rolloutFigures(run: RolloutRun): RolloutFigures {
  const { name, model, state } = run.record
  const evidence = run.judgement.verdicts.flatMap(({ metric, logEvidence }): [string, number][] =>
    logEvidence === null ? [] : [[metric, logEvidence / Math.LN10]],
  )
  return {
    rollout: name,
    model,
    state: state.phase,
    isLive: run.isLive,
    weight: state.weight / 100,
    evidence: new Map(evidence),
    arms: run.outcomes(),
    shadow: run.report().shadow_copies,
  }
}

function armFigures(run: RolloutRun, arm: 'stable' | 'candidate'): Shown {
  const shown: Record<string, unknown> = {}
  for (const { metric, [arm]: figure } of run.judgement.verdicts) {
    if (figure === null) continue
    const { value, count, interval } = figure
    if (metric === 'errors') shown['requests'] = count
    const name = metric === 'errors' ? 'errors' : /^latency_(p[0-9.]+)$/.exec(metric)?.[1]
    if (name === undefined) continue
    const ends = interval === null ? [] : [interval.low, interval.high]
    shown[name] = { value, interval: ends.map((end) => (Number.isFinite(end) ? end : null)) }
  }
  return shown
}

function nextText({ record: { state, plan }, isLive }: RolloutRun): string {
  if (!isLive) return ''
  if (state.phase === 'PENDING') return 'the candidate is loaded'
  if (state.phase === 'PROMOTING') return 'the candidate becomes the default version'
  if (state.pauseReason === 'approval') return 'somebody approves'
  if (state.phase === 'PAUSED') return 'somebody resumes'
  const following = plan.steps[state.step + 1]
  if (following === undefined) return 'the candidate becomes the default version'
  return following.kind === 'weight' ? `${following.weight / 100} % of requests` : following.kind
}
