// The suite's results as files: JSON, a page in Markdown, charts.

import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { barChart, lineChart } from '../src/perf/svg-chart.ts'
import { findCase, medianFigure, runsOf, spreadOf, type CaseResult, type SuiteResults } from './suite-results.ts'
import { galateaName, tritonName } from './suite-subjects.ts'
import { targetRows, type TargetRow, type Verdict } from './suite-targets.ts'
import { transports, workloads, type Transport } from './suite-workloads.ts'

const transportText: Readonly<Record<Transport, string>> = {
  binary: 'HTTP binary',
  json: 'HTTP JSON',
  grpc: 'gRPC',
  'shared-memory': 'shared memory',
}
const verdictText: Readonly<Record<Verdict, string>> = {
  goal: 'met, goal reached',
  met: 'met',
  missed: '**missed**',
  'not measured': 'not measured',
}

/** Resolves with the names of the files. */
export function writeSuiteReport(results: SuiteResults, folder: string): string[] {
  mkdirSync(folder, { recursive: true })
  const charts = chartsOf(results)
  const files: [name: string, text: string][] = [
    ['suite.json', `${JSON.stringify(results, null, 1)}\n`],
    ['suite.md', markdownOf(results, charts.map(([name]) => name))], // prettier-ignore
    ...charts,
  ]
  for (const [name, text] of files) writeFileSync(path.join(folder, name), text)
  return files.map(([name]) => path.join(folder, name))
}

function markdownOf(results: SuiteResults, charts: readonly string[]): string {
  const rows = targetRows(results)
  return [
    '# Benchmark suite',
    '',
    `${results.day}, ${results.machine}. ${results.conditions}.`,
    '',
    'Made by `npm run bench -- suite` ([what it measures and how](../../docs/internals/benchmarks.md)). Medians; ± is half the',
    'distance between the best and the worst round. CPU is user and system time of all processes of the server, per inference.',
    ...(results.isBusyMachine
      ? ['', '**The load average was high when the run began: other work may have disturbed these figures.**']
      : []),
    ...(results.hasTriton
      ? []
      : ['', 'No Triton ran beside: ratios are to its recorded figures, from another machine.']),
    '',
    '## Targets',
    '',
    '| what | measured | floor | goal | | behind it |',
    '|---|---|---|---|---|---|',
    ...rows.map(targetLine),
    '',
    `${countOf(rows, 'goal')} reach their goal, ${countOf(rows, 'met')} more their floor, ${countOf(rows, 'missed')} are missed, ${countOf(rows, 'not measured')} were not measured.`,
    '',
    ...charts.flatMap((name) => [`![${name.replace('.svg', '')}](${name})`, '']),
    ...workloads.flatMap((workload) => workloadLines(results, workload.name, workload.summary)),
    ...openLines(results),
    ...seriesLines(results),
    ...(results.notes.length === 0 ? [] : ['## Notes', '', ...results.notes.map((note) => `- ${note}`), '']),
  ].join('\n')
}

const countOf = (rows: readonly TargetRow[], verdict: Verdict): number =>
  rows.filter((row) => row.verdict === verdict).length

const targetLine = ({ what, value, unit, floor, goal, isAtLeast, verdict, basis }: TargetRow): string => {
  const sign = isAtLeast ? '≥' : '≤'
  const number = Number.isNaN(value) ? '–' : `${value.toFixed(2)} ${unit}`
  return `| ${what} | ${number} | ${sign} ${floor} | ${sign} ${goal} | ${verdictText[verdict]} | ${basis} |`
}

function workloadLines(results: SuiteResults, name: string, summary: string): string[] {
  const closed = results.cases.filter(({ workload, load }) => workload === name && load.kind === 'closed')
  if (closed.length === 0) return []
  return [
    `## ${name}`,
    '',
    `${summary[0]?.toUpperCase()}${summary.slice(1)}.`,
    '',
    '| sent as | cores | at once | server | CPU µs | infer/s | p50 ms | p99 ms |',
    '|---|---|---|---|---|---|---|---|',
    ...closed.flatMap(caseLines),
    '',
  ]
}

function caseLines(result: CaseResult): string[] {
  const { transport, placing, load } = result
  const at = load.kind === 'closed' ? load.concurrency : `${Math.round(load.perSecond)}/s`
  return result.subjects.map(({ subject, runs }) => {
    const withSpread = (figure: 'cpuUs' | 'perSecond'): string =>
      `${medianFigure(result, subject, figure).toFixed(0)} ± ${Math.round(spreadOf(runs.map((run) => run[figure])) * 100)} %`
    const ms = (figure: 'p50Us' | 'p99Us'): string => (medianFigure(result, subject, figure) / 1000).toFixed(2)
    const cores = placing === 'pinned' ? 'one each' : 'all'
    return `| ${transportText[transport]} | ${cores} | ${at} | ${subject} | ${withSpread('cpuUs')} | ${withSpread('perSecond')} | ${ms('p50Us')} | ${ms('p99Us')} |`
  })
}

function openLines(results: SuiteResults): string[] {
  const open = results.cases.filter(({ load }) => load.kind === 'open')
  if (open.length === 0) return []
  return [
    '## Open loop',
    '',
    'Requests arrive by chance (Poisson) at half of what the slowest of the servers can do, whether or not answers come; latency counts',
    'from when a request was due.',
    '',
    '| workload | sent as | cores | rate | server | CPU µs | infer/s | p50 ms | p99 ms | refused |',
    '|---|---|---|---|---|---|---|---|---|---|',
    ...open.flatMap((result) =>
      caseLines(result).map((line, at) => {
        const { subject } = result.subjects[at] ?? { subject: '' }
        return `| ${result.workload} ${line} ${medianFigure(result, subject, 'failed')} |`
      }),
    ),
    '',
  ]
}

function seriesLines({ series }: SuiteResults): string[] {
  if (series.length === 0) return []
  return [
    '## Start and memory',
    '',
    '| what | server | median | rounds |',
    '|---|---|---|---|',
    ...series.map(({ what, subject, values }) => {
      const median = values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN
      return `| ${what} | ${subject} | ${median.toFixed(2)} | ${values.map((value) => value.toFixed(2)).join(' ')} |`
    }),
    '',
  ]
}

function chartsOf(results: SuiteResults): [name: string, text: string][] {
  const note = `${results.day}, ${results.machine}`
  const charts: [string, string][] = []
  for (const transport of ['binary', 'json', 'grpc'] as const) {
    const found = workloads
      .map(({ name }) => ({
        name,
        result: findCase(results, name, transport, 64) ?? findCase(results, name, transport, 16),
      }))
      .filter(({ result, name }) => result !== undefined && !name.startsWith('wide'))
    if (found.length === 0) continue
    const subjects = [galateaName, tritonName].filter((subject) =>
      found.some(({ result }) => runsOf(result, subject).length > 0),
    )
    charts.push([
      `cpu-${transport}.svg`,
      barChart({
        title: `CPU per inference over ${transportText[transport]}, 64 at once`,
        y: { label: 'microseconds' },
        categories: found.map(({ name }) => name),
        series: subjects.map((subject) => ({
          name: subject,
          values: found.map(({ result }) => Math.round(medianFigure(result, subject, 'cpuUs'))),
        })),
        note,
      }),
    ])
  }
  for (const { name } of workloads) {
    for (const [figure, label] of [
      ['perSecond', 'infer/s'],
      ['p99Us', 'p99, ms'],
    ] as const) {
      // prettier-ignore
      const series = transports
        .flatMap((transport) => [galateaName, tritonName].map((subject) => ({ transport, subject })))
        .map(({ transport, subject }) => ({
          name: `${subject === galateaName ? '' : 'Triton '}${transport}`,
          points: results.cases
            .filter((each) => each.workload === name && each.transport === transport && each.placing === 'pinned')
            .flatMap((each) => {
              const value = medianFigure(each, subject, figure) / (figure === 'p99Us' ? 1000 : 1)
              return each.load.kind === 'open' || Number.isNaN(value) ? [] : [[each.load.concurrency, value] as const]
            })
            .toSorted(([a], [b]) => a - b),
        }))
        .filter(({ points }) => points.length > 1)
      if (series.length === 0) continue
      const kind = figure === 'perSecond' ? 'throughput' : 'latency'
      const chart = { title: `${name}: ${kind}`, x: { label: 'requests at once' }, y: { label }, series, note }
      charts.push([`${kind}-${name}.svg`, lineChart(chart)])
    }
  }
  return charts
}
