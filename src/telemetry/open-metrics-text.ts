// OpenMetrics 1.0, which Prometheus asks for by itself. Names stay those of the other format: a counter whose name does not
// end in `_total` may not be called one here, and giving it that ending would break every query written for Triton, so
// it is of type unknown.

import { escapeText, type MetricsText } from './metrics-text.ts'

const valueText = (value: number | bigint): string => {
  if (typeof value === 'bigint' || Number.isFinite(value)) return String(value)
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}

/** Bounds are floating point and look like it: `1.0`. */
const boundText = (value: number): string => (Number.isInteger(value) ? `${value}.0` : valueText(value))

/** Units that a name may end in; those of Triton's that are not base units (`_us`, `_ms`) are part of the name alone. */
const unitPattern = /_(seconds|bytes)$/

export const openMetricsText: MetricsText = {
  contentType: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
  end: '# EOF\n',
  familyHead: (name, help, type) => {
    const isCounter = type === 'counter' && name.endsWith('_total')
    const family = isCounter ? name.slice(0, -'_total'.length) : name
    const kind = type === 'counter' && !isCounter ? 'unknown' : type
    const unit = unitPattern.exec(family)?.[1]
    const unitLine = unit === undefined ? '' : `# UNIT ${family} ${unit}\n`
    return `# TYPE ${family} ${kind}\n${unitLine}# HELP ${family} ${escapeText(help)}\n`
  },
  valueText,
  boundText,
  exemplarText: (bucket, { exemplars, nowNs, wallMs }) => {
    const traceId = exemplars.traceIds[bucket]
    if (traceId === undefined || traceId === '') return ''
    const seconds = (exemplars.durationsNs[bucket] as number) / 1e9
    const atSeconds = (wallMs - (nowNs - (exemplars.timesNs[bucket] as number)) / 1e6) / 1e3
    return ` # {trace_id="${escapeText(traceId)}"} ${valueText(seconds)} ${atSeconds.toFixed(3)}`
  },
}
