// --report: one page with charts, which loads nothing from other places.

import { escapeText, htmlPage } from './html-page.ts'
import { lineChart, type ChartPoint } from './svg-chart.ts'
import { bucketStartUs } from './load/latency-histogram.ts'
import type { ModelUnderTest } from './model-under-test.ts'
import type { PerfOptions } from './perf-options.ts'
import type { LevelResult } from './profiler.ts'
import { sixDigits } from './report-text.ts'
import type { ServerWindow } from './server-statistics.ts'

export function reportHtml(
  results: readonly LevelResult[],
  options: PerfOptions,
  model: ModelUnderTest,
  facts: { readonly command: string; readonly date: string; readonly version: string },
): string {
  const isRate = options.load.kind === 'rate' || options.load.kind === 'intervals'
  const loadName = isRate ? 'requests per second' : 'requests at once'
  const charts = [curveChart(results, loadName), ...results.map((result) => histogramChart(result, loadName))]
  const batches = batchChart(results)
  return htmlPage(
    `${model.name}: measured by galatea perf`,
    `<h1>${escapeText(model.name)}${model.version === '' ? '' : `, version ${escapeText(model.version)}`}</h1>
<p><code>${escapeText(facts.command)}</code></p>
<p>${escapeText(facts.date)}, ${escapeText(options.protocol)} at ${escapeText(options.url)}, batch size ${options.batchSize}, galatea ${escapeText(facts.version)}.
${isRate ? 'Open loop: latencies count from the time a request was due, so a server that falls behind shows.' : 'Closed loop: each request waits for the one before it.'}</p>
${resultTable(results, isRate)}
${[...charts, batches].filter((chart) => chart !== '').join('\n')}`,
  )
}

function resultTable(results: readonly LevelResult[], isRate: boolean): string {
  const head = [isRate ? 'rate' : 'concurrency', 'infer/s', 'average', 'p50', 'p90', 'p95', 'p99', 'failed']
  const rows = results.map(({ load, client, isStable }) => [
    sixDigits(load) + (isStable ? '' : ' (not stable)'),
    sixDigits(client.inferPerSecond),
    ...[client.averageUs, ...[50, 90, 95, 99].map((p) => client.percentilesUs.get(p) ?? 0)].map(milliseconds),
    String(client.failedCount),
  ])
  const row = (cells: readonly string[], tag: string): string =>
    `<tr>${cells.map((cell) => `<${tag}>${escapeText(cell)}</${tag}>`).join('')}</tr>`
  return `<table>${row(head, 'th')}${rows.map((cells) => row(cells, 'td')).join('')}</table>`
}

const milliseconds = (us: number): string => `${sixDigits(Number((us / 1000).toPrecision(4)))} ms`

function curveChart(results: readonly LevelResult[], loadName: string): string {
  if (results.length < 2) return ''
  const sorted = results.toSorted((a, b) => a.load - b.load)
  const line = (of: (result: LevelResult) => number): ChartPoint[] =>
    sorted.map((result) => [result.client.inferPerSecond, of(result) / 1000])
  return lineChart({
    title: 'Throughput and latency',
    x: { label: `infer/s, at ${loadWords(sorted)} ${loadName}` },
    y: { label: 'latency, ms' },
    series: [
      { name: 'average', points: line(({ client }) => client.averageUs) },
      { name: 'p50', points: line(({ client }) => client.percentilesUs.get(50) ?? 0) },
      { name: 'p99', points: line(({ client }) => client.percentilesUs.get(99) ?? 0) },
    ],
  })
}

const loadWords = (sorted: readonly LevelResult[]): string => {
  const loads = sorted.map(({ load }) => sixDigits(load))
  return loads.length <= 10 ? loads.join(', ') : `${loads[0]} to ${loads.at(-1)}`
}

/** Steps of equal factors, about thirty of them between the shortest and the longest. */
function histogramChart({ load, client }: LevelResult, loadName: string): string {
  const { histogram } = client
  const points: ChartPoint[] = []
  let first = -1
  let last = -1
  for (const [bucket, count] of histogram.entries()) {
    if (count === 0) continue
    if (first < 0) first = bucket
    last = bucket
  }
  if (first < 0) return ''
  const width = Math.max(1, Math.ceil((last - first + 1) / 30))
  for (let from = first; from <= last; from += width) {
    let count = 0
    for (let bucket = from; bucket < from + width; bucket++) count += histogram[bucket] ?? 0
    points.push([Math.max(0.001, bucketStartUs(from) / 1000), count])
  }
  return lineChart({
    title: `Latencies at ${sixDigits(load)} ${loadName}`,
    x: { label: 'latency, ms', isLogarithmic: true },
    y: { label: 'requests' },
    series: [{ name: `${client.requestCount} requests`, points }],
  })
}

/** The executions of the server in each window, one load after another. */
function batchChart(results: readonly LevelResult[]): string {
  const windows = results.flatMap((result) => result.windows.map(({ server }) => server))
  const line = (of: (server: ServerWindow) => number): ChartPoint[] =>
    windows.flatMap((server, at): ChartPoint[] =>
      server === null || server.executionCount === 0 ? [] : [[at + 1, of(server)]],
    )
  const average = line(({ inferenceCount, executionCount }) => inferenceCount / executionCount)
  if (average.length === 0) return ''
  return lineChart({
    title: 'Batch sizes over time',
    x: { label: 'window, of all loads in turn' },
    y: { label: 'rows per execution' },
    series: [
      { name: 'average', points: average },
      { name: 'largest', points: line(({ batches }) => Math.max(0, ...batches.keys())) },
    ],
  })
}
