// --report: the search on one page, which loads nothing from other places.

import { escapeText, htmlPage } from '../perf/html-page.ts'
import { barChart, lineChart, type ChartPoint, type ChartSeries } from '../perf/svg-chart.ts'
import { isWithin, type MeasuredPoint, type TuneLimits, type TuneStep, type TuneVerdict } from './find-setting.ts'
import { keyOf, settingText } from './setting.ts'
import { tableText } from './tune-text.ts'

type PageFacts = {
  readonly model: string
  readonly command: string
  readonly date: string
  readonly version: string
  readonly percentile: number
  readonly diff: string
}

export function tunePage(
  points: readonly MeasuredPoint[],
  verdict: TuneVerdict,
  limits: TuneLimits,
  facts: PageFacts,
): string {
  const { model, command, date, version, percentile, diff } = facts
  const { best, confirmed, findings } = verdict
  const shown = confirmed ?? best
  return htmlPage(
    `${model}: tuned by galatea`,
    `<h1>${escapeText(model)}</h1>
<p><code>${escapeText(command)}</code><br>${escapeText(date)}, galatea ${escapeText(version)}</p>
<p><strong>${shown === null ? 'Nothing meets the limits.' : escapeText(settingText(shown.setting))}</strong></p>
<ul>${findings.map((finding) => `<li>${escapeText(finding)}</li>`).join('')}</ul>
${curveChart(points, verdict, limits, percentile)}
${stepChart(points, limits)}
${diff === '' ? '' : `<pre>${escapeText(diff)}</pre>`}
<pre>${escapeText(tableText(points, percentile, limits))}</pre>`,
  )
}

/** Latency against throughput: each setting is a line from few to many requests at once; a mark shows the knee. */
export function curveChart(
  points: readonly MeasuredPoint[],
  { best, confirmed }: TuneVerdict,
  limits: TuneLimits,
  percentile: number,
): string {
  // A point far beyond the limit would leave no room for the other points.
  const good = points.filter(
    ({ failure, step, latencyMs }) => failure === '' && step !== 'confirm' && latencyMs <= limits.latencyMs * 2,
  )
  if (good.length === 0) return ''
  const series = curvesOf(good, best)
  // The mark is on the curve of the best setting, unless only less load was confirmed.
  const knee = confirmed !== null && confirmed.concurrency !== best?.concurrency ? confirmed : best
  if (knee !== null) {
    series.push({ name: 'the knee', points: [[knee.inferPerSecond, 0], place(knee)], isDashed: true })
  }
  if (confirmed !== null) series.push({ name: 'confirmed', points: [place(confirmed)] })
  const widest = Math.max(...[...good, ...(confirmed === null ? [] : [confirmed])].map((point) => point.inferPerSecond))
  if (Number.isFinite(limits.latencyMs)) {
    series.push({ name: 'limit', points: [[0, limits.latencyMs], [widest, limits.latencyMs]], isDashed: true }) // prettier-ignore
  }
  const about = best === null ? '' : `best: ${settingText(best.setting)}; `
  return lineChart({
    title: 'Latency and throughput',
    x: { label: 'infer/s' },
    y: { label: `p${percentile} latency, ms` },
    series,
    note: `${about}each line: one setting, from few requests at once to many`,
  })
}

/** The curves to compare: the present setting, the baseline and the best. Equal settings give one curve. */
function curvesOf(good: readonly MeasuredPoint[], best: MeasuredPoint | null): ChartSeries[] {
  const settingIn = (step: TuneStep): MeasuredPoint | null => good.find((point) => point.step === step) ?? null
  const wanted = [['best', best], ['as it is', settingIn('as it is')], ['baseline', settingIn('baseline')]] as const // prettier-ignore
  const series = new Map<string, ChartSeries>()
  for (const [name, of] of wanted) {
    if (of === null || series.has(keyOf(of.setting))) continue
    const curve = good.filter((point) => keyOf(point.setting) === keyOf(of.setting))
    series.set(keyOf(of.setting), {
      name,
      points: curve.toSorted((a, b) => a.concurrency - b.concurrency).map(place),
    })
  }
  return [...series.values()]
}

const place = ({ inferPerSecond, latencyMs }: MeasuredPoint): ChartPoint => [inferPerSecond, latencyMs]
const mostOf = (curve: readonly MeasuredPoint[]): number => Math.max(...curve.map((point) => point.inferPerSecond))

/** The gain of each step. */
function stepChart(points: readonly MeasuredPoint[], limits: TuneLimits): string {
  const steps = (['as it is', 'baseline', 'batching', 'delay', 'instances', 'confirm'] as const satisfies TuneStep[])
    .map((step) => ({
      step,
      most: mostOf(points.filter((point) => point.step === step && isWithin(point, limits))),
    }))
    .filter(({ most }) => Number.isFinite(most))
  if (steps.length < 2) return ''
  return barChart({
    title: 'The most that each step reached within the limits',
    y: { label: 'infer/s' },
    categories: steps.map(({ step }) => step),
    series: [{ name: 'infer/s', values: steps.map(({ most }) => Math.round(most)) }],
  })
}
