// Which options go together, in perf_analyzer's words.

import { OptionError, type OptionWords } from './option-words.ts'
import type { PerfOptions } from './perf-options.ts'

type Rule = readonly [isBroken: boolean, refusal: string]

/** Throws OptionError for the first rule that is broken. */
export function validateOptions(options: PerfOptions, words: OptionWords): void {
  for (const [isBroken, refusal] of rulesOf(options, words)) if (isBroken) throw new OptionError(refusal)
}

function rulesOf(options: PerfOptions, words: OptionWords): readonly Rule[] {
  const { load, protocol, isStreaming, requestCount } = options
  const has = (name: string): boolean => words.has(name)
  const hasOld = has('threads') || has('dynamic') || has('concurrency')
  return [
    ...elsewhereRules(words),
    [options.model === '', '-m flag must be specified'],
    [options.batchSize <= 0, 'batch size must be > 0'],
    [options.measurement.intervalMs <= 0, 'measurement window must be > 0 in msec'],
    [options.measurement.requestCount <= 0, 'measurement request count must be > 0'],
    [load.kind !== 'intervals' && load.start <= 0, 'The start of the search range must be > 0'],
    [load.kind !== 'intervals' && load.step <= 0, 'The step of the search range must be > 0'],
    [isStreaming && protocol !== 'grpc', 'streaming is only allowed with gRPC protocol'],
    [has('grpc-compression-algorithm') && protocol !== 'grpc', 'compression is only allowed with gRPC protocol'],
    [options.maxThreads <= 0, 'maximum number of threads must be > 0'],
    [has('async') && has('sync'), 'Both --async and --sync can not be specified simultaneously.'],
    [isStreaming && has('sync'), 'can not use streaming with synchronous API'],
    [has('concurrency-range') && hasOld, 'can not use deprecated options with --concurrency-range'],
    [has('request-rate-range') && hasOld, 'can not use concurrency options with --request-rate-range'],
    [
      has('request-rate-range') && has('concurrency-range'),
      'can not specify concurrency_range and request_rate_range simultaneously',
    ],
    [has('request-intervals') && hasOld, 'can not use deprecated options with --request-intervals'],
    [
      has('request-intervals') && (has('request-rate-range') || has('concurrency-range')),
      'can not use --concurrency-range or --request-rate-range along with --request-intervals',
    ],
    ...periodicRules(options, words),
    ...searchRules(options),
    [requestCount < 0, '--request-count must be >= 0'],
    [options.warmupCount < 0, '--warmup-request-count must be >= 0'],
    ...requestCountRules(options),
    [
      has('metrics-url') && !has('collect-metrics'),
      'Must specify --collect-metrics when using the --metrics-url option.',
    ],
    [
      has('metrics-interval') && !has('collect-metrics'),
      'Must specify --collect-metrics when using the --metrics-interval option.',
    ],
    [options.metrics.intervalMs <= 0, 'Metrics interval must be larger than 0 milliseconds.'],
    [
      options.sharedMemory !== 'none' && options.inputFormat === 'json' && has('input-tensor-format'),
      '--input-tensor-format json has no use with shared memory',
    ],
    [options.sequence.count <= 0, '--num-of-sequences must be > 0'],
    [options.input.stringLength < 0, '--string-length must be >= 0'],
  ]
}

const elsewhereRules = (words: OptionWords): Rule[] => [
  [words.has('enable-mpi'), '--enable-mpi: measuring several models by MPI is not in this version'],
  ...(['endpoint', 'session-concurrency', 'fixed-schedule'] as const).map((name): Rule => [
    words.has(name),
    `--${name} belongs to --service-kind openai, which is not in this version`,
  ]),
  ...(['grpc-method', 'proto'] as const).map((name): Rule => [
    words.has(name),
    `--${name} belongs to --service-kind dynamic_grpc, which is not in this version`,
  ]),
  ...(['triton-server-directory', 'model-repository'] as const).map((name): Rule => [
    words.has(name),
    `--${name} belongs to --service-kind triton_c_api, which is not in this version`,
  ]),
]

function periodicRules({ load, profileFile, isStreaming }: PerfOptions, words: OptionWords): Rule[] {
  if (load.kind !== 'periodic') {
    return [[words.has('request-period'), '--request-period needs --periodic-concurrency-range']]
  }
  const others = ['concurrency-range', 'request-rate-range', 'request-intervals'].find((name) => words.has(name))
  return [
    [others !== undefined, `can not use --${others ?? ''} along with --periodic-concurrency-range`],
    [profileFile === '', 'must provide --profile-export-file when using the --periodic-concurrency-range option'],
    [!isStreaming, 'The --periodic-concurrency-range option requires bidirectional gRPC streaming.'],
    [load.period <= 0, '--request-period must be > 0'],
    [load.end < load.start, 'The end of the periodic concurrency range can not be less than its start'],
  ]
}

function searchRules({ load, isBinarySearch, latencyThresholdMs }: PerfOptions): Rule[] {
  if (load.kind !== 'concurrency' && load.kind !== 'rate') {
    return [[isBinarySearch, 'Binary search needs --concurrency-range or --request-rate-range.']]
  }
  return [
    [
      load.end === 0 && latencyThresholdMs === 0,
      'The end of the search range and the latency limit can not be both 0 (or 0.0) simultaneously',
    ],
    [load.end === 0 && isBinarySearch, 'The end of the range can not be 0 (or 0.0) for binary search mode.'],
    [isBinarySearch && latencyThresholdMs === 0, 'The latency threshold can not be 0 for binary search mode.'],
    [
      isBinarySearch && load.end < load.start,
      'The end of the range can not be less than start of the range for binary search mode.',
    ],
  ]
}

function requestCountRules({ load, requestCount }: PerfOptions): Rule[] {
  if (requestCount === 0 || (load.kind !== 'concurrency' && load.kind !== 'rate')) return []
  const isRate = load.kind === 'rate'
  return [
    [requestCount < load.start, `request-count can not be less than ${isRate ? 'request rate' : 'concurrency'}`],
    [
      load.start !== load.end,
      `request-count not supported with multiple ${isRate ? 'request rate' : 'concurrency'} values in one run`,
    ],
  ]
}
