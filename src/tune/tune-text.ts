// The printed report of `galatea tune`.

import { isWithin, peakOf, type MeasuredPoint, type TuneLimits, type TuneVerdict } from './find-setting.ts'
import { keyOf, settingText } from './setting.ts'

export function pointText(point: MeasuredPoint, elapsedMs: number, percentile: number, limits: TuneLimits): string {
  const { step, setting, concurrency } = point
  const head = `[${clock(elapsedMs)}] ${step.padEnd(9)} ${settingText(setting)}; ${concurrency} at once:`
  if (point.failure !== '') return `${head} failed: ${point.failure}\n`
  const over = isWithin(point, limits) ? '' : '  over the limit'
  return `${head} ${rate(point)} infer/s, p${percentile} ${milliseconds(point)} ms${over}\n`
}

export function tableText(points: readonly MeasuredPoint[], percentile: number, limits: TuneLimits): string {
  const head = ['step', 'batch', 'delay us', 'instances', 'at once', 'infer/s', `p${percentile} ms`, 'rows', 'MiB', '']
  const rows = points.map((point) => {
    const { step, setting, concurrency, averageBatch, memoryMib, failure } = point
    const figures =
      failure === ''
        ? [rate(point), milliseconds(point), averageBatch.toFixed(1), memoryMib?.toFixed(0) ?? '-']
        : ['-', '-', '-', '-']
    const remark = failure !== '' ? 'failed' : isWithin(point, limits) ? '' : 'over the limit'
    return [
      step,
      String(setting.maxBatchSize),
      setting.delayUs === null ? 'off' : String(setting.delayUs),
      String(setting.instances),
      String(concurrency),
      ...figures,
      remark,
    ]
  })
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => (row[column] ?? '').length)))
  const line = (row: readonly string[]): string =>
    row.map((cell, column) => (column === 0 || column === 9 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join('  ').trimEnd() // prettier-ignore
  return `${[head, ...rows].map(line).join('\n')}\n`
}

const barLength = 30

/** The best point of each setting within the limits, in the order of the search. A mark shows the best setting. */
export function barsText(points: readonly MeasuredPoint[], verdict: TuneVerdict, limits: TuneLimits): string {
  // Only points of the search: the other loads were measured for the best setting alone.
  const searched = points.filter(({ step }) => step !== 'confirm' && step !== 'less load')
  const curves = Map.groupBy(searched, (point) => keyOf(point.setting))
  const peaks = [...curves.values()].map((curve) => peakOf(curve, limits)).filter((peak) => peak !== null)
  if (verdict.best === null || peaks.length < 2) return ''
  const { best } = verdict
  const most = Math.max(...peaks.map((peak) => peak.inferPerSecond))
  const width = Math.max(...peaks.map((peak) => settingText(peak.setting).length))
  const lines = peaks.map((peak) => {
    const bar = '\u2588'.repeat(Math.max(1, Math.round((peak.inferPerSecond / most) * barLength)))
    const failed = curves.get(keyOf(peak.setting))?.find(({ failure }) => failure !== '')
    const remark = failed === undefined ? '' : `  fails with ${failed.concurrency} at once`
    const mark = keyOf(peak.setting) === keyOf(best.setting) ? '  <- the knee' : remark
    return `${settingText(peak.setting).padEnd(width)}  ${bar} ${rate(peak)} infer/s${mark}`
  })
  return `${lines.join('\n')}\n`
}

export function verdictText({ best, asItIs, confirmed, findings, isTimeUp }: TuneVerdict, percentile: number): string {
  const lines = findings.map((finding) => `- ${finding}`)
  if (isTimeUp) lines.push('- the time is up: the search did not come to its end (--minutes)')
  if (best === null) return `${lines.join('\n')}\n`
  const shown = confirmed ?? best
  lines.push('', `Best: ${settingText(shown.setting)}`)
  lines.push(
    `  ${rate(shown)} infer/s, p${percentile} ${milliseconds(shown)} ms with ${shown.concurrency} at once${confirmed === null ? ', not confirmed' : ''}`,
  )
  if (asItIs !== null && keyOf(asItIs.setting) === keyOf(shown.setting)) lines.push('  as it is already')
  else if (asItIs !== null) {
    const gain = shown.inferPerSecond / asItIs.inferPerSecond
    lines.push(`  as it is: ${rate(asItIs)} infer/s, p${percentile} ${milliseconds(asItIs)} ms with ${asItIs.concurrency} at once, the better of its measurements: ${gain.toFixed(2)} times that`) // prettier-ignore
  }
  return `${lines.join('\n')}\n`
}

const rate = ({ inferPerSecond }: MeasuredPoint): string =>
  inferPerSecond < 100 ? inferPerSecond.toFixed(1) : String(Math.round(inferPerSecond))

const milliseconds = ({ latencyMs }: MeasuredPoint): string => latencyMs.toFixed(latencyMs < 10 ? 2 : 1)

export function clock(ms: number): string {
  const seconds = Math.floor(ms / 1000)
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}
