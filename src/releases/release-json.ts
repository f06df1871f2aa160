// What the API shows of a rollout.

import type { RolloutFigures } from '../telemetry/rollout-families.ts'
import type { RolloutRun } from './rollout-run.ts'

type Shown = Readonly<Record<string, unknown>>

/** In lists. */
export function rolloutSummary(run: RolloutRun): Shown {
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
export function rolloutDetails(run: RolloutRun): Shown {
  const { spec, arms, notes } = run.record
  const report = run.report()
  return {
    ...rolloutSummary(run),
    next: nextText(run),
    arms: arms.map((arm) => ({ ...arm, ...armFigures(run, arm.arm === 'stable' ? 'stable' : 'candidate') })),
    metrics: report.metrics,
    ...(run.queryProblems.size === 0 ? {} : { problems: Object.fromEntries(run.queryProblems) }),
    shadow_copies: report.shadow_copies,
    history: report.history,
    notes,
    spec,
  }
}

/** For metrics. */
export function rolloutFigures(run: RolloutRun): RolloutFigures {
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
  if (state.pauseReason === 'approval') return 'somebody approves'
  if (state.phase === 'PAUSED') return 'somebody resumes'
  const following = plan.steps[state.step + 1]
  if (following === undefined) return 'the candidate becomes the default version'
  return following.kind === 'weight' ? `${following.weight / 100} % of requests` : following.kind
}
