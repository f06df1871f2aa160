// The printed report, with perf_analyzer's texts.

import type { ClientSummary } from './client-summary.ts'
import type { MetricsSummary } from './metrics-scraper.ts'
import type { ModelUnderTest } from './model-under-test.ts'
import type { PerfOptions } from './perf-options.ts'
import { isAsync, type LevelResult, type MeasuredWindow } from './profiler.ts'
import { averageUs, type ServerWindow } from './server-statistics.ts'
import { serviceKindTitle } from './service-kind.ts'

/** As a C++ stream prints a double: six significant digits. */
export function sixDigits(value: number): string {
  if (!Number.isFinite(value)) return String(value)
  const isTiny = value !== 0 && Math.abs(value) < 1e-4
  const text = isTiny ? value.toExponential(5) : value.toPrecision(6)
  if (text.includes('e')) return text.replace(/\.?0*e/, 'e').replace(/e([+-])(\d)$/, 'e$10$2')
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}

const us = (value: number): string => String(Math.floor(value))

const plural = (count: number): string => (count > 1 ? 's' : '')

export function settingsText(options: PerfOptions, model: ModelUnderTest): string {
  const { measurement, load, latencyThresholdMs } = options
  const lines = [
    '*** Measurement Settings ***',
    `  Batch size: ${options.batchSize}`,
    `  Service Kind: ${serviceKindTitle[options.serviceKind]}`,
  ]
  if (options.warmupCount > 0)
    lines.push(`  Sending ${options.warmupCount} warmup request${plural(options.warmupCount)}`)
  const count = load.kind === 'periodic' ? load.end : options.requestCount
  if (count > 0) lines.push(`  Sending ${count} benchmark request${plural(count)}`)
  else {
    lines.push(
      `  Using "${measurement.mode}" mode for stabilization`,
      `  Stabilizing using ${stabilisingText(options, model)}`,
      measurement.mode === 'time_windows'
        ? `  Measurement window: ${measurement.intervalMs} msec`
        : `  Minimum number of samples in each window: ${measurement.requestCount}`,
    )
  }
  if ((load.kind === 'concurrency' || load.kind === 'rate') && load.end !== load.start) {
    lines.push(`  Latency limit: ${latencyThresholdMs} msec`)
    const highest = Math.max(load.start, load.end)
    if (load.end !== 0) {
      lines.push(
        load.kind === 'concurrency'
          ? `  Concurrency limit: ${highest} concurrent requests`
          : `  Request Rate limit: ${sixDigits(highest)} requests per seconds`,
      )
    }
  }
  if (load.kind === 'rate') {
    lines.push(`  Using ${load.distribution === 'poisson' ? 'poisson' : 'uniform'} distribution on request generation`)
  }
  if (load.kind === 'rate' || load.kind === 'intervals') {
    lines.push('  Measuring latency from the time a request was due (open loop, no coordinated omission)')
  }
  if (options.isBinarySearch) lines.push('  Using Binary Search algorithm')
  lines.push(`  Using ${isAsync(options, model) ? 'asynchronous' : 'synchronous'} calls for inference`)
  if (model.isDecoupled) lines.push('  Detected decoupled model, using the first response for measuring latency')
  return `${lines.join('\n')}\n\n`
}

/** perf_analyzer writes no blank behind the percentile. */
function stabilisingText(options: PerfOptions, model: ModelUnderTest): string {
  const { percentile } = options.measurement
  const metric = isAsync(options, model) ? 'throughput' : 'latency and throughput'
  return percentile === null ? `average ${metric}` : `p${percentile}${metric}`
}

export function loadTitle({ kind }: PerfOptions['load'], load: number): string {
  if (kind === 'concurrency') return `Request concurrency: ${load}`
  return kind === 'periodic'
    ? `Periodic concurrency: ${load} requests in all`
    : `Request Rate: ${sixDigits(load)} inference requests per second`
}

export function passText({ client }: MeasuredWindow, number: number, percentile: number | null): string {
  const head = `  Pass [${number}] throughput: ${sixDigits(client.inferPerSecond)} infer/sec. `
  return percentile === null
    ? `${head}Avg latency: ${us(client.averageUs)} usec (std ${us(client.deviationUs)} usec). \n`
    : `${head}p${percentile} latency: ${us(client.percentilesUs.get(percentile) ?? 0)} usec\n`
}

const shortestTellingMs = 250

export function levelText(result: LevelResult, options: PerfOptions, model: ModelUnderTest): string {
  const lines = ['  Client: ', ...clientLines(result.client, options, model)]
  if (result.server !== null) lines.push('  Server: ', ...serverLines(result.server, 1, model.isCached))
  if (result.metrics !== null) lines.push('  Server Prometheus Metrics: ', ...metricsLines(result.metrics), '')
  // With an open loop a thread always looks busy, because it spins between requests that are due soon.
  // In a window of a few requests the start dominates, so the utilisation says nothing.
  const isLong = result.client.durationMs > shortestTellingMs
  if (result.client.utilisation > 0.95 && isLong && options.load.kind === 'concurrency') {
    lines.push('[WARNING] Perf Analyzer is not able to keep up with the desired load. The results may not be accurate.')
  }
  if (lines.at(-1) !== '') lines.push('')
  return `${lines.join('\n')}\n`
}

function clientLines(client: ClientSummary, options: PerfOptions, model: ModelUnderTest): string[] {
  const lines = [`    Request count: ${client.requestCount}`]
  if (client.failedCount > 0) lines.push(`    Failed request count: ${client.failedCount}`)
  if (client.delayedShare > 0.01) {
    lines.push(
      `    Avg send request rate: ${client.sentPerSecond.toFixed(2)} infer/sec`,
      '    [WARNING] Perf Analyzer was not able to keep up with the desired request rate. ' +
        `${(client.delayedShare * 100).toFixed(2)}% of the requests were delayed. `,
    )
  }
  if (model.isSequence) {
    lines.push(`    Sequence count: ${client.sequenceCount} (${sixDigits(client.sequencesPerSecond)} seq/sec)`)
  }
  lines.push(`    Throughput: ${sixDigits(client.inferPerSecond)} infer/sec`)
  if (model.isDecoupled) lines.push(`    Response Throughput: ${sixDigits(client.responsesPerSecond)} infer/sec`)
  if (options.verbosity > 0 && options.load.kind === 'concurrency')
    lines.push(`    Avg client overhead: ${(client.utilisation * 100).toFixed(2)}%`)
  if (options.measurement.percentile === null) {
    lines.push(`    Avg latency: ${us(client.averageUs)} usec (standard deviation ${us(client.deviationUs)} usec)`)
  }
  for (const [percentile, value] of client.percentilesUs) lines.push(`    p${percentile} latency: ${us(value)} usec`)
  if (!model.isDecoupled) lines.push(`    ${transportLine(client, options)}`)
  return lines
}

/** Whole microseconds that add up, as text and CSV show them. */
export function transportTimes(client: ClientSummary) {
  const all = Math.floor(client.averageRequestUs)
  const send = Math.floor(client.averageSendUs)
  const receive = Math.floor(client.averageReceiveUs)
  return { all, send, receive, transfer: send + receive, wait: Math.max(0, all - send - receive) }
}

function transportLine(client: ClientSummary, { protocol, verbosity }: PerfOptions): string {
  const { all, send, receive, transfer, wait } = transportTimes(client)
  const isVerbose = verbosity > 0
  if (protocol === 'grpc') {
    return isVerbose
      ? `Avg gRPC time: ${all} usec (marshal ${send} usec + response wait ${wait} usec + unmarshal ${receive} usec)`
      : `Avg gRPC time: ${all} usec ((un)marshal request/response ${transfer} usec + response wait ${wait} usec)`
  }
  return isVerbose
    ? `Avg HTTP time: ${all} usec (send ${send} usec + response wait ${wait} usec + receive ${receive} usec)`
    : `Avg HTTP time: ${all} usec (send/recv ${transfer} usec + response wait ${wait} usec)`
}

/** Averages of one model in whole microseconds, as text and CSV show them. */
export function serverAverages(server: ServerWindow) {
  const computeNs = server.computeInput.ns + server.computeInfer.ns + server.computeOutput.ns
  const computeCount = server.computeInput.count
  return {
    request: averageUs(server.success),
    queue: averageUs(server.queue),
    computeInput: averageUs(server.computeInput),
    computeInfer: averageUs(server.computeInfer),
    computeOutput: averageUs(server.computeOutput),
    compute: averageUs({ count: computeCount, ns: computeNs }),
    cacheHit: averageUs(server.cacheHit),
    cacheMiss: averageUs(server.cacheMiss),
    cacheAndCompute: averageUs({
      count: computeCount + server.cacheHit.count,
      ns: computeNs + server.cacheHit.ns + server.cacheMiss.ns,
    }),
  }
}

type Averages = ReturnType<typeof serverAverages>

/** For an ensemble: the sums over its models. */
function composedAverages(server: ServerWindow): Averages {
  const all = server.composing.map(({ window }) =>
    window.composing.length > 0 ? composedAverages(window) : serverAverages(window),
  )
  const own = serverAverages(server)
  const names = Object.keys(own) as (keyof Averages)[]
  const sums = names.map((name) => [name, all.reduce((sum, each) => sum + each[name], 0)] as const)
  return { ...(Object.fromEntries(sums) as Averages), request: own.request }
}

function serverLines(server: ServerWindow, depth: number, isCached: boolean): string[] {
  const indent = '  '.repeat(depth)
  if (server.success.count === 0) return [`${indent}  Request count: 0`]
  const isEnsemble = server.composing.length > 0
  const average = isEnsemble ? composedAverages(server) : serverAverages(server)
  const work = isCached ? average.cacheAndCompute : average.compute
  const overhead = Math.max(0, average.request - average.queue - work)
  const compute = `compute input ${average.computeInput} usec + compute infer ${average.computeInfer} usec + compute output ${average.computeOutput} usec`
  const parts = isCached
    ? `cache hit/miss ${average.cacheAndCompute} usec`
    : isEnsemble
      ? `compute ${average.compute} usec`
      : compute
  const lines = [
    `${indent}  Inference count: ${server.inferenceCount}`,
    `${indent}  Execution count: ${server.executionCount}`,
    ...(isCached
      ? [
          `${indent}  Cache hit count: ${server.cacheHit.count}`,
          `${indent}  Cache miss count: ${server.cacheMiss.count}`,
        ]
      : []),
    `${indent}  Successful request count: ${server.success.count}`,
    `${indent}  Avg request latency: ${average.request} usec (overhead ${overhead} usec + queue ${average.queue} usec + ${parts})`,
  ]
  if (isCached) {
    const lookup = isEnsemble ? ' ' : ` (cache lookup/insertion ${average.cacheMiss} usec + ${compute})`
    lines.push(
      `${indent}${indent}  Average Cache Hit Latency: ${average.cacheHit} usec`,
      `${indent}${indent}  Average Cache Miss Latency: ${average.cacheMiss + average.compute} usec${lookup}`,
    )
  }
  lines.push('')
  if (isEnsemble) {
    lines.push(`${indent}Composing models: `)
    for (const { name, version, window } of server.composing) {
      lines.push(`${indent}${name}, version: ${version}`, ...serverLines(window, depth + 1, isCached))
    }
  }
  return lines
}

function metricsLines(metrics: MetricsSummary): string[] {
  const block = (title: string, values: ReadonlyMap<string, number>, show: (value: number) => string): string[] =>
    values.size === 0 ? [] : [`    ${title}:`, ...[...values].map(([gpu, value]) => `      ${gpu} : ${show(value)}`)]
  const lines = [
    ...block('Avg GPU Utilization', metrics.gpuUtilization, (value) => `${sixDigits(value * 100)}%`),
    ...block('Avg GPU Power Usage', metrics.gpuPowerWatts, (value) => `${sixDigits(value)} watts`),
    ...block('Max GPU Memory Usage', metrics.gpuMemoryUsedBytes, (value) => `${value} bytes`),
    ...block('Total GPU Memory', metrics.gpuMemoryTotalBytes, (value) => `${value} bytes`),
    ...(metrics.cpuUtilization === null
      ? []
      : [`    Avg CPU Utilization: ${sixDigits(metrics.cpuUtilization * 100)}%`]),
    ...(metrics.cpuMemoryUsedBytes === null ? [] : [`    Max CPU Memory Usage: ${metrics.cpuMemoryUsedBytes} bytes`]),
  ]
  return lines.length === 0 ? ['    The server has no metrics of GPUs or CPUs'] : lines
}

export function summaryText(results: readonly LevelResult[], options: PerfOptions): string {
  if (results.length === 0) return ''
  const { percentile } = options.measurement
  const isRate = options.load.kind === 'rate' || options.load.kind === 'intervals'
  const lines = results.map(({ load, client, latencyUs }) => {
    const name = isRate ? `Request Rate: ${sixDigits(load)}` : `Concurrency: ${load}`
    return `${name}, throughput: ${sixDigits(client.inferPerSecond)} infer/sec, latency ${us(latencyUs)} usec\n`
  })
  const title = percentile === null ? 'Average' : `p${percentile}`
  return `Inferences/Second vs. Client ${title} Batch Latency\n${lines.join('')}`
}
