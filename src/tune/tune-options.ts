// The command line of `galatea tune`.

import { parseArgs } from 'node:util'
import { nearestWord } from '../base/nearest-word.ts'
import { OptionError } from '../perf/option-words.ts'

export type TuneOptions = Readonly<Exclude<ReturnType<typeof readTuneOptions>, 'help'>>

const flags = {
  'model-name': { type: 'string', short: 'm' },
  url: { type: 'string', short: 'u' },
  protocol: { type: 'string', short: 'i' },
  'model-repository': { type: 'string' },
  'latency-ms': { type: 'string' },
  percentile: { type: 'string' },
  'first-token-ms': { type: 'string' },
  'inter-token-ms': { type: 'string' },
  'prompt-tokens': { type: 'string' },
  'output-tokens': { type: 'string' },
  'max-memory': { type: 'string' },
  'max-batch-size': { type: 'string' },
  'max-instances': { type: 'string' },
  'max-concurrency': { type: 'string' },
  minutes: { type: 'string' },
  'window-ms': { type: 'string' },
  report: { type: 'string' },
  apply: { type: 'boolean' },
  resume: { type: 'boolean' },
  state: { type: 'string' },
  'metrics-url': { type: 'string' },
  'batch-size': { type: 'string', short: 'b' },
  shape: { type: 'string', multiple: true },
  'input-data': { type: 'string', multiple: true },
  'string-length': { type: 'string' },
  'sequence-length': { type: 'string' },
  header: { type: 'string', short: 'H', multiple: true },
  help: { type: 'boolean', short: 'h' },
} as const

export const tuneHelp = `Usage: galatea tune -m MODEL --model-repository PATH [options] [-- flags of the server]
       galatea tune -m MODEL -u HOST:PORT [options]

Finds max_batch_size, the delay of dynamic batching and the number of instances that give a model the most throughput
within your limits, by measuring. With --model-repository alone it starts a server of its own; with -u it uses yours, which
must run with --model-control-mode=explicit, and loads the model with other settings meanwhile.
Of a language model (GGUF) it finds how many requests are computed at a time, how much of a prompt in one step, and the threads.

  galatea tune -m digits --model-repository models --latency-ms 20
  galatea tune -m digits -u localhost:8000 --model-repository models --latency-ms 20 --max-memory 2GB --apply

Limits:
      --latency-ms MS         No request may take longer, at the percentile (default: no limit)
      --first-token-ms MS     Language models: the first token of an answer comes sooner, at p99 (default: no limit)
      --inter-token-ms MS     The same for the time between two tokens
      --percentile P          Which share of the requests the limit is for (default 99)
      --max-memory SIZE       Of all the server's processes: 500MB, 2GB (default: no limit)
      --max-batch-size N      Largest batch to try (default 64)
      --max-instances N       Most instances to try (default: two per core, at most 8)
      --max-concurrency N     Most requests at once (default 128); language models: chats at once (default 16)
      --minutes M             When to stop searching (default 3)

Server and requests:
  -m, --model-name NAME       The model. Required
  -u, --url HOST:PORT         A running server
  -i, --protocol http|grpc    How to ask it (default http)
      --model-repository PATH Where the model's folder is: for the server that is started, for the diff and for --apply
      --metrics-url URL       Where the running server tells its memory (default http://HOST:8002/metrics)
      --prompt-tokens N       Language models: of each chat (default 128), and --output-tokens N of each answer (default 32)
  -b, --batch-size N          Rows in one request (default 1)
      --shape NAME:D,D        The shape of an input with open dimensions; --input-data FILE, --string-length N,
      --sequence-length N     --sequence-length N and -H NAME:VALUE as in galatea perf

Results:
      --report FILE           A page with charts
      --apply                 Write config.pbtxt and load the model with it
      --state FILE            Where to note what was measured (default galatea-tune-MODEL.json, removed at the end)
      --resume                Go on where an interrupted run left off
      --window-ms MS          Length of a window; three that agree are a measurement (default 400)

Exit status: 0; 1 the limits cannot be met, or something failed; 3 a mistake in the options.
`

export function readTuneOptions(args: readonly string[]) {
  const split = args.indexOf('--')
  const [own, serverFlags] = split < 0 ? [args, []] : [args.slice(0, split), args.slice(split + 1)]
  const values = parsed(own)
  if (values.help === true) return 'help' as const
  const model = values['model-name'] ?? ''
  // '' when only the running server knows the repository.
  const repository = values['model-repository'] ?? ''
  // '' when tune starts a server.
  const url = values.url ?? ''
  const protocol = values.protocol ?? 'http'
  if (model === '') throw new OptionError('-m names the model to tune')
  if (protocol !== 'http' && protocol !== 'grpc') throw new OptionError(`-i must be http or grpc, got '${protocol}'`)
  if (repository === '' && url === '') {
    throw new OptionError('say where the model is: --model-repository PATH, or -u HOST:PORT of a running server')
  }
  if (values.apply === true && repository === '') {
    throw new OptionError('--apply writes config.pbtxt: say where the models are with --model-repository PATH')
  }
  if (url !== '' && serverFlags.length > 0)
    throw new OptionError('flags after -- are for a server that tune starts; -u names one that runs')
  return {
    model,
    url,
    protocol: protocol as 'http' | 'grpc',
    repository,
    latencyMs: numberOf(values['latency-ms'], '--latency-ms', Infinity),
    percentile: within(numberOf(values.percentile, '--percentile', 99), '--percentile', 1, 99.99),
    firstTokenMs: numberOf(values['first-token-ms'], '--first-token-ms', Infinity),
    interTokenMs: numberOf(values['inter-token-ms'], '--inter-token-ms', Infinity),
    promptWords: countOf(values['prompt-tokens'], '--prompt-tokens', 128),
    outputTokens: countOf(values['output-tokens'], '--output-tokens', 32),
    memoryMib: values['max-memory'] === undefined ? Infinity : mebibytesOf(values['max-memory']),
    maxBatchSize: countOf(values['max-batch-size'], '--max-batch-size', 64),
    /** 0: by the number of cores. */
    maxInstances: countOf(values['max-instances'], '--max-instances', 0),
    maxConcurrency: countOf(values['max-concurrency'], '--max-concurrency', 128),
    minutes: numberOf(values.minutes, '--minutes', 3),
    windowMs: countOf(values['window-ms'], '--window-ms', 400),
    reportFile: values.report ?? '',
    isApplied: values.apply === true,
    isResumed: values.resume === true,
    stateFile: values.state ?? `galatea-tune-${model.replaceAll(/[^\w.-]/g, '_')}.json`,
    isStateKept: values.state !== undefined,
    metricsUrl: values['metrics-url'] ?? '',
    batchSize: countOf(values['batch-size'], '-b', 1),
    /** Arguments for `galatea perf`: data, shapes, headers. */
    perfArgs: [
      ...(values.shape ?? []).flatMap((shape) => ['--shape', shape]),
      ...(values['input-data'] ?? []).flatMap((file) => ['--input-data', file]),
      ...(values.header ?? []).flatMap((header) => ['-H', header]),
      ...(values['string-length'] === undefined ? [] : ['--string-length', values['string-length']]),
      ...(values['sequence-length'] === undefined ? [] : ['--sequence-length', values['sequence-length']]),
    ],
    serverFlags,
    /** Names of the flags that the user gave. */
    given: new Set(Object.keys(values)),
  }
}

const parsed = (args: readonly string[]) => {
  try {
    return parseArgs({ args: [...args], options: flags, allowPositionals: false }).values
  } catch (reason) {
    const message = (reason as Error).message.replace(/\. To specify.*$/s, '')
    const unknown = /^Unknown option '--([^']*)'/.exec(message)?.[1]
    const names = Object.keys(flags)
    const nearest =
      unknown === undefined ? null : (names.find((name) => name.startsWith(unknown)) ?? nearestWord(unknown, names))
    throw new OptionError(nearest === null ? message : `${message}; did you mean --${nearest}?`)
  }
}

function numberOf(text: string | undefined, name: string, fallback: number): number {
  if (text === undefined) return fallback
  const value = Number(text)
  if (!(value > 0) || text.trim() === '') throw new OptionError(`${name} must be a number above 0, got '${text}'`)
  return value
}

function countOf(text: string | undefined, name: string, fallback: number): number {
  const value = numberOf(text, name, fallback)
  if (!Number.isInteger(value)) throw new OptionError(`${name} must be a whole number, got '${text}'`)
  return value
}

function within(value: number, name: string, least: number, most: number): number {
  if (value < least || value > most) throw new OptionError(`${name} must be between ${least} and ${most}, got ${value}`)
  return value
}

/** Units by their first letter. KB, MB and GB are powers of 1024, with or without an i. */
const unitMib: Readonly<Record<string, number>> = { '': 2 ** -20, b: 2 ** -20, k: 2 ** -10, m: 1, g: 2 ** 10 }

function mebibytesOf(text: string): number {
  const [, digits = '', unit = 'no unit'] = /^\s*([\d.]+)\s*(b?|[kmg](?:i?b)?)\s*$/i.exec(text) ?? []
  const factor = unitMib[unit.toLowerCase().slice(0, 1)]
  if (digits === '' || factor === undefined || !(Number(digits) > 0)) {
    throw new OptionError(`--max-memory must be a size such as 500MB or 2GB, got '${text}'`)
  }
  return Number(digits) * factor
}
