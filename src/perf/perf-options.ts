// The command line → one object that everything else is made from. perf_analyzer's texts where it has one.

import { readFileSync, statSync } from 'node:fs'
import type { ParameterValue } from '../client/infer-request.ts'
import type { TlsTarget } from './load/socket.ts'
import { OptionError, readOptionWords, type OptionWords } from './option-words.ts'
import { serviceKindOf, type ServiceKind } from './service-kind.ts'
import { readTlsOptions } from './tls-options.ts'

export type Range = { readonly start: number; readonly end: number; readonly step: number }

export type LoadOptions =
  | ({ readonly kind: 'concurrency' } & Range)
  | ({ readonly kind: 'rate'; readonly distribution: 'constant' | 'poisson' } & Range)
  | { readonly kind: 'intervals'; readonly intervalsUs: readonly number[] }
  | ({ readonly kind: 'periodic'; readonly period: number } & Range)

export type MeasurementOptions = {
  readonly mode: 'time_windows' | 'count_windows'
  readonly intervalMs: number
  readonly requestCount: number
  /** A share: 0.1 for 10 %. */
  readonly stability: number
  readonly maxTrials: number
  /** Null: the average. */
  readonly percentile: number | null
}

export type PerfOptions = {
  readonly model: string
  readonly version: string
  readonly serviceKind: ServiceKind
  readonly protocol: 'http' | 'grpc'
  readonly url: string
  readonly tls: TlsTarget | null
  readonly calls: 'default' | 'async' | 'sync'
  readonly isStreaming: boolean
  readonly verbosity: number
  readonly load: LoadOptions
  readonly isBinarySearch: boolean
  /** 0: none. */
  readonly latencyThresholdMs: number
  readonly maxThreads: number
  readonly isMaxThreadsGiven: boolean
  readonly measurement: MeasurementOptions
  readonly requestCount: number
  readonly warmupCount: number
  readonly seed: number
  readonly batchSize: number
  readonly sequence: {
    readonly count: number
    readonly length: number
    readonly isLengthGiven: boolean
    readonly lengthVariation: number
    readonly startId: number
    readonly idCount: number
  }
  readonly input: {
    /** Files and folders; empty for data that is made up. */
    readonly paths: readonly string[]
    readonly isZero: boolean
    readonly shapes: ReadonlyMap<string, readonly number[]>
    readonly stringLength: number
    readonly stringData: string | null
  }
  readonly sharedMemory: 'none' | 'system'
  readonly outputSharedMemoryBytes: number
  readonly inputFormat: 'binary' | 'json'
  readonly outputFormat: 'binary' | 'json'
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly parameters: Readonly<Record<string, ParameterValue>>
  readonly compression: 'none' | 'gzip' | 'deflate'
  readonly metrics: { readonly isCollected: boolean; readonly url: string; readonly intervalMs: number }
  readonly composingModels: readonly (readonly [name: string, version: string])[]
  readonly traceSettings: Readonly<Record<string, string>>
  /** '' for none, as the other files. */
  readonly csvFile: string
  readonly isVerboseCsv: boolean
  readonly profileFile: string
  readonly reportFile: string
}

export type ReadOptions =
  | { readonly kind: 'help' }
  | { readonly kind: 'version' }
  | {
      readonly kind: 'run'
      readonly options: PerfOptions
      readonly words: OptionWords
      readonly warnings: readonly string[]
    }

export function readPerfOptions(args: readonly string[]): ReadOptions {
  const words = readOptionWords(args)
  if (words.has('help')) return { kind: 'help' }
  if (words.has('version')) return { kind: 'version' }
  const reader = new WordReader(words)
  const protocol = reader.choice('protocol', ['http', 'grpc'], 'http', 'protocol should be either HTTP or gRPC', true)
  const url = reader.last('url') ?? (protocol === 'grpc' ? 'localhost:8001' : 'localhost:8000')
  const load = loadOptions(reader)
  const warnings: string[] = []
  const options: PerfOptions = {
    model: reader.last('model-name') ?? '',
    version: reader.last('model-version') ?? '',
    serviceKind: serviceKindOf(reader.last('service-kind') ?? 'triton'),
    protocol,
    url,
    tls: readTlsOptions(protocol, url, words),
    calls: words.has('sync') ? 'sync' : words.has('async') ? 'async' : 'default',
    isStreaming: words.has('streaming'),
    verbosity: words.get('verbose')?.length ?? 0,
    load,
    isBinarySearch: words.has('binary-search'),
    latencyThresholdMs: reader.integer('latency-threshold', 0),
    maxThreads: reader.integer('max-threads', load.kind === 'concurrency' ? 16 : 4),
    isMaxThreadsGiven: words.has('max-threads'),
    measurement: {
      mode: reader.choice(
        'measurement-mode',
        ['time_windows', 'count_windows'],
        'time_windows',
        'unsupported --measurement-mode specified',
      ),
      intervalMs: reader.integer('measurement-interval', 5000),
      requestCount: reader.integer('measurement-request-count', 50),
      stability: reader.number('stability-percentage', 10) / 100,
      maxTrials: reader.integer('max-trials', 10),
      percentile: percentileOf(reader),
    },
    requestCount: reader.integer('request-count', 0),
    warmupCount: reader.integer('warmup-request-count', 0),
    seed: reader.integer('seed', 1),
    batchSize: reader.integer('batch-size', 1),
    sequence: sequenceOptions(reader, warnings),
    input: inputOptions(reader),
    sharedMemory: sharedMemoryOf(reader),
    outputSharedMemoryBytes: reader.integer('output-shared-memory-size', 102_400),
    inputFormat: reader.choice(
      'input-tensor-format',
      ['binary', 'json'],
      'binary',
      "--input-tensor-format must be 'binary' or 'json'",
    ),
    outputFormat: reader.choice(
      'output-tensor-format',
      ['binary', 'json'],
      'binary',
      "--output-tensor-format must be 'binary' or 'json'",
    ),
    headers: reader.all('header').map(headerOf),
    parameters: Object.fromEntries(reader.all('request-parameter').map(parameterOf)),
    compression: reader.choice(
      'grpc-compression-algorithm',
      ['none', 'gzip', 'deflate'],
      'none',
      'unsupported --grpc-compression-algorithm specified',
    ),
    metrics: {
      isCollected: words.has('collect-metrics'),
      url: reader.last('metrics-url') ?? `${url.replace(/^https?:\/\//, '').replace(/:\d+$/, '')}:8002/metrics`,
      intervalMs: reader.integer('metrics-interval', 1000),
    },
    composingModels: (reader.last('bls-composing-models') ?? '')
      .split(',')
      .map((each) => each.trim())
      .filter((each) => each !== '')
      .map((each) => [each.split(':')[0] ?? '', each.split(':')[1] ?? ''] as const),
    traceSettings: traceSettingsOf(reader),
    csvFile: reader.last('filename') ?? '',
    isVerboseCsv: words.has('verbose-csv'),
    profileFile: reader.last('profile-export-file') ?? '',
    reportFile: reader.last('report') ?? '',
  }
  return { kind: 'run', options, words, warnings }
}

class WordReader {
  readonly words: OptionWords

  constructor(words: OptionWords) {
    this.words = words
  }

  last(name: string): string | undefined {
    return this.words.get(name)?.at(-1)
  }

  all(name: string): readonly string[] {
    return this.words.get(name) ?? []
  }

  integer(name: string, fallback: number): number {
    const text = this.last(name)
    if (text === undefined) return fallback
    if (!/^-?\d{1,15}$/.test(text)) throw new OptionError(`--${name} must be a whole number, got '${text}'`)
    return Number(text)
  }

  number(name: string, fallback: number): number {
    const text = this.last(name)
    if (text === undefined) return fallback
    const value = Number(text)
    if (text.trim() === '' || !Number.isFinite(value))
      throw new OptionError(`--${name} must be a number, got '${text}'`)
    return value
  }

  choice<Word extends string>(
    name: string,
    known: readonly Word[],
    fallback: Word,
    refusal: string,
    ignoresCase = false,
  ): Word {
    const text = this.last(name)
    if (text === undefined) return fallback
    const found = known.find((word) => word === (ignoresCase ? text.toLowerCase() : text))
    if (found === undefined) throw new OptionError(refusal)
    return found
  }
}

function loadOptions(reader: WordReader): LoadOptions {
  const { words } = reader
  if (words.has('periodic-concurrency-range')) {
    const range = rangeOf(reader, 'periodic-concurrency-range', 'failed to parse periodic concurrency range')
    return { kind: 'periodic', period: reader.integer('request-period', 10), ...range }
  }
  if (words.has('request-intervals')) {
    return { kind: 'intervals', intervalsUs: intervalsOf(reader.last('request-intervals') ?? '') }
  }
  const distribution = reader.choice(
    'request-distribution',
    ['constant', 'poisson'],
    'constant',
    `unsupported request distribution provided ${reader.last('request-distribution')}`,
  )
  if (words.has('request-rate-range')) {
    return {
      kind: 'rate',
      distribution,
      ...rangeOf(reader, 'request-rate-range', 'failed to parse request rate range'),
    }
  }
  if (words.has('concurrency-range')) {
    return { kind: 'concurrency', ...rangeOf(reader, 'concurrency-range', 'failed to parse concurrency range') }
  }
  const start = reader.integer('threads', 1)
  return { kind: 'concurrency', start, end: words.has('dynamic') ? reader.integer('concurrency', 0) : start, step: 1 }
}

function rangeOf(reader: WordReader, name: string, refusal: string): Range {
  const text = reader.last(name) ?? ''
  const parts = text.split(':')
  if (parts.length > 3) throw new OptionError(`option ${name} can have maximum of three elements`)
  const isRate = name === 'request-rate-range'
  const numbers = parts.map((part) => {
    if (!(isRate ? /^\d+(\.\d+)?$/ : /^\d+$/).test(part)) throw new OptionError(`${refusal}: ${text}`)
    return Number(part)
  })
  // perf_analyzer's ranges end at 1 unless they say otherwise: one load, the start.
  const [start = 1, end = start, step = 1] = numbers
  return { start, end, step }
}

function intervalsOf(file: string): readonly number[] {
  const lines = textOf(file, '--request-intervals')
    .split(/\s+/)
    .filter((line) => line !== '')
  const numbers = lines.map(Number)
  const wrong = lines.find((_, at) => !((numbers[at] ?? NaN) >= 0))
  if (wrong !== undefined)
    throw new OptionError(`--request-intervals: '${wrong}' in ${file} is no number of microseconds`)
  if (!numbers.some((us) => us > 0)) throw new OptionError(`--request-intervals: ${file} has no interval above 0`)
  return numbers
}

function percentileOf(reader: WordReader): number | null {
  const percentile = reader.integer('percentile', -1)
  if (percentile === -1) return null
  if (percentile > 99 || percentile < 1) {
    throw new OptionError('percentile must be -1 for not reporting or in range (0, 100)')
  }
  return percentile
}

function sequenceOptions(reader: WordReader, warnings: string[]): PerfOptions['sequence'] {
  const range = (reader.last('sequence-id-range') ?? '1').split(':')
  if (range.length > 2) throw new OptionError('option sequence-id-range can have maximum of two elements')
  if (!range.every((part) => /^\d{1,15}$/.test(part))) {
    throw new OptionError(`failed to parse sequence-id-range: ${reader.last('sequence-id-range')}`)
  }
  let [startId = 1, endId = 0] = range.map(Number)
  if (startId === 0) {
    startId = 1
    warnings.push(
      'using an invalid start sequence id. Perf Analyzer will use default value if it is measuring on sequence model.',
    )
  }
  let length = reader.integer('sequence-length', 20)
  if (length === 0) {
    length = 20
    warnings.push(
      'using an invalid sequence length. Perf Analyzer will use default value if it is measuring on sequence model.',
    )
  }
  const lengthVariation = reader.number('sequence-length-variation', 20) / 100
  if (lengthVariation < 0) throw new OptionError('sequence length variation must be positive')
  return {
    count: reader.integer('num-of-sequences', 4),
    length,
    isLengthGiven: reader.words.has('sequence-length'),
    lengthVariation,
    startId,
    idCount: endId === 0 ? 0 : endId - startId,
  }
}

function inputOptions(reader: WordReader): PerfOptions['input'] {
  const given = [...reader.all('input-data'), ...reader.all('data-directory')]
  const paths = given.filter((word) => word !== 'zero' && word !== 'random')
  const wrong = paths.find((path) => statSync(path, { throwIfNoEntry: false }) === undefined)
  if (wrong !== undefined) throw new OptionError(`unsupported input data provided ${wrong}`)
  const isZero = given.includes('zero') || reader.words.has('zero')
  if (isZero && paths.length > 0) throw new OptionError("zero input can't be set when data directory is provided")
  return {
    paths,
    isZero,
    shapes: new Map(reader.all('shape').map(shapeOf)),
    stringLength: reader.integer('string-length', 128),
    stringData: reader.last('string-data') ?? null,
  }
}

function shapeOf(text: string): readonly [string, readonly number[]] {
  const colon = text.lastIndexOf(':')
  if (colon < 0) throw new OptionError('failed to parse input shape. There must be a colon after input name.')
  const parts = text.slice(colon + 1).split(',')
  if (!parts.every((part) => /^-?\d+$/.test(part))) throw new OptionError(`failed to parse input shape: ${text}`)
  const shape = parts.map(Number)
  if (shape.some((size) => size <= 0)) throw new OptionError('input shape must be > 0')
  return [text.slice(0, colon), shape]
}

function sharedMemoryOf(reader: WordReader): 'none' | 'system' {
  const word = reader.last('shared-memory') ?? 'none'
  if (word === 'none' || word === 'system') return word
  if (word === 'cuda') throw new OptionError('cuda shared memory is not supported: this client has no CUDA')
  throw new OptionError(
    `unsupported --shared-memory type provided: '${word}'. Choices are 'system', 'cuda', or 'none'.`,
  )
}

function headerOf(text: string): readonly [string, string] {
  const colon = text.indexOf(':')
  if (colon <= 0) throw new OptionError(`-H must be NAME:VALUE, got '${text}'`)
  const [name, value] = [text.slice(0, colon).trim(), text.slice(colon + 1).trim()]
  if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || /[\r\n\0]/.test(value)) throw new OptionError(`-H '${text}' is no header`)
  return [name, value]
}

/** Name, value and type; the value may have colons of its own. */
function parameterOf(text: string): readonly [string, ParameterValue] {
  const match = /^([^:]+):(.*):(string|int|uint|bool|float|double)$/.exec(text)
  if (match === null) throw new OptionError(`failed to parse request parameter '${text}': expected NAME:VALUE:TYPE`)
  const [, name = '', value = '', type] = match
  if (type === 'string') return [name, value]
  if (type === 'bool' && /^(true|false)$/.test(value)) return [name, value === 'true']
  if ((type === 'int' || type === 'uint') && /^-?\d+$/.test(value)) return [name, BigInt(value)]
  if ((type === 'float' || type === 'double') && value !== '' && Number.isFinite(Number(value)))
    return [name, Number(value)]
  throw new OptionError(`failed to parse request parameter '${text}': '${value}' is no ${type}`)
}

function traceSettingsOf(reader: WordReader): Record<string, string> {
  const names = ['trace-level', 'trace-rate', 'trace-count', 'log-frequency']
  const given = names.filter((name) => reader.words.has(name))
  return Object.fromEntries(given.map((name) => [name.replaceAll('-', '_'), reader.last(name) ?? '']))
}

function textOf(file: string, flag: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (reason) {
    throw new OptionError(`${flag}: cannot read ${file} (${(reason as NodeJS.ErrnoException).code ?? String(reason)})`)
  }
}
