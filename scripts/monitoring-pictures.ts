// Draws the pictures of docs/guide/monitoring.md: a real server under a load that changes, watched by a real Prometheus,
// and the queries of the Grafana dashboard asked of it. Run by hand: `npx node scripts/monitoring-pictures.ts`.

import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { lineChart, type ChartSeries } from '../src/perf/svg-chart.ts'
import { startObservedServer, type ObservedServer } from '../test/e2e/observed-server.ts'
import { observabilityFolder, PrometheusProcess, type Series } from '../test/e2e/prometheus-process.ts'
import { projectRoot } from '../test/e2e/server-process.ts'

const folder = path.join(projectRoot, 'docs/guide/images')

type Panel = { title: string; targets?: { expr: string; legendFormat: string }[] }

/** Seconds, clients at once, and whether one request in five fails. */
const phases: readonly (readonly [seconds: number, clients: number, fails: boolean])[] = [
  [10, 1, false],
  [10, 8, false],
  [8, 8, true],
  [10, 32, false],
  [8, 2, false],
]

const pictures: readonly (readonly [file: string, title: string, unit: string, scale: number])[] = [
  ['monitoring-requests', 'Requests per second, by model', 'requests per second', 1],
  ['monitoring-failures', 'Failures per second, by reason', 'failures per second', 1],
  ['monitoring-latency', 'Latency', 'milliseconds', 1000],
  ['monitoring-utilisation', 'Utilisation', 'share of the time', 1],
]

async function load(observed: ObservedServer): Promise<void> {
  for (const [seconds, clients, fails] of phases) {
    const endMs = performance.now() + seconds * 1000
    const client = async (): Promise<void> => {
      for (let i = 0; performance.now() < endMs; i++) await observed.send(fails && i % 5 === 0 ? -1 : i % 50)
    }
    await Promise.all(Array.from({ length: clients }, client))
  }
}

const nameOf = (legend: string, metric: Series['metric']): string =>
  legend.replaceAll(/\{\{(\w+)\}\}/g, (_, label: string) => metric[label] ?? '').trim()

async function seriesOf(
  prometheus: PrometheusProcess,
  panel: Panel,
  [startMs, endMs]: readonly [number, number],
  scale: number,
): Promise<ChartSeries[]> {
  const all: ChartSeries[] = []
  for (const { expr, legendFormat } of panel.targets ?? []) {
    const expression = expr.replaceAll(/\$(instance|model)\b/g, '.*').replaceAll('$__rate_interval', '4s')
    for (const { metric, points } of await prometheus.queryRange(expression, startMs, endMs, 1)) {
      const drawn = points
        .filter(([, value]) => Number.isFinite(value))
        .map(([at, value]) => [at - startMs / 1000, value * scale] as const)
      if (drawn.length > 0) all.push({ name: nameOf(legendFormat, metric), points: drawn })
    }
  }
  // Of the percentiles one is enough for a picture.
  return all.filter(({ name }) => !/ p(50|95)$/.test(name))
}

const text = await readFile(path.join(observabilityFolder, 'grafana/dashboards/galatea.json'), 'utf8')
const { panels } = JSON.parse(text) as { panels: Panel[] }
await mkdir(folder, { recursive: true })
{
  await using observed = await startObservedServer()
  await using prometheus = await PrometheusProcess.start(observed.metricsAddress)
  const startMs = Date.now() + 3000
  await load(observed)
  const range = [startMs, Date.now()] as const
  for (const [file, title, unit, scale] of pictures) {
    const panel = panels.find((one) => one.title === title)
    if (panel === undefined) throw new Error(`the dashboard has no panel '${title}'`)
    const series = await seriesOf(prometheus, panel, range, scale)
    const note = 'The queries of the dashboard, asked of a Prometheus that watched a server for 45 seconds.'
    const chart = lineChart({ title, x: { label: 'seconds' }, y: { label: unit }, series, note })
    await writeFile(path.join(folder, `${file}.svg`), chart)
    process.stdout.write(`${file}.svg: ${series.map(({ name }) => name).join(', ')}\n`)
  }
}
