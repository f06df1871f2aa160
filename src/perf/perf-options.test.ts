import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { OptionError } from './option-words.ts'
import { readPerfOptions, type PerfOptions } from './perf-options.ts'
import { validateOptions } from './validate-options.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'galatea-perf-options-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const intervals = path.join(folder, 'intervals')
writeFileSync(intervals, '100\n200\n')

function read(...args: string[]): PerfOptions {
  const found = readPerfOptions(args)
  assert.equal(found.kind, 'run')
  if (found.kind !== 'run') throw new Error('unreachable')
  validateOptions(found.options, found.words)
  return found.options
}

const refusal = (...args: string[]): string => {
  try {
    read(...args)
  } catch (reason) {
    if (reason instanceof OptionError) return reason.message
    throw reason
  }
  return ''
}

test("defaults are perf_analyzer's", () => {
  const options = read('-m', 'simple')
  assert.deepEqual(
    { ...options, input: { ...options.input, shapes: [] } },
    {
      model: 'simple',
      version: '',
      serviceKind: 'triton',
      protocol: 'http',
      url: 'localhost:8000',
      tls: null,
      calls: 'default',
      isStreaming: false,
      verbosity: 0,
      load: { kind: 'concurrency', start: 1, end: 1, step: 1 },
      isBinarySearch: false,
      latencyThresholdMs: 0,
      maxThreads: 16,
      isMaxThreadsGiven: false,
      measurement: {
        mode: 'time_windows',
        intervalMs: 5000,
        requestCount: 50,
        stability: 0.1,
        maxTrials: 10,
        percentile: null,
      },
      requestCount: 0,
      warmupCount: 0,
      seed: 1,
      batchSize: 1,
      sequence: { count: 4, length: 20, isLengthGiven: false, lengthVariation: 0.2, startId: 1, idCount: 0 },
      input: { paths: [], isZero: false, shapes: [], stringLength: 128, stringData: null },
      sharedMemory: 'none',
      outputSharedMemoryBytes: 102_400,
      inputFormat: 'binary',
      outputFormat: 'binary',
      headers: [],
      parameters: {},
      compression: 'none',
      metrics: { isCollected: false, url: 'localhost:8002/metrics', intervalMs: 1000 },
      composingModels: [],
      traceSettings: {},
      csvFile: '',
      isVerboseCsv: false,
      profileFile: '',
      reportFile: '',
    },
  )
  assert.equal(read('-m', 'x', '-i', 'gRPC').url, 'localhost:8001')
  assert.equal(read('-m', 'x', '--request-rate-range', '5').maxThreads, 4)
})

test('options are written in every way that getopt takes', () => {
  assert.equal(read('-msimple', '-vv').verbosity, 2)
  assert.equal(read('-m', 'simple', '-b4').batchSize, 4)
  assert.equal(read('-m', 'simple', '--percentile=95').measurement.percentile, 95)
  assert.equal(read('-m', 'simple', '-va').calls, 'async')
  assert.match(refusal('-m'), /option '-m' requires an argument/)
  assert.match(
    refusal('--concurrency-rage', '1'),
    /unrecognized option '--concurrency-rage'; did you mean '--concurrency-range'/,
  )
  assert.match(refusal('-q'), /invalid option -- 'q'/)
  assert.match(refusal('--sync=1'), /doesn't allow an argument/)
  assert.match(refusal('simple'), /the model is named with -m simple/)
})

test('values have their forms', () => {
  assert.deepEqual(read('-m', 'x', '--concurrency-range', '2:8:3').load, {
    kind: 'concurrency',
    start: 2,
    end: 8,
    step: 3,
  })
  assert.deepEqual(read('-m', 'x', '--request-rate-range', '1.5').load, {
    kind: 'rate',
    distribution: 'constant',
    start: 1.5,
    end: 1.5,
    step: 1,
  })
  assert.deepEqual(read('-m', 'x', '--request-intervals', intervals).load, {
    kind: 'intervals',
    intervalsUs: [100, 200],
  })
  assert.deepEqual([...read('-m', 'x', '--shape', 'a:b:3,4').input.shapes], [['a:b', [3, 4]]])
  assert.deepEqual(read('-m', 'x', '-H', 'k: a:b').headers, [['k', 'a:b']])
  assert.deepEqual(
    read('-m', 'x', '--request-parameter', 'p:1:int', '--request-parameter', 's:a:b:string').parameters,
    {
      p: 1n,
      s: 'a:b',
    },
  )
  assert.deepEqual(read('-m', 'x', '--sequence-id-range', '5:15').sequence.idCount, 10)
  assert.deepEqual(read('-m', 'x', '--bls-composing-models', 'a:1, b').composingModels, [
    ['a', '1'],
    ['b', ''],
  ])
  assert.deepEqual(read('-m', 'x', '-t', '4').load, { kind: 'concurrency', start: 4, end: 4, step: 1 })
  assert.deepEqual(read('-m', 'x', '-d', '-c', '9', '-l', '5').load, { kind: 'concurrency', start: 1, end: 9, step: 1 })
  assert.equal(read('-m', 'x', '-u', 'box:1', '--collect-metrics').metrics.url, 'box:8002/metrics')
})

describe('what does not go together is refused in the words of perf_analyzer', () => {
  const rate = ['--request-rate-range', '10']
  const concurrency = ['--concurrency-range', '1']
  const cases: readonly (readonly [text: string, args: readonly string[]])[] = [
    ['can not specify concurrency_range and request_rate_range simultaneously', [...rate, ...concurrency]],
    ['can not use --concurrency-range or --request-rate-range along with --request-intervals', [...rate, '--request-intervals', intervals]],
    ['can not use deprecated options with --concurrency-range', [...concurrency, '-t', '2']],
    ['can not use concurrency options with --request-rate-range', [...rate, '-c', '2']],
    ['can not use deprecated options with --request-intervals', ['--request-intervals', intervals, '-d']],
    ['The end of the search range and the latency limit can not be both 0 (or 0.0) simultaneously', ['--concurrency-range', '1:0']],
    ['The end of the range can not be 0 (or 0.0) for binary search mode.', ['--concurrency-range', '1:0', '-l', '5', '--binary-search']],
    ['The latency threshold can not be 0 for binary search mode.', ['--concurrency-range', '1:4', '--binary-search']],
    ['The end of the range can not be less than start of the range for binary search mode.', ['--concurrency-range', '4:2', '--binary-search', '-l', '5']],
    ['The start of the search range must be > 0', ['--concurrency-range', '0:2']],
    ['Both --async and --sync can not be specified simultaneously.', ['-a', '--sync']],
    ['streaming is only allowed with gRPC protocol', ['--streaming']],
    ['can not use streaming with synchronous API', ['--streaming', '--sync', '-i', 'grpc']],
    ['compression is only allowed with gRPC protocol', ['--grpc-compression-algorithm', 'gzip']],
    ['protocol should be either HTTP or gRPC', ['-i', 'tcp']],
    ['batch size must be > 0', ['-b', '0']],
    ['measurement window must be > 0 in msec', ['-p', '0']],
    ['measurement request count must be > 0', ['--measurement-request-count', '0']],
    ['maximum number of threads must be > 0', ['--max-threads', '0']],
    ['percentile must be -1 for not reporting or in range (0, 100)', ['--percentile', '100']],
    ['option concurrency-range can have maximum of three elements', ['--concurrency-range', '1:2:3:4']],
    ['failed to parse concurrency range: a', ['--concurrency-range', 'a']],
    ['failed to parse input shape. There must be a colon after input name.', ['--shape', 'x']],
    ['input shape must be > 0', ['--shape', 'x:0']],
    ['unsupported input data provided /no/such', ['--input-data', '/no/such']],
    ["zero input can't be set when data directory is provided", ['-z', '--input-data', folder]],
    ['unsupported --measurement-mode specified', ['--measurement-mode', 'x']],
    ['Must specify --collect-metrics when using the --metrics-url option.', ['--metrics-url', 'x']],
    ['Must specify --collect-metrics when using the --metrics-interval option.', ['--metrics-interval', '5']],
    ['Metrics interval must be larger than 0 milliseconds.', ['--collect-metrics', '--metrics-interval', '0']],
    ['request-count can not be less than concurrency', ['--request-count', '3', '--concurrency-range', '4']],
    ['request-count not supported with multiple concurrency values in one run', ['--request-count', '9', '--concurrency-range', '1:4']],
    ['request-count can not be less than request rate', ['--request-count', '3', ...rate]],
    ['must provide --profile-export-file when using the --periodic-concurrency-range option', ['--periodic-concurrency-range', '1:4', '-i', 'grpc', '--streaming']],
    ['--ssl-https-verify-host must be 0, 1, or 2', ['--ssl-https-verify-host', '3']],
    ['--ssl-grpc-root-certifications-file must be a valid file path', ['--ssl-grpc-root-certifications-file', '/no/such']],
    ['unsupported --service-kind specified', ['--service-kind', 'other']],
    ["unsupported --shared-memory type provided: 'x'. Choices are 'system', 'cuda', or 'none'.", ['--shared-memory', 'x']],
  ] // prettier-ignore
  for (const [text, args] of cases) test(text, () => assert.equal(refusal('-m', 'simple', ...args), text))

  test('-m flag must be specified', () => assert.equal(refusal(), '-m flag must be specified'))
})

test('service kinds that are not there say what is missing', () => {
  for (const kind of ['openai', 'tfserving', 'torchserve', 'triton_c_api', 'dynamic_grpc']) {
    assert.match(refusal('-m', 'x', '--service-kind', kind), new RegExp(`^--service-kind ${kind}: .*(version|here)`))
  }
  assert.match(refusal('-m', 'x', '--endpoint', 'v1/chat'), /--endpoint belongs to --service-kind openai/)
})
