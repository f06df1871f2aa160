// Checks which options go together, with perf_analyzer's texts.

import { OptionError, type OptionWords } from './option-words.ts'
import type { PerfOptions } from './perf-options.ts'

type Rule = readonly [isBroken: boolean, refusal: string]

/** Throws OptionError for the first rule that is broken. */
export function validateOptions(options: PerfOptions, words: OptionWords): void {
  for (const [isBroken, refusal] of rulesOf(options, words)) if (isBroken) throw new OptionError(refusal)
}

function rulesOf(options: PerfOptions, words: OptionWords): readonly Rule[] {
  const { load, protocol, isStreaming } = options
  const has = (name: string): boolean => words.has(name)
  const hasOld = has('threads') || has('dynamic') || has('max-concurrency')
  return [
    ...elsewhereRules(words),
    [options.model === '', 'Failed to parse -m (model name). The value must be specified.'],
    [load.kind === 'concurrency' && load.start <= 0, 'The start of the search range must be > 0'],
    [
      load.kind === 'rate' && load.start <= 0,
      'Failed to parse --request-rate-range. The start of the search range must be > 0.',
    ],
    [load.kind !== 'intervals' && load.step <= 0, 'The step of the search range must be > 0'],
    [
      isStreaming && protocol !== 'grpc' && options.serviceKind !== 'openai',
      'Streaming is only allowed with gRPC protocol and Triton C API.',
    ],
    [
      has('grpc-compression-algorithm') && protocol !== 'grpc',
      'Using compression algorithm is only allowed with gRPC protocol.',
    ],
    [has('async') && has('sync'), 'Cannot specify --async and --sync simultaneously.'],
    [isStreaming && has('sync'), 'can not use streaming with synchronous API'],
    [has('concurrency-range') && hasOld, 'Cannot use deprecated options with --concurrency-range.'],
    [has('request-rate-range') && hasOld, 'Cannot use concurrency options with --request-rate-range.'],
    [has('request-intervals') && hasOld, 'Cannot use deprecated options with --request-intervals.'],
    [
      loadModes.filter(has).length > 1,
      'Cannot specify more then one inference load mode. Please choose only one of the following modes: ' +
        '--concurrency-range, --periodic-concurrency-range, --request-rate-range, or --request-intervals.',
    ],
    ...periodicRules(options, words),
    ...searchRules(options),
    ...requestCountRules(options),
    [
      has('metrics-url') && !has('collect-metrics'),
      'Must specify --collect-metrics when using the --metrics-url option.',
    ],
    [
      has('metrics-interval') && !has('collect-metrics'),
      'Must specify --collect-metrics when using the --metrics-interval option.',
    ],
    [
      options.sharedMemory !== 'none' && options.inputFormat === 'json' && has('input-tensor-format'),
      '--input-tensor-format json has no use with shared memory',
    ],
  ]
}

const loadModes = ['concurrency-range', 'periodic-concurrency-range', 'request-rate-range', 'request-intervals']

const elsewhereRules = (words: OptionWords): Rule[] => [
  [words.has('enable-mpi'), '--enable-mpi: measuring several models by MPI is not in this version'],
  ...(['session-concurrency', 'fixed-schedule'] as const).map((name): Rule => [
    words.has(name),
    `--${name}: chats that go on, and schedules, are not in this version`,
  ]),
  [
    words.has('endpoint') && words.get('service-kind')?.at(-1) !== 'openai',
    '--endpoint belongs to --service-kind openai',
  ],
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
  const range = 'Failed to parse --periodic-concurrency-range.'
  const parts = words.get('periodic-concurrency-range')?.at(-1)?.split(':').length ?? 0
  return [
    [parts < 2, `${range} Both <start> and <end> values must be provided.`],
    [load.start > load.end, `${range} The <start> must be <= <end>.`],
    [
      (load.end - load.start) % load.step !== 0,
      `${range} The <step> value must be a factor of the range size (<end> - <start>).`,
    ],
    [!isStreaming, 'The --periodic-concurrency-range option requires bi-directional gRPC streaming.'],
    [profileFile === '', 'Must provide --profile-export-file when using the --periodic-concurrency-range option.'],
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
    [isBinarySearch && latencyThresholdMs === 0, 'The --latency-threshold cannot be 0 for binary search mode.'],
    [
      isBinarySearch && load.end < load.start,
      'The end of the range can not be less than start of the range for binary search mode.',
    ],
  ]
}

function requestCountRules({ load, requestCount }: PerfOptions): Rule[] {
  if (requestCount === 0 || (load.kind !== 'concurrency' && load.kind !== 'rate')) return []
  const name = load.kind === 'rate' ? 'request rate' : 'concurrency'
  return [
    [requestCount < Math.floor(load.start), `--request-count can not be less than ${name}`],
    [load.end === 0 || load.start < load.end, `--request-count not supported with multiple ${name} values in one run`],
  ]
}
