// --report: one page with charts, which loads nothing from other places.

import { escapeText, htmlPage } from './html-page.ts'
import { lineChart, type ChartPoint } from './svg-chart.ts'
import { bucketStartUs } from './load/latency-histogram.ts'
import type { ModelUnderTest } from './model-under-test.ts'
import type { PerfOptions } from './perf-options.ts'
import type { LevelResult } from './profiler.ts'
import { sixDigits } from './report-text.ts'
import { averageUs, type ServerWindow } from './server-statistics.ts'

export function reportHtml(
  results: readonly LevelResult[],
  options: PerfOptions,
  model: ModelUnderTest,
  facts: { readonly command: string; readonly date: string; readonly version: string; readonly machine: string },
): string {
  const isRate = options.load.kind === 'rate' || options.load.kind === 'intervals'
  const loadName = isRate ? 'requests per second' : 'requests at once'
  const span = latencySpan(results)
  const charts = [curveChart(results, loadName), ...results.map((result) => histogramChart(result, loadName, span))]
  const batches = batchChart(results)
  return htmlPage(
    `${model.name}: measured by galatea perf`,
    `<h1>${escapeText(model.name)}${model.version === '' ? '' : `, version ${escapeText(model.version)}`}</h1>
<p><code>${escapeText(facts.command)}</code></p>
<p>${escapeText(facts.date)}, ${escapeText(options.protocol)} at ${escapeText(options.url)}, batch size ${options.batchSize}, galatea ${escapeText(facts.version)},
measured from a machine with ${escapeText(facts.machine)}.
${isRate ? 'Open loop: latencies count from the time a request was due, so a server that falls behind shows.' : 'Closed loop: each request waits for the one before it.'}</p>
${resultTable(results, isRate)}
${[...charts, batches].filter((chart) => chart !== '').join('\n')}`,
  )
}

function resultTable(results: readonly LevelResult[], isRate: boolean): string {
  const head = [
    isRate ? 'rate' : 'concurrency',
    'infer/s',
    'average',
    'p50',
    'p90',
    'p95',
    'p99',
    'failed',
    ...serverHead(results),
  ]
  const rows = results.map(({ load, client, server, isStable }) => [
    sixDigits(load) + (isStable ? '' : ' (not stable)'),
    sixDigits(client.inferPerSecond),
    ...[client.averageUs, ...[50, 90, 95, 99].map((p) => client.percentilesUs.get(p) ?? 0)].map(milliseconds),
    String(client.failedCount),
    ...serverCells(results, server),
  ])
  const row = (cells: readonly string[], tag: string): string =>
    `<tr>${cells.map((cell) => `<${tag}>${escapeText(cell)}</${tag}>`).join('')}</tr>`
  return `<table>${row(head, 'th')}${rows.map((cells) => row(cells, 'td')).join('')}</table>`
}

/** Where the time of a request goes in the server, where the server tells. */
const serverHead = (results: readonly LevelResult[]): string[] =>
  results.some(({ server }) => server !== null) ? ['server: queue', 'server: compute'] : []

function serverCells(results: readonly LevelResult[], server: ServerWindow | null): string[] {
  if (serverHead(results).length === 0) return []
  if (server === null) return ['', '']
  const { computeInput, computeInfer, computeOutput } = server
  const compute = averageUs(computeInput) + averageUs(computeInfer) + averageUs(computeOutput)
  return [averageUs(server.queue), compute].map(milliseconds)
}

const milliseconds = (us: number): string => `${sixDigits(Number((us / 1000).toPrecision(4)))} ms`

function curveChart(results: readonly LevelResult[], loadName: string): string {
  if (results.length < 2) return ''
  const sorted = results.toSorted((a, b) => a.load - b.load)
  const line = (of: (result: LevelResult) => number): ChartPoint[] =>
    sorted.map((result) => [result.client.inferPerSecond, of(result) / 1000, sixDigits(result.load)])
  return lineChart({
    title: 'Throughput and latency',
    x: { label: `infer/s; the figures at the points are ${loadName}` },
    y: { label: 'latency, ms' },
    series: [
      { name: 'average', points: line(({ client }) => client.averageUs) },
      { name: 'p50', points: line(({ client }) => client.percentilesUs.get(50) ?? 0) },
      { name: 'p99', points: line(({ client }) => client.percentilesUs.get(99) ?? 0) },
    ],
  })
}

/** The shortest and the longest latency of all loads, so that their histograms have one axis. */
function latencySpan(results: readonly LevelResult[]): { readonly first: number; readonly last: number } | null {
  const used = results.flatMap(({ client }) =>
    [...client.histogram.entries()].filter(([, count]) => count > 0).map(([bucket]) => bucket),
  )
  return used.length === 0 ? null : { first: Math.min(...used), last: Math.max(...used) }
}

/** Steps of equal factors, about thirty of them between the shortest and the longest. */
function histogramChart({ load, client }: LevelResult, loadName: string, span: ReturnType<typeof latencySpan>): string {
  const { histogram } = client
  if (span === null || client.requestCount === 0) return ''
  const { first, last } = span
  const points: ChartPoint[] = []
  const width = Math.max(1, Math.ceil((last - first + 1) / 30))
  for (let from = first; from <= last; from += width) {
    let count = 0
    for (let bucket = from; bucket < from + width; bucket++) count += histogram[bucket] ?? 0
    points.push([Math.max(0.001, bucketStartUs(from) / 1000), count])
  }
  return lineChart({
    title: `Latencies at ${sixDigits(load)} ${load === 1 ? loadName.replace('requests', 'request') : loadName}`,
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
