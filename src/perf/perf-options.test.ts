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
      endpoint: 'v1/chat/completions',
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

test('a long name may be cut short while it is the only one that begins so', () => {
  const short = read('-m', 'simple', '--concurrency', '8', '--measurement-int=100', '--stream', '-i', 'grpc')
  assert.deepEqual(short.load, { kind: 'concurrency', start: 8, end: 8, step: 1 })
  assert.equal(short.measurement.intervalMs, 100)
  assert.equal(short.isStreaming, true)
  assert.equal(
    refusal('--sequence-length-', '1', '--max-t', '1'),
    "option '--max-t' is ambiguous; possibilities: '--max-threads' '--max-trials'",
  )
  assert.match(refusal('--'), /unrecognized option '--'/)
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
  assert.deepEqual(read('-m', 'x', '--request-parameter', 'b:TRUE:Bool').parameters, { b: true })
  assert.deepEqual(read('-m', 'x', '--sequence-id-range', '5:15').sequence.idCount, 10)
  assert.deepEqual(
    read('-m', 'x', '--trace-level', 'TIMESTAMPS', '--trace-level', 'TENSORS', '--trace-rate', '1').traceSettings,
    { trace_level: ['TIMESTAMPS', 'TENSORS'], trace_rate: '1' },
  )
  assert.deepEqual(read('-m', 'x', '--bls-composing-models', 'a:1, b').composingModels, [
    ['a', '1'],
    ['b', ''],
  ])
  assert.deepEqual(read('-m', 'x', '-t', '4').load, { kind: 'concurrency', start: 4, end: 4, step: 1 })
  assert.deepEqual(read('-m', 'x', '-d', '-c', '9', '-l', '5').load, { kind: 'concurrency', start: 1, end: 9, step: 1 })
  assert.equal(read('-m', 'x', '-u', 'box:1', '--collect-metrics').metrics.url, 'box:8002/metrics')
  assert.equal(read('-m', 'x', '-u', 'https://[::1]/x', '--collect-metrics').metrics.url, '[::1]:8002/metrics')
})

describe('what does not go together is refused in the words of perf_analyzer', () => {
  const rate = ['--request-rate-range', '10']
  const concurrency = ['--concurrency-range', '1']
  const modes = 'Cannot specify more then one inference load mode. Please choose only one of the following modes: --concurrency-range, --periodic-concurrency-range, --request-rate-range, or --request-intervals.' // prettier-ignore
  const periodic = 'Failed to parse --periodic-concurrency-range.'
  const stream = ['-i', 'grpc', '--streaming']
  const cases: readonly (readonly [text: string, args: readonly string[]])[] = [
    [modes, [...rate, ...concurrency]],
    [modes, [...rate, '--request-intervals', intervals]],
    [modes, [...stream, '--periodic-concurrency-range', '1:2', ...concurrency]],
    ['Cannot use deprecated options with --concurrency-range.', [...concurrency, '-t', '2']],
    ['Cannot use concurrency options with --request-rate-range.', [...rate, '-c', '2']],
    ['Cannot use deprecated options with --request-intervals.', ['--request-intervals', intervals, '-d']],
    ['The end of the search range and the latency limit can not be both 0 (or 0.0) simultaneously', ['--concurrency-range', '1:0']],
    ['The end of the search range and the latency limit can not be both 0 (or 0.0) simultaneously', ['-d']],
    ['The end of the range can not be 0 (or 0.0) for binary search mode.', ['--concurrency-range', '1:0', '-l', '5', '--binary-search']],
    ['The --latency-threshold cannot be 0 for binary search mode.', ['--concurrency-range', '1:4', '--binary-search']],
    ['The end of the range can not be less than start of the range for binary search mode.', ['--concurrency-range', '4:2', '--binary-search', '-l', '5']],
    ['The start of the search range must be > 0', ['--concurrency-range', '0:2']],
    ['Failed to parse --request-rate-range. The start of the search range must be > 0.', ['--request-rate-range', '0']],
    ['Cannot specify --async and --sync simultaneously.', ['-a', '--sync']],
    ['Streaming is only allowed with gRPC protocol and Triton C API.', ['--streaming']],
    ['can not use streaming with synchronous API', ['--streaming', '--sync', '-i', 'grpc']],
    ['Using compression algorithm is only allowed with gRPC protocol.', ['--grpc-compression-algorithm', 'gzip']],
    ['Failed to parse -i (protocol). The value should be either HTTP or gRPC.', ['-i', 'tcp']],
    ['Failed to parse -b (batch size). The value must be > 0.', ['-b', '0']],
    ['Failed to parse --measurement-interval (-p). The value must be > 0 msec.', ['-p', '0']],
    ['Failed to parse --measurement-interval (-p). Invalid value provided: x', ['-p', 'x']],
    ['Failed to parse --measurement-request-count. The value must be > 0.', ['--measurement-request-count', '0']],
    ['Failed to parse --latency-threshold (-l). The value must be >= 0 msecs.', ['-l', '-1']],
    ['Failed to parse --stability-percentage (-s). The value must be >= 0.0.', ['-s', '-1']],
    ['Failed to parse --max-trials (-r). The value must be > 0.', ['-r', '0']],
    ['Failed to parse --max-threads. The value must be > 0.', ['--max-threads', '0']],
    ['Failed to parse --num-of-sequences. The value must be > 0.', ['--num-of-sequences', '0']],
    ['Failed to parse --output-shared-memory-size. The value must be >= 0.', ['--output-shared-memory-size', '-1']],
    ['Failed to parse --string-length. The value must be > 0.', ['--string-length', '0']],
    ['Failed to parse --percentile. The value must be -1 for not reporting or in range (0, 100).', ['--percentile', '100']],
    ['Failed to parse --concurrency-range. The value does not match <start:end:step>.', ['--concurrency-range', '1:2:3:4']],
    ['Failed to parse --concurrency-range. Invalid value provided: a', ['--concurrency-range', 'a']],
    ['Failed to parse --sequence-id-range. The value does not match <start:end>.', ['--sequence-id-range', '1:2:3']],
    ["Failed to parse --sequence-id-range. The 'end' value must be greater than 'start' value.", ['--sequence-id-range', '5:2']],
    ['Failed to parse --sequence-id-range. The range values must be >= 0.', ['--sequence-id-range', '-5']],
    ['Failed to parse --sequence-length-variation. The value must be >= 0.0.', ['--sequence-length-variation', '-5']],
    ['Failed to parse --shape. There must be a colon after input name.', ['--shape', 'x']],
    ['Failed to parse --shape. The dimensions of input tensor must be > 0.', ['--shape', 'x:0']],
    ["Failed to parse --input-data. Unsupported type provided: '/no/such'. The available options are 'zero', 'random', path to a directory, or a json file.", ['--input-data', '/no/such']],
    ['The -z flag cannot be set when --data-directory is provided.', ['-z', '--input-data', folder]],
    ["Failed to parse --measurement-mode. Unsupported type provided: 'x'. The available options are 'time_windows' or 'count_windows'.", ['--measurement-mode', 'x']],
    ["Failed to parse --trace-level. Unsupported type provided: 'MAX'. The available options are 'OFF', 'TIMESTAMPS', or 'TENSORS'.", ['--trace-level', 'MAX']],
    ['Must specify --collect-metrics when using the --metrics-url option.', ['--metrics-url', 'x']],
    ['Must specify --collect-metrics when using the --metrics-interval option.', ['--metrics-interval', '5']],
    ['Failed to parse --metrics-interval. The value must be > 0 msecs.', ['--collect-metrics', '--metrics-interval', '0']],
    ['--request-count can not be less than concurrency', ['--request-count', '3', '--concurrency-range', '4']],
    ['--request-count not supported with multiple concurrency values in one run', ['--request-count', '9', '--concurrency-range', '1:4']],
    ['--request-count can not be less than request rate', ['--request-count', '3', ...rate]],
    ['--request-count not supported with multiple request rate values in one run', ['--request-count', '30', '--request-rate-range', '10:20']],
    [`${periodic} Both <start> and <end> values must be provided.`, [...stream, '--periodic-concurrency-range', '4']],
    [`${periodic} The <start> must be <= <end>.`, [...stream, '--periodic-concurrency-range', '4:1']],
    [`${periodic} The <step> value must be a factor of the range size (<end> - <start>).`, [...stream, '--periodic-concurrency-range', '1:4:2']],
    ['The --periodic-concurrency-range option requires bi-directional gRPC streaming.', ['--periodic-concurrency-range', '1:4']],
    ['Must provide --profile-export-file when using the --periodic-concurrency-range option.', [...stream, '--periodic-concurrency-range', '1:4']],
    ['Failed to parse --profile-export-file. Path must not already exist.', ['--profile-export-file', intervals]],
    [`Failed to parse -f. There is no folder '/no/such' for '/no/such/x.csv'.`, ['-f', '/no/such/x.csv']],
    [`Failed to parse --report. The value must be the name of a file, got '${folder}'.`, ['--report', folder]],
    ['Failed to parse --ssl-https-verify-host. The value must be either 0, 1, or 2.', ['--ssl-https-verify-host', '3']],
    ['Failed to parse --ssl-grpc-root-certifications-file. The value must be a valid file path.', ['--ssl-grpc-root-certifications-file', '/no/such']],
    ["Failed to parse --ssl-https-private-key-type. Unsupported type provided: 'PFX'. The available options are 'PEM' or 'DER'.", ['--ssl-https-private-key-type', 'PFX']],
    ["Failed to parse --service-kind. Unsupported type provided: 'other'. The available options are 'triton', 'openai', 'tfserving', 'torchserve', 'triton_c_api', or 'dynamic_grpc'.", ['--service-kind', 'other']],
    ["Failed to parse --shared-memory. Unsupported type provided: 'x'. The available options are 'system', 'cuda', or 'none'.", ['--shared-memory', 'x']],
    ["Failed to parse --request-parameter. The value does not match <name:value:type>, got 'a:b'.", ['--request-parameter', 'a:b']],
    ["Failed to parse --request-parameter. '-1' is no uint, in 'a:-1:uint'.", ['--request-parameter', 'a:-1:uint']],
    ["Failed to parse -u. The value must be HOST:PORT, got 'box'.", ['-u', 'box']],
    ["Failed to parse -u. The value must be HOST:PORT, got 'box:99999'.", ['-u', 'box:99999']],
    ["-H 'Content-Length: 3': Content-Length says where a request ends, and follows from its data", ['-H', 'Content-Length: 3']],
  ] // prettier-ignore
  for (const [text, args] of cases) {
    test(`${args.join(' ')}: ${text}`, () => assert.equal(refusal('-m', 'simple', ...args), text))
  }

  test('no model', () => assert.equal(refusal(), 'Failed to parse -m (model name). The value must be specified.'))
})

test('service kinds that are not there say what is missing', () => {
  for (const kind of ['tfserving', 'torchserve', 'triton_c_api', 'dynamic_grpc']) {
    assert.match(refusal('-m', 'x', '--service-kind', kind), new RegExp(`^--service-kind ${kind}: .*(version|here)`))
  }
  assert.match(refusal('-m', 'x', '--endpoint', 'v1/chat'), /--endpoint belongs to --service-kind openai/)
})
