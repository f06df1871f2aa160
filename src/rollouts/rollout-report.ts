// What people and programs see of a rollout: where it stands, both arms with intervals, the verdicts, what happened when.

import type { Judgement } from './judge/judge-rollout.ts'
import type { MetricVerdict } from './judge/judge-metric.ts'
import type { Interval } from './judge/share-interval.ts'
import type { RolloutPlan } from './rollout-plan.ts'
import type { RolloutState } from './rollout-state.ts'
import type { ShadowFigures } from './shadow-record.ts'

/** Ends of an interval that are not known yet are null. */
type ShownFigure = { readonly value: number; readonly low: number | null; readonly high: number | null; readonly count: number } // prettier-ignore

type ShownMetric = {
  readonly metric: string
  readonly verdict: string
  readonly dry_run: boolean
  /** log₁₀ e and log₁₀ of what is needed; null where the metric has no e-value. */
  readonly evidence: number | null
  readonly needed: number | null
  readonly candidate: ShownFigure
  readonly stable: ShownFigure | null
  readonly why: string
}

/** As JSON shows it. */
export type RolloutReport = {
  readonly name: string
  readonly model: string
  readonly state: string
  readonly reason: string
  readonly author: string
  /** From 1; 0 before the first step. */
  readonly step: number
  readonly steps: number
  /** Per cent. */
  readonly weight: number
  readonly shadow: number
  readonly candidate: string
  readonly stable: string
  readonly metrics: readonly ShownMetric[]
  readonly shadow_copies: ShadowFigures | null
  readonly history: readonly { readonly at: string; readonly state: string; readonly step: number; readonly by: string; readonly why: string }[] // prettier-ignore
  readonly notes: readonly string[]
}

type ReportFacts = {
  readonly plan: RolloutPlan
  readonly state: RolloutState
  readonly judgement: Judgement
  readonly shadow: ShadowFigures | null
  /** Version numbers. */
  readonly versions: { readonly candidate: string; readonly stable: string }
  readonly notes: readonly string[]
}

export function reportRollout({ plan, state, judgement, shadow, versions, notes }: ReportFacts): RolloutReport {
  const dryRuns = new Set(plan.judge.metrics.filter(({ isDryRun }) => isDryRun).map(({ name }) => name))
  return {
    name: state.name,
    model: state.model,
    state: state.phase,
    reason: state.why,
    author: state.author,
    step: state.step + 1,
    steps: plan.steps.length,
    weight: state.weight / 100,
    shadow: state.shadow / 100,
    ...versions,
    metrics: judgement.verdicts.map((verdict) => shownMetric(verdict, dryRuns.has(verdict.metric))),
    shadow_copies: shadow,
    history: state.history.map(({ wallMs, phase, step, by, why }) => ({
      at: new Date(wallMs).toISOString(),
      state: phase,
      step: step + 1,
      by,
      why,
    })),
    notes,
  }
}

function shownMetric(verdict: MetricVerdict, isDryRun: boolean): ShownMetric {
  const { logEvidence } = verdict
  return {
    metric: verdict.metric,
    verdict: verdict.verdict,
    dry_run: isDryRun,
    evidence: logEvidence === null ? null : logEvidence / Math.LN10,
    needed: logEvidence === null ? null : -Math.log10(verdict.alpha),
    candidate: shownFigure(verdict.candidate),
    stable: verdict.stable && shownFigure(verdict.stable),
    why: verdict.why,
  }
}

function shownFigure(figure: {
  readonly value: number
  readonly interval: Interval | null
  readonly count: number
}): ShownFigure {
  const end = (value: number | undefined): number | null =>
    value !== undefined && Number.isFinite(value) ? value : null
  return { value: figure.value, low: end(figure.interval?.low), high: end(figure.interval?.high), count: figure.count }
}

/** For people: a page of Markdown. Names and reasons come from others, so what Markdown and HTML would read is made plain. */
export function reportMarkdown(report: RolloutReport): string {
  const lines = [
    `# Rollout ${plain(report.name)}: ${report.state}`,
    '',
    `Model ${plain(report.model)}, version ${plain(report.stable)} → ${plain(report.candidate)}. ` +
      `Step ${report.step} of ${report.steps}, weight ${report.weight} %. ${plain(report.reason)}`,
    '',
    '| metric | verdict | candidate | stable | why |',
    '|---|---|---|---|---|',
    ...report.metrics.map(
      ({ metric, verdict, dry_run: isDryRun, candidate, stable, why }) =>
        `| ${plain(metric)} | ${verdict}${isDryRun ? ' (dry run)' : ''} | ${figureText(candidate)} | ${stable === null ? '' : figureText(stable)} | ${plain(why)} |`,
    ),
  ]
  const copies = report.shadow_copies
  if (copies !== null) lines.push('', `Shadow: ${copies.compared} pairs compared, ${copies.disagreed} differ.`)
  lines.push('', '| time | state | step | by | why |', '|---|---|---|---|---|')
  for (const { at, state, step, by, why } of report.history) {
    lines.push(`| ${at} | ${state} | ${step} | ${plain(by)} | ${plain(why)} |`)
  }
  if (report.notes.length > 0) lines.push('', '## Notes', '', ...report.notes.map((note) => `- ${plain(note)}`))
  return `${lines.join('\n')}\n`
}

export const short = (value: number): string => String(Number(value.toPrecision(3)))

function figureText({ value, low, high, count }: ShownFigure): string {
  const interval = low === null && high === null ? '' : ` (${low === null ? '?' : short(low)} to ${high === null ? '?' : short(high)})` // prettier-ignore
  return `${short(value)}${interval}, ${count} values`
}

export const plain = (text: string): string =>
  text.replaceAll(/[\r\n]+/g, ' ').replaceAll(/[\\`*_[\]<>|#]/g, (mark) => `\\${mark}`)
