import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import type { ClientSummary } from './client-summary.ts'
import type { ModelUnderTest } from './model-under-test.ts'
import { readPerfOptions, type PerfOptions } from './perf-options.ts'
import type { LevelResult } from './profiler.ts'
import { csvFiles } from './report-csv.ts'
import { reportHtml } from './report-html.ts'
import { levelText, loadTitle, settingsText, sixDigits, summaryText } from './report-text.ts'
import type { ServerWindow } from './server-statistics.ts'

const csvFile = path.join(tmpdir(), 'out.csv')

const optionsOf = (...args: string[]): PerfOptions => {
  const read = readPerfOptions(['-m', 'simple', '-f', csvFile, ...args])
  if (read.kind !== 'run') throw new Error('no options')
  return read.options
}

const model: ModelUnderTest = {
  name: 'simple',
  version: '',
  maxBatchSize: 8,
  inputs: [],
  outputs: [],
  isSequence: false,
  isDecoupled: false,
  isCached: false,
  composing: [],
  hasStatistics: true,
}

const per = (count: number, us: number): { count: number; ns: number } => ({ count, ns: count * us * 1000 })

const server: ServerWindow = {
  inferenceCount: 100,
  executionCount: 50,
  batches: new Map([[2, 50]]),
  composing: [],
  success: per(100, 60),
  queue: per(100, 10),
  computeInput: per(100, 1),
  computeInfer: per(100, 30),
  computeOutput: per(100, 2),
  cacheHit: per(0, 0),
  cacheMiss: per(0, 0),
}

const client = (inferPerSecond: number): ClientSummary => ({
  durationMs: 1000,
  requestCount: 100,
  failedCount: 0,
  failures: [],
  inferPerSecond,
  responsesPerSecond: 2 * inferPerSecond,
  sequenceCount: 7,
  sequencesPerSecond: 7,
  sentPerSecond: 100,
  delayedShare: 0,
  averageUs: 100.9,
  deviationUs: 5.5,
  percentilesUs: new Map([[50, 99.7], [90, 120], [95, 130], [99, 140]]), // prettier-ignore
  averageRequestUs: 100.9,
  averageSendUs: 5.2,
  averageReceiveUs: 3.9,
  utilisation: 0.25,
  histogram: new Uint32Array(64).fill(1),
})

const result = (load: number, inferPerSecond: number, more: Partial<LevelResult> = {}): LevelResult => ({
  load,
  client: client(inferPerSecond),
  server,
  metrics: null,
  latencyUs: 100.9,
  isStable: true,
  isLatencyUnsteady: false,
  isOverThreshold: false,
  isInterrupted: false,
  windows: [{ client: client(inferPerSecond), server }],
  exported: [],
  boundariesNs: [],
  ...more,
})

test('CSV has the columns of perf_analyzer, whole microseconds, and the slowest load first', () => {
  const [file] = csvFiles([result(4, 2000.123456), result(1, 990)], optionsOf(), model)
  assert.equal(file?.file, csvFile)
  assert.equal(
    file?.text,
    'Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency\n' +
      '1,990,5,48,10,1,30,2,3,99,120,130,140\n' +
      '4,2000.12,5,48,10,1,30,2,3,99,120,130,140\n',
  )
})

test('columns for rates, decoupled models, caches and --verbose-csv come where perf_analyzer has them', () => {
  const options = optionsOf('--request-rate-range', '10', '--verbose-csv', '--collect-metrics')
  const metrics = {
    gpuUtilization: new Map([['GPU-1', 0.5]]),
    gpuPowerWatts: new Map([['GPU-1', 70]]),
    gpuMemoryUsedBytes: new Map([['GPU-1', 12_884_901_888]]),
    gpuMemoryTotalBytes: new Map([['GPU-1', 2048]]),
    cpuUtilization: null,
    cpuMemoryUsedBytes: null,
  }
  const [file] = csvFiles([result(10, 10, { metrics })], options, { ...model, isDecoupled: true, isCached: true })
  const [header = '', row = ''] = file?.text.split('\n') ?? []
  assert.equal(
    header,
    'Request Rate,Inferences/Second,Response Throughput,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,Server Compute Infer,Server Compute Output,Server Cache Hit,Server Cache Miss,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency,Avg latency,request/response,response wait,Avg GPU Utilization,Avg GPU Power Usage,Max GPU Memory Usage,Total GPU Memory',
  )
  assert.equal(
    row,
    '10,10,20,5,48,10,1,30,2,0,0,3,99,120,130,140,100,8,92,GPU-1:0.5;,GPU-1:70;,GPU-1:12884901888;,GPU-1:2048;',
  )
})

test('without statistics there are no columns of the server', () => {
  const [file] = csvFiles([result(1, 1, { server: null })], optionsOf(), model)
  assert.match(file?.text ?? '', /^Concurrency,Inferences\/Second,Client Send,Client Recv,p50/)
})

test('numbers have the six digits of a C++ stream', () => {
  const cases = [[1234.5678, '1234.57'], [1_234_567.8, '1.23457e+06'], [100, '100'], [0, '0'], [0.00001234, '1.234e-05'], [99_999.96, '100000']] as const // prettier-ignore
  for (const [value, text] of cases) assert.equal(sixDigits(value), text)
})

test('the text of a load is that of perf_analyzer', () => {
  assert.equal(
    levelText(result(1, 990.5), optionsOf(), model),
    `  Client: 
    Request count: 100
    Throughput: 990.5 infer/sec
    Avg latency: 100 usec (standard deviation 5 usec)
    p50 latency: 99 usec
    p90 latency: 120 usec
    p95 latency: 130 usec
    p99 latency: 140 usec
    Avg HTTP time: 100 usec (send/recv 8 usec + response wait 92 usec)
  Server: 
    Inference count: 100
    Execution count: 50
    Successful request count: 100
    Avg request latency: 60 usec (overhead 17 usec + queue 10 usec + compute input 1 usec + compute infer 30 usec + compute output 2 usec)

`,
  )
  assert.equal(
    summaryText([result(1, 990.5)], optionsOf()),
    'Inferences/Second vs. Client Average Batch Latency\nConcurrency: 1, throughput: 990.5 infer/sec, latency 100 usec\n',
  )
})

test('settings say how many requests will be sent, and what each window must have when that is not said', () => {
  const counted = settingsText(optionsOf('--request-count', '1', '--warmup-request-count', '20'), model)
  assert.equal(
    counted,
    `*** Measurement Settings ***
  Batch size: 1
  Service Kind: TRITON
  Sending 20 warmup requests
  Sending 1 benchmark request
  Using synchronous calls for inference

`,
  )
  const rate = optionsOf('--request-rate-range', '10:40:10', '-l', '7', '--percentile', '95', '-a')
  assert.equal(
    settingsText(rate, model),
    `*** Measurement Settings ***
  Batch size: 1
  Service Kind: TRITON
  Using "time_windows" mode for stabilization
  Stabilizing using p95throughput
  Measurement window: 5000 msec
  Latency limit: 7 msec
  Request Rate limit: 40 requests per seconds
  Using uniform distribution on request generation
  Measuring latency from the time a request was due (open loop, no coordinated omission)
  Using asynchronous calls for inference

`,
  )
  assert.equal(loadTitle(rate.load, 12.5), 'Request Rate: 12.5 inference requests per second')
})

test('a thread that was busy in a window of a few requests is no warning, one that was busy for long is', () => {
  const busy = (durationMs: number): LevelResult =>
    result(1, 9, { client: { ...client(9), utilisation: 1, durationMs } })
  assert.match(levelText(busy(1000), optionsOf(), model), /\[WARNING\] Perf Analyzer is not able to keep up/)
  assert.doesNotMatch(levelText(busy(5), optionsOf(), model), /WARNING/)
})

test('a response cache and a decoupled or sequence model have lines of their own', () => {
  const cached = { ...server, cacheHit: per(50, 4), cacheMiss: per(100, 6) }
  const text = levelText(result(1, 990, { server: cached }), optionsOf('-v'), {
    ...model,
    isCached: true,
    isSequence: true,
  })
  assert.match(text, /Sequence count: 7 \(7 seq\/sec\)/)
  assert.match(text, /Avg client overhead: 25\.00%/)
  assert.match(text, /Cache hit count: 50\n +Cache miss count: 100\n/)
  assert.match(text, /\(overhead 23 usec \+ queue 10 usec \+ cache hit\/miss 27 usec\)/)
  assert.match(text, /Average Cache Miss Latency: 39 usec \(cache lookup\/insertion 6 usec \+ compute input 1 usec/)
})

test('names from the server and the command line do no harm in the page', () => {
  const page = reportHtml(
    [result(1, 5), result(2, 9)],
    optionsOf(),
    { ...model, name: '<script>x</script>' },
    {
      command: 'galatea perf -m "<b>"',
      date: 'today',
      version: '1',
      machine: '2 cores <i>',
    },
  )
  assert.doesNotMatch(page, /<script>|<b>|<i>/)
  assert.match(page, /server: queue<\/th><th>server: compute/)
  assert.match(page, />1<\/text>[^]*>2<\/text>/)
  assert.equal(page.match(/<svg/g)?.length, 4)
})
