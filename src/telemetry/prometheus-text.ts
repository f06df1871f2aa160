// Prometheus' text format, version 0.0.4.

export type MetricType = 'counter' | 'gauge' | 'histogram' | 'summary'
export type Labels = readonly (readonly [name: string, value: string])[]

/** `{a="1",b="2"}` without the braces, by name as prometheus-cpp sorts them. */
export const labelText = (labels: Labels): string =>
  labels
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}="${escapeLabel(value)}"`)
    .join(',')

export const familyHead = (name: string, help: string, type: MetricType): string =>
  `# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}\n# TYPE ${name} ${type}\n`

/** `labels` as `labelText` makes them. */
export const sampleLine = (name: string, labels: string, value: number | bigint): string =>
  labels === '' ? `${name} ${valueText(value)}\n` : `${name}{${labels}} ${valueText(value)}\n`

/** `counts` one per bound and one above, not cumulative; bounds ascend. */
export function histogramLines(
  name: string,
  labels: string,
  bounds: readonly number[],
  counts: readonly number[],
  sum: number,
): string {
  const before = labels === '' ? '' : `${labels},`
  let total = 0
  for (const count of counts) total += count
  let lines = `${sampleLine(`${name}_count`, labels, total)}${sampleLine(`${name}_sum`, labels, sum)}`
  let below = 0
  for (const [i, bound] of bounds.entries()) {
    below += counts[i] ?? 0
    lines += sampleLine(`${name}_bucket`, `${before}le="${valueText(bound)}"`, below)
  }
  return lines + sampleLine(`${name}_bucket`, `${before}le="+Inf"`, total)
}

function valueText(value: number | bigint): string {
  if (typeof value === 'bigint' || Number.isFinite(value)) return String(value)
  // As prometheus-cpp spells them.
  return Number.isNaN(value) ? 'Nan' : value > 0 ? '+Inf' : '-Inf'
}

const escapeLabel = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"')
