// The command line → one object of options. Errors have perf_analyzer's texts where it has one.

import { readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import type { ParameterValue } from '../client/infer-request.ts'
import { OptionError, readOptionWords, type OptionWords } from './option-words.ts'
import { serviceKindOf } from './service-kind.ts'
import { bracketed, parseServerUrl } from './server-url.ts'
import { readTlsOptions } from './tls-options.ts'
import { failedToParse, WordReader } from './word-reader.ts'

type Range = { readonly start: number; readonly end: number; readonly step: number }

type LoadOptions =
  | ({ readonly kind: 'concurrency' } & Range)
  | ({ readonly kind: 'rate'; readonly distribution: 'constant' | 'poisson' } & Range)
  | { readonly kind: 'intervals'; readonly intervalsUs: readonly number[] }
  | ({ readonly kind: 'periodic'; readonly period: number } & Range)

/** The options of `galatea perf`. */
export type PerfOptions = Readonly<ReturnType<typeof optionsOf>>

type ReadOptions =
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
  const warnings: string[] = []
  return { kind: 'run', options: optionsOf(words, warnings), words, warnings }
}

function optionsOf(words: OptionWords, warnings: string[]) {
  const reader = new WordReader(words)
  const protocol = protocolOf(reader)
  const url = reader.last('url') ?? (protocol === 'grpc' ? 'localhost:8001' : 'localhost:8000')
  const tls = readTlsOptions(protocol, url, words)
  const { host } = parseServerUrl(url, protocol)
  const load = loadOptions(reader)
  const calls: 'sync' | 'async' | 'default' = words.has('sync') ? 'sync' : words.has('async') ? 'async' : 'default'
  return {
    model: reader.last('model-name') ?? '',
    version: reader.last('model-version') ?? '',
    serviceKind: serviceKindOf(reader.last('service-kind') ?? 'triton'),
    /** Of an OpenAI server, without a slash at its beginning. */
    endpoint: (reader.last('endpoint') ?? 'v1/chat/completions').replace(/^\/+/, ''),
    protocol,
    url,
    tls,
    calls,
    isStreaming: words.has('streaming'),
    verbosity: words.get('verbose')?.length ?? 0,
    load,
    isBinarySearch: words.has('binary-search'),
    /** 0: none. */
    latencyThresholdMs: reader.integer('latency-threshold', 0, 0, ' msecs'),
    maxThreads: reader.integer('max-threads', load.kind === 'concurrency' ? 16 : 4, 1),
    isMaxThreadsGiven: words.has('max-threads'),
    measurement: {
      mode: reader.choice('measurement-mode', ['time_windows', 'count_windows'], 'time_windows'),
      intervalMs: reader.integer('measurement-interval', 5000, 1, ' msec'),
      requestCount: reader.integer('measurement-request-count', 50, 1),
      /** A share: 0.1 for 10 %. */
      stability: reader.atLeastZero('stability-percentage', 10) / 100,
      maxTrials: reader.integer('max-trials', 10, 1),
      /** Null: the average. */
      percentile: percentileOf(reader),
    },
    requestCount: reader.integer('request-count', 0, 0),
    warmupCount: reader.integer('warmup-request-count', 0, 0),
    seed: reader.integer('seed', 1),
    batchSize: reader.integer('batch-size', 1, 1),
    sequence: sequenceOptions(reader, warnings),
    input: inputOptions(reader),
    sharedMemory: sharedMemoryOf(reader),
    outputSharedMemoryBytes: reader.integer('output-shared-memory-size', 102_400, 0),
    inputFormat: reader.choice('input-tensor-format', ['binary', 'json'], 'binary'),
    outputFormat: reader.choice('output-tensor-format', ['binary', 'json'], 'binary'),
    headers: reader.all('header').map(headerOf),
    parameters: Object.fromEntries<ParameterValue>(reader.all('request-parameter').map(parameterOf)),
    compression: reader.choice('grpc-compression-algorithm', ['gzip', 'deflate', 'none'], 'none'),
    metrics: {
      isCollected: words.has('collect-metrics'),
      url: reader.last('metrics-url') ?? `${bracketed(host)}:8002/metrics`,
      intervalMs: reader.integer('metrics-interval', 1000, 1, ' msecs'),
    },
    composingModels: (reader.last('bls-composing-models') ?? '')
      .split(',')
      .map((each) => each.trim())
      .filter((each) => each !== '')
      .map((each) => [each.split(':')[0] ?? '', each.split(':')[1] ?? ''] as const),
    traceSettings: traceSettingsOf(reader),
    /** '' for none, as the other files. */
    csvFile: outputFileOf(reader, 'filename'),
    isVerboseCsv: words.has('verbose-csv'),
    profileFile: newFileOf(reader, 'profile-export-file'),
    reportFile: outputFileOf(reader, 'report'),
  }
}

function loadOptions(reader: WordReader): LoadOptions {
  const { words } = reader
  if (words.has('periodic-concurrency-range')) {
    const range = rangeOf(reader, 'periodic-concurrency-range')
    return { kind: 'periodic', period: reader.integer('request-period', 10, 1), ...range }
  }
  if (words.has('request-intervals')) {
    return { kind: 'intervals', intervalsUs: intervalsOf(reader.last('request-intervals') ?? '') }
  }
  const distribution = reader.choice('request-distribution', ['poisson', 'constant'], 'constant')
  if (words.has('request-rate-range')) {
    return {
      kind: 'rate',
      distribution,
      ...rangeOf(reader, 'request-rate-range'),
    }
  }
  if (words.has('concurrency-range')) {
    return { kind: 'concurrency', ...rangeOf(reader, 'concurrency-range') }
  }
  const start = reader.integer('threads', 1)
  return {
    kind: 'concurrency',
    start,
    end: words.has('dynamic') ? reader.integer('max-concurrency', 0) : start,
    step: 1,
  }
}

function protocolOf(reader: WordReader): 'http' | 'grpc' {
  const word = (reader.last('protocol') ?? 'http').toLowerCase()
  if (word === 'http' || word === 'grpc') return word
  throw failedToParse('protocol', 'The value should be either HTTP or gRPC.')
}

function rangeOf(reader: WordReader, name: string): Range {
  const text = reader.last(name) ?? ''
  const parts = text.split(':')
  if (parts.length > 3) throw failedToParse(name, 'The value does not match <start:end:step>.')
  const isRate = name === 'request-rate-range'
  const numbers = parts.map((part) => {
    if (!(isRate ? /^\d+(\.\d+)?$/ : /^\d+$/).test(part)) throw failedToParse(name, `Invalid value provided: ${text}`)
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
    throw failedToParse('percentile', 'The value must be -1 for not reporting or in range (0, 100).')
  }
  return percentile
}

function sequenceOptions(reader: WordReader, warnings: string[]) {
  const given = reader.integer('sequence-length', 20)
  if (given <= 0) {
    warnings.push(
      'The sequence length must be > 0. Perf Analyzer will use default value if it is measuring on sequence model.',
    )
  }
  return {
    count: reader.integer('num-of-sequences', 4, 1),
    length: given <= 0 ? 20 : given,
    isLengthGiven: reader.words.has('sequence-length'),
    lengthVariation: reader.atLeastZero('sequence-length-variation', 20) / 100,
    ...sequenceIdsOf(reader, warnings),
  }
}

function sequenceIdsOf(reader: WordReader, warnings: string[]): { readonly startId: number; readonly idCount: number } {
  const name = 'sequence-id-range'
  const text = reader.last(name) ?? '1'
  const parts = text.split(':')
  if (parts.length > 2) throw failedToParse(name, 'The value does not match <start:end>.')
  if (!parts.every((part) => /^-?\d{1,15}$/.test(part))) throw failedToParse(name, `Invalid value provided: ${text}`)
  const [start = 1, end = Infinity] = parts.map(Number)
  if (start < 0 || end < 0) throw failedToParse(name, 'The range values must be >= 0.')
  if (start > end) throw failedToParse(name, "The 'end' value must be greater than 'start' value.")
  if (start === 0) {
    warnings.push(
      'using an invalid start sequence id. Perf Analyzer will use default value if it is measuring on sequence model.',
    )
  }
  return { startId: Math.max(1, start), idCount: end === Infinity ? 0 : end - start }
}

function inputOptions(reader: WordReader) {
  const given = [...reader.all('input-data'), ...reader.all('data-directory')]
  const paths = given.filter((word) => word !== 'zero' && word !== 'random')
  const wrong = paths.find((path) => statSync(path, { throwIfNoEntry: false }) === undefined)
  if (wrong !== undefined) {
    throw failedToParse(
      'input-data',
      `Unsupported type provided: '${wrong}'. The available options are 'zero', 'random', path to a directory, or a json file.`,
    )
  }
  const isZero = given.includes('zero') || reader.words.has('zero')
  if (isZero && paths.length > 0) {
    throw new OptionError('The -z flag cannot be set when --data-directory is provided.')
  }
  return {
    /** Files and folders; empty for data that is made up. */
    paths,
    isZero,
    shapes: new Map(reader.all('shape').map(shapeOf)),
    stringLength: reader.integer('string-length', 128, 1),
    stringData: reader.last('string-data') ?? null,
  }
}

function shapeOf(text: string): readonly [string, readonly number[]] {
  const colon = text.lastIndexOf(':')
  if (colon < 0) throw failedToParse('shape', 'There must be a colon after input name.')
  const parts = text.slice(colon + 1).split(',')
  if (!parts.every((part) => /^-?\d+$/.test(part))) throw failedToParse('shape', `Invalid value provided: ${text}`)
  const shape = parts.map(Number)
  if (shape.some((size) => size <= 0)) throw failedToParse('shape', 'The dimensions of input tensor must be > 0.')
  return [text.slice(0, colon), shape]
}

function sharedMemoryOf(reader: WordReader): 'none' | 'system' {
  const word = reader.choice('shared-memory', ['system', 'cuda', 'none'], 'none')
  if (word === 'cuda') throw new OptionError('--shared-memory cuda is not supported: this client has no CUDA')
  return word
}

/** Checks early that the file can be written, because it is written only after all measurements. */
function outputFileOf(reader: WordReader, name: string): string {
  const file = reader.last(name)
  if (file === undefined) return ''
  const isFolder = (folder: string): boolean => statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true
  if (file === '' || isFolder(file)) throw failedToParse(name, `The value must be the name of a file, got '${file}'.`)
  const folder = path.dirname(file)
  if (!isFolder(folder)) throw failedToParse(name, `There is no folder '${folder}' for '${file}'.`)
  return file
}

function newFileOf(reader: WordReader, name: string): string {
  const file = reader.last(name)
  if (file !== undefined && statSync(file, { throwIfNoEntry: false }) !== undefined) {
    throw failedToParse(name, 'Path must not already exist.')
  }
  return outputFileOf(reader, name)
}

const framingHeaders = new Set(['content-length', 'transfer-encoding', 'inference-header-content-length'])

function headerOf(text: string): readonly [string, string] {
  const colon = text.indexOf(':')
  if (colon <= 0) throw new OptionError(`-H must be NAME:VALUE, got '${text}'`)
  const [name, value] = [text.slice(0, colon).trim(), text.slice(colon + 1).trim()]
  if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || /[\r\n\0]/.test(value)) throw new OptionError(`-H '${text}' is no header`)
  if (framingHeaders.has(name.toLowerCase())) {
    throw new OptionError(`-H '${text}': ${name} says where a request ends, and follows from its data`)
  }
  return [name, value]
}

/** Name, value and type; the value may have colons of its own. */
function parameterOf(text: string): readonly [string, ParameterValue] {
  const match = /^([^:]+):(.*):(string|int|uint|bool|float|double)$/i.exec(text)
  if (match === null) {
    throw failedToParse('request-parameter', `The value does not match <name:value:type>, got '${text}'.`)
  }
  const [, name = '', value = ''] = match
  const type = match[3]?.toLowerCase()
  if (type === 'string') return [name, value]
  if (type === 'bool' && /^(true|false)$/i.test(value)) return [name, value.toLowerCase() === 'true']
  if ((type === 'int' && /^-?\d+$/.test(value)) || (type === 'uint' && /^\d+$/.test(value)))
    return [name, BigInt(value)]
  if ((type === 'float' || type === 'double') && value !== '' && Number.isFinite(Number(value)))
    return [name, Number(value)]
  throw failedToParse('request-parameter', `'${value}' is no ${type}, in '${text}'.`)
}

/** Levels are a list, the others one number each. */
function traceSettingsOf(reader: WordReader): Record<string, string | string[]> {
  const levels = reader.all('trace-level')
  const wrong = levels.find((level) => !['OFF', 'TIMESTAMPS', 'TENSORS'].includes(level))
  if (wrong !== undefined) {
    throw failedToParse(
      'trace-level',
      `Unsupported type provided: '${wrong}'. The available options are 'OFF', 'TIMESTAMPS', or 'TENSORS'.`,
    )
  }
  const numbers = [['trace-rate', 1], ['trace-count', -1], ['log-frequency', 0]] as const // prettier-ignore
  const given = numbers.filter(([name]) => reader.words.has(name))
  return {
    ...(levels.length > 0 ? { trace_level: [...levels] } : {}),
    ...Object.fromEntries(
      given.map(([name, least]) => [name.replaceAll('-', '_'), String(reader.integer(name, 0, least))]),
    ),
  }
}

function textOf(file: string, flag: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (reason) {
    throw new OptionError(`${flag}: cannot read ${file} (${(reason as NodeJS.ErrnoException).code ?? String(reason)})`)
  }
}
