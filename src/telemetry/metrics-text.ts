// What the two text formats of metrics have in common: the page is written once, in either of them.

import type { BucketExemplars } from './bucket-exemplars.ts'

export type MetricType = 'counter' | 'gauge' | 'histogram' | 'summary'
export type Labels = readonly (readonly [name: string, value: string])[]

/** Exemplars of a histogram's buckets, and the moment at which the page is written on both clocks. */
type ExemplarContext = {
  readonly exemplars: BucketExemplars
  readonly nowNs: number
  readonly wallMs: number
}

export interface MetricsText {
  readonly contentType: string
  /** What the page ends with. */
  readonly end: string
  familyHead(name: string, help: string, type: MetricType): string
  /** A number as a value, or as the label `quantile`. */
  valueText(value: number | bigint): string
  boundText(value: number): string
  /** The exemplar behind the count of a bucket; '' where the format has no exemplars. */
  exemplarText(bucket: number, context: ExemplarContext): string
}

/** `{a="1",b="2"}` without the braces, by name as prometheus-cpp sorts them. */
export const labelText = (labels: Labels): string =>
  labels
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}="${escapeText(value)}"`)
    .join(',')

/** Undefined where models have no namespaces; '' for one that came with a load request. */
export const namespaceLabel = (namespace: string | undefined): Labels =>
  namespace === undefined || namespace === '' ? [] : [['namespace', namespace]]

/** `labels` as `labelText` makes them. */
export const sampleLine = (text: MetricsText, name: string, labels: string, value: number | bigint): string =>
  labels === '' ? `${name} ${text.valueText(value)}\n` : `${name}{${labels}} ${text.valueText(value)}\n`

/** `counts` has one count per bound and one for values above all bounds; not cumulative. The bounds ascend. */
export function histogramLines(
  text: MetricsText,
  name: string,
  labels: string,
  histogram: {
    readonly bounds: readonly number[]
    readonly counts: readonly number[]
    readonly sum: number
    readonly exemplars?: ExemplarContext | null
  },
): string {
  const { bounds, counts, sum, exemplars = null } = histogram
  const before = labels === '' ? `${name}_bucket{le="` : `${name}_bucket{${labels},le="`
  const exemplar = (bucket: number): string => (exemplars === null ? '' : text.exemplarText(bucket, exemplars))
  let total = 0
  for (const count of counts) total += count
  let lines = `${sampleLine(text, `${name}_count`, labels, total)}${sampleLine(text, `${name}_sum`, labels, sum)}`
  let below = 0
  for (let i = 0; i < bounds.length; i++) {
    below += counts[i] ?? 0
    lines += `${before}${text.boundText(bounds[i] as number)}"} ${below}${exemplar(i)}\n`
  }
  return `${lines}${before}+Inf"} ${total}${exemplar(bounds.length)}\n`
}

export const escapeText = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"')
