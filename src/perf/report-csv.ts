// The table of `-f`, with perf_analyzer's columns: whole microseconds, the slowest load first.

import path from 'node:path'
import type { ModelUnderTest } from './model-under-test.ts'
import type { PerfOptions } from './perf-options.ts'
import type { LevelResult } from './profiler.ts'
import { serverAverages, sixDigits, transportTimes } from './report-text.ts'
import type { ServerWindow } from './server-statistics.ts'

type CsvFile = { readonly file: string; readonly text: string }

/** The file itself, and one file for each composing model. */
export function csvFiles(results: readonly LevelResult[], options: PerfOptions, model: ModelUnderTest): CsvFile[] {
  const sorted = results.toSorted((a, b) => a.client.inferPerSecond - b.client.inferPerSecond)
  const first = sorted[0]
  if (first === undefined) return []
  const columns = columnsOf(options, model, first)
  const table = [columns.map(([name]) => name), ...sorted.map((result) => columns.map(([, of]) => of(result)))]
  const { dir, base } = path.parse(options.csvFile)
  const composing = (first.server?.composing ?? []).map(({ name, version }, at) => ({
    file: path.join(dir, `${name}_v${version}.${base}`),
    text: composingText(sorted, at, options, model),
  }))
  return [{ file: options.csvFile, text: tableText(table) }, ...composing]
}

type Column = readonly [name: string, of: (result: LevelResult) => string]

const whole = (value: number): string => String(Math.floor(value))
const tableText = (rows: readonly (readonly string[])[]): string => `${rows.map((row) => row.join(',')).join('\n')}\n`

const loadColumn = ({ load }: PerfOptions): Column => {
  const isRate = load.kind === 'rate' || load.kind === 'intervals'
  return [isRate ? 'Request Rate' : 'Concurrency', (result) => sixDigits(result.load)]
}

function columnsOf(options: PerfOptions, model: ModelUnderTest, first: LevelResult): Column[] {
  const percentiles = [...first.client.percentilesUs.keys()]
  return [
    loadColumn(options),
    ['Inferences/Second', ({ client }) => sixDigits(client.inferPerSecond)],
    ...(model.isDecoupled
      ? [['Response Throughput', ({ client }) => sixDigits(client.responsesPerSecond)] satisfies Column]
      : []),
    ['Client Send', ({ client }) => whole(client.averageSendUs)],
    ...(first.server === null ? [] : serverColumns(model.isCached)),
    ['Client Recv', ({ client }) => whole(client.averageReceiveUs)],
    ...percentiles.map((percentile): Column => [
      `p${percentile} latency`,
      ({ client }) => whole(client.percentilesUs.get(percentile) ?? 0),
    ]),
    ...(options.isVerboseCsv ? verboseColumns(options) : []),
  ]
}

function serverColumns(isCached: boolean): Column[] {
  const of =
    (name: 'queue' | 'computeInput' | 'computeInfer' | 'computeOutput' | 'cacheHit' | 'cacheMiss') =>
    ({ server }: LevelResult): string =>
      server === null ? '0' : String(serverAverages(server)[name])
  return [
    ['Network+Server Send/Recv', networkUs],
    ['Server Queue', of('queue')],
    ['Server Compute Input', of('computeInput')],
    ['Server Compute Infer', of('computeInfer')],
    ['Server Compute Output', of('computeOutput')],
    ...(isCached
      ? ([
          ['Server Cache Hit', of('cacheHit')],
          ['Server Cache Miss', of('cacheMiss')],
        ] satisfies Column[])
      : []),
  ]
}

/** The latency minus all measured parts. The parts come from two clocks, so the result is at least 0. */
function networkUs({ client, server }: LevelResult): string {
  if (server === null) return '0'
  const { queue, compute, cacheHit, cacheMiss } = serverAverages(server)
  const waited = client.averageUs - client.averageSendUs - client.averageReceiveUs
  return whole(Math.max(0, waited - queue - compute - cacheHit - cacheMiss))
}

function verboseColumns({ measurement, metrics }: PerfOptions): Column[] {
  const perGpu =
    (name: 'gpuUtilization' | 'gpuPowerWatts' | 'gpuMemoryUsedBytes' | 'gpuMemoryTotalBytes') =>
    (result: LevelResult): string => {
      // Bytes are whole numbers and have all their digits.
      const show = name.endsWith('Bytes') ? String : sixDigits
      return [...(result.metrics?.[name] ?? [])].map(([gpu, value]) => `${gpu}:${show(value)};`).join('')
    }
  return [
    ...(measurement.percentile === null
      ? [['Avg latency', ({ client }) => whole(client.averageUs)] satisfies Column]
      : []),
    ['request/response', ({ client }) => whole(transportTimes(client).transfer)],
    ['response wait', ({ client }) => whole(transportTimes(client).wait)],
    ...(metrics.isCollected
      ? ([
          ['Avg GPU Utilization', perGpu('gpuUtilization')],
          ['Avg GPU Power Usage', perGpu('gpuPowerWatts')],
          ['Max GPU Memory Usage', perGpu('gpuMemoryUsedBytes')],
          ['Total GPU Memory', perGpu('gpuMemoryTotalBytes')],
        ] satisfies Column[])
      : []),
  ]
}

function composingText(
  results: readonly LevelResult[],
  at: number,
  options: PerfOptions,
  { isCached }: ModelUnderTest,
): string {
  const [loadName, loadOf] = loadColumn(options)
  const header = [
    loadName,
    'Inferences/Second',
    'Client Send',
    'Network+Server Send/Recv',
    'Server Queue',
    'Server Compute Input',
    'Server Compute Infer',
    'Server Compute Output',
    ...(isCached ? ['Server Cache Hit', 'Server Cache Miss'] : []),
    'Client Recv',
  ]
  const rows = results.map((result) => {
    const window = result.server?.composing[at]?.window as ServerWindow
    const average = serverAverages(window)
    const accounted = average.queue + average.compute + average.cacheHit + average.cacheMiss
    const ratio = window.success.count / Math.max(1, result.server?.success.count ?? 1)
    const { queue, computeInput, computeInfer, computeOutput, cacheHit, cacheMiss } = average
    const numbers = [Math.max(0, average.request - accounted), queue, computeInput, computeInfer, computeOutput]
    return [
      loadOf(result),
      sixDigits(ratio * result.client.inferPerSecond),
      '0',
      ...[...numbers, ...(isCached ? [cacheHit, cacheMiss] : [])].map(String),
      '0',
    ]
  })
  return tableText([header, ...rows])
}
