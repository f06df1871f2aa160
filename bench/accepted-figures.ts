// The figures that were last accepted, with the machine they were measured on: bench/results.json, and the tables made
// from it in docs/internals/benchmarks.md.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, totalmem, type } from 'node:os'
import path from 'node:path'
import { isMet, type BenchSettings, type Figure } from './bench.ts'
import { pinningText } from './pinning.ts'

type Accepted = {
  readonly machine: string
  readonly conditions: string
  /** ISO day. */
  readonly day: string
  readonly figures: readonly Figure[]
}

const resultsFile = path.join(import.meta.dirname, 'results.json')
const docsFile = path.join(import.meta.dirname, '../docs/internals/benchmarks.md')
const [begin, end] = ['<!-- accepted figures: begin -->', '<!-- accepted figures: end -->']

export const acceptFigures = (
  name: string,
  figures: readonly Figure[],
  settings: Pick<BenchSettings, 'rounds' | 'secondsPerRun'>,
): void => {
  const accepted: Record<string, Accepted> = existsSync(resultsFile)
    ? (JSON.parse(readFileSync(resultsFile, 'utf8')) as Record<string, Accepted>)
    : {}
  accepted[name] = {
    machine: machineText(),
    conditions: `${settings.rounds} rounds of ${settings.secondsPerRun} s, medians; ${pinningText}; load average ${loadText()}`,
    day: new Date().toISOString().slice(0, 10),
    figures: figures.map((figure) => ({ ...figure, value: Number(figure.value.toPrecision(4)) })),
  }
  writeFileSync(resultsFile, `${JSON.stringify(accepted, null, 2)}\n`)
  const docs = readFileSync(docsFile, 'utf8')
  const [head = '', tail = ''] = [docs.split(begin)[0], docs.split(end)[1]]
  writeFileSync(docsFile, `${head}${begin}\n${Object.entries(accepted).map(tableOf).join('\n')}${end}${tail}`)
}

/** Above the number of cores others were at work too: rates and times are too bad, and ratios scatter. */
const loadText = (): string => (loadavg()[0] ?? 0).toFixed(1)

const machineText = (): string => {
  const model = cpus()[0]?.model.trim() ?? 'unknown processor'
  const memoryGb = Math.round(totalmem() / 1e9)
  return `${availableParallelism()} cores of ${model}, ${memoryGb} GB, ${type()}, Node ${process.version}`
}

const tableOf = ([name, { machine, conditions, day, figures }]: [string, Accepted]): string => {
  const rows = figures.map((figure) => {
    const target = figure.target === null ? '' : `${figure.target.kind} ${figure.target.value}`
    const verdict = figure.target === null ? '' : isMet(figure) ? ', met' : ', **missed**'
    return `| ${figure.what} | ${figure.value.toFixed(2)} ${figure.unit} | ${target}${verdict} | ${figure.detail} |`
  })
  return [
    `### ${name}`,
    `${day}, ${machine}. ${conditions[0]?.toUpperCase()}${conditions.slice(1)}.`,
    '',
    '| what | figure | target | behind it |',
    '|---|---|---|---|',
    ...rows,
    '',
  ].join('\n')
}
