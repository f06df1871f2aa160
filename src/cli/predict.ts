// `galatea predict --model m images/*.jpg`: uploads files to a running server, and says what they are and how fast that went.

import { createWriteStream, type WriteStream } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import { finished } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import { SystemClock } from '../base/clock.ts'
import { messageOf } from '../base/server-error.ts'
import { startHint } from '../base/start-hint.ts'
import { percentileOf } from '../perf/client-summary.ts'
import type { CommandIo } from './command-io.ts'
import { printable } from './printable.ts'

const usage = `Usage: galatea predict --model MODEL [options] FILE|FOLDER…

Uploads pictures, sounds or texts to POST /v2/models/MODEL/predict of a running server, and prints the best classes of each file. The
model says in galatea.yaml how its files are prepared: docs/guide/predict.md.

  -m, --model=NAME         model to ask
  -u, --url=URL            server (default http://localhost:8000)
  -c, --concurrency=N      uploads at a time (default 8)
  -k, --top-k=N            classes of each file (default: what the model says)
      --csv=FILE           write a line for each file
      --jsonl=FILE         write a JSON object for each file
  -H, --header='N: V'      header of every request, as 'Authorization: Bearer …'; may be repeated
      --timeout-secs=N     longest time of one upload (default 60)
      --help

A folder stands for the files in it. Exit status: 0; 1 where an upload failed; 3 for a mistake in the options.
`

type Settings = {
  readonly model: string
  readonly url: string
  readonly concurrency: number
  readonly topK: string
  readonly csv: string
  readonly jsonl: string
  readonly headers: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly places: readonly string[]
}

type Class = { readonly label?: string; readonly index: number; readonly score: number | string }
type Prediction = { readonly classes?: readonly Class[]; readonly values?: readonly unknown[] }
type Outcome = {
  readonly file: string
  readonly latencyMs: number
  /** '' for an answer. */
  readonly error: string
  readonly prediction: Prediction
}

const noHeaders: string[] = []

class UsageError extends Error {}

/** Resolves with the exit status. */
export async function runPredict(args: string[], io: CommandIo): Promise<number> {
  if (args.includes('--help') || args.length === 0) {
    io.stdout(usage)
    return args.length === 0 ? 3 : 0
  }
  try {
    const settings = readSettings(args)
    const files = await filesOf(settings.places)
    return await predictAll(settings, files, io)
  } catch (reason) {
    if (!(reason instanceof UsageError)) throw reason
    io.stderr(`galatea predict: ${reason.message}\nRun 'galatea predict --help' for its options.\n`)
    return 3
  }
}

function readSettings(args: string[]): Settings {
  const options = {
    model: { type: 'string', short: 'm' },
    url: { type: 'string', short: 'u', default: 'http://localhost:8000' },
    concurrency: { type: 'string', short: 'c', default: '8' },
    'top-k': { type: 'string', short: 'k', default: '' },
    csv: { type: 'string', default: '' },
    jsonl: { type: 'string', default: '' },
    header: { type: 'string', short: 'H', multiple: true, default: noHeaders },
    'timeout-secs': { type: 'string', default: '60' },
  } as const
  const { values, positionals } = parsed(() => parseArgs({ args, options, allowPositionals: true }))
  if (values.model === undefined) throw new UsageError('--model names the model to ask')
  if (positionals.length === 0) throw new UsageError('name the files to upload')
  const url = /^https?:\/\//.test(values.url) ? values.url : `http://${values.url}`
  if (!URL.canParse(url)) throw new UsageError(`--url must be an address as http://localhost:8000, got '${values.url}'`)
  return {
    model: values.model,
    url: url.replace(/\/+$/, ''),
    concurrency: wholeNumber('concurrency', values.concurrency, 1, 1024),
    topK: values['top-k'] === '' ? '' : String(wholeNumber('top-k', values['top-k'], 1, 1000)),
    csv: values.csv,
    jsonl: values.jsonl,
    headers: Object.fromEntries(values.header.map(readHeader)),
    timeoutMs: wholeNumber('timeout-secs', values['timeout-secs'], 1, 86_400) * 1000,
    places: positionals,
  }
}

function parsed<T>(read: () => T): T {
  try {
    return read()
  } catch (reason) {
    throw new UsageError(messageOf(reason))
  }
}

function wholeNumber(name: string, text: string, from: number, to: number): number {
  const value = Number(text)
  if (text.trim() !== '' && Number.isInteger(value) && value >= from && value <= to) return value
  throw new UsageError(`--${name} must be a whole number from ${from} to ${to}, got '${text}'`)
}

function readHeader(text: string): [string, string] {
  const colon = text.indexOf(':')
  if (colon <= 0) throw new UsageError(`--header must be 'Name: value', got '${text}'`)
  return [text.slice(0, colon).trim(), text.slice(colon + 1).trim()]
}

async function filesOf(places: readonly string[]): Promise<string[]> {
  const files: string[] = []
  for (const place of places) {
    const found = await stat(place).catch((reason: unknown) => {
      throw new UsageError(`cannot read '${place}': ${messageOf(reason)}`)
    })
    if (!found.isDirectory()) files.push(place)
    else {
      const entries = await readdir(place, { withFileTypes: true })
      const names = entries.filter((entry) => entry.isFile()).map(({ name }) => name)
      files.push(...names.sort().map((name) => path.join(place, name)))
    }
  }
  if (files.length === 0) throw new UsageError(`there is no file in ${places.map((place) => `'${place}'`).join(', ')}`)
  return files
}

async function predictAll(settings: Settings, files: readonly string[], io: CommandIo): Promise<number> {
  const clock = new SystemClock()
  const writers = [openCsv(settings.csv), openLines(settings.jsonl)].filter((writer) => writer !== null)
  const bar = new ProgressBar(files.length, io, process.stderr.isTTY ? process.stderr.columns || 80 : 0)
  const latencies: number[] = []
  let failed = 0
  const startNs = clock.nowNs()
  let next = 0
  const lane = async (): Promise<void> => {
    for (let file = files[next++]; file !== undefined; file = files[next++]) {
      const outcome = await upload(settings, file, clock)
      if (outcome.error === '') latencies.push(outcome.latencyMs)
      else failed++
      for (const writer of writers) writer.add(outcome)
      bar.clear()
      if (outcome.error !== '') io.stderr(`${printable(file)}: ${printable(outcome.error)}\n`)
      else if (writers.length === 0) io.stdout(`${printable(file)}: ${printable(resultText(outcome.prediction))}\n`)
      bar.show(latencies.length + failed, failed)
    }
  }
  await Promise.all(Array.from({ length: Math.min(settings.concurrency, files.length) }, lane))
  const seconds = (clock.nowNs() - startNs) / 1e9
  bar.clear()
  for (const writer of writers) await writer.end()
  io.stdout(summary(settings, latencies, failed, seconds))
  return failed === 0 ? 0 : 1
}

async function upload(settings: Settings, file: string, clock: SystemClock): Promise<Outcome> {
  const query = settings.topK === '' ? '' : `?top_k=${settings.topK}`
  const address = `${settings.url}/v2/models/${encodeURIComponent(settings.model)}/predict${query}`
  let startNs = clock.nowNs()
  const outcome = (error: string, prediction: Prediction = {}): Outcome => ({
    file,
    latencyMs: (clock.nowNs() - startNs) / 1e6,
    error,
    prediction,
  })
  try {
    const body = await readFile(file)
    startNs = clock.nowNs()
    const headers = { 'Content-Type': 'application/octet-stream', ...settings.headers }
    const signal = AbortSignal.timeout(settings.timeoutMs)
    const answer = await fetch(address, { method: 'POST', body, headers, signal })
    const text = await answer.text()
    if (answer.status !== 200) return outcome(errorText(text, answer.status))
    return outcome('', firstPrediction(JSON.parse(text)))
  } catch (reason) {
    const cause = reason instanceof Error && reason.cause !== undefined ? `: ${messageOf(reason.cause)}` : ''
    return outcome(`${messageOf(reason)}${cause}${startHint(cause, '--url')}`)
  }
}

function errorText(body: string, status: number): string {
  try {
    const { error } = JSON.parse(body) as { error?: unknown }
    if (typeof error === 'string') return error
  } catch {
    // A proxy between here and the server may answer with a page of its own.
  }
  return `the server answered with status ${status}`
}

/** Throws for an answer of another form: one file has failed then, and the others go on. */
function firstPrediction(answer: unknown): Prediction {
  const { predictions = [] } = (answer ?? {}) as { predictions?: readonly unknown[] }
  const [first = {}] = Array.isArray(predictions) ? predictions : [null]
  const { classes = [], values = [] } = (first ?? { classes: null }) as Record<string, unknown>
  const isForm = [classes, values].every(Array.isArray) && (classes as unknown[]).every((each) => each !== null)
  if (!isForm) throw new Error('the answer of the server is no prediction')
  return first as Prediction
}

const classText = ({ label, index, score }: Class): string =>
  `${label ?? index} ${typeof score === 'number' ? Number(score.toPrecision(4)) : score}`

const resultText = ({ classes, values = [] }: Prediction): string =>
  classes?.map(classText).join(', ') ?? values.slice(0, 20).map(String).join(' ')

function summary({ concurrency }: Settings, latencies: number[], failed: number, seconds: number): string {
  const total = latencies.length + failed
  const sorted = Float64Array.from(latencies).sort()
  const mean = latencies.reduce((sum, each) => sum + each, 0) / Math.max(1, latencies.length)
  const rows = [
    ['Total', `${total}`],
    ['Concurrency', `${concurrency}`],
    ['Avg', `${mean.toFixed(1)} ms`],
    ['P99', `${(sorted.length === 0 ? 0 : percentileOf(sorted, 99)).toFixed(1)} ms`],
    ['Throughput', `${(latencies.length / seconds).toFixed(1)} files/s`],
    ['Success', `${latencies.length} (${((100 * latencies.length) / total).toFixed(1)} %)`],
  ] as const
  return rows.map(([name, value]) => `${name.padEnd(13)}${value}\n`).join('')
}

type Writer = { add(outcome: Outcome): void; end(): Promise<void> }

function opened(file: string, head: string, line: (outcome: Outcome) => string): Writer | null {
  if (file === '') return null
  const stream: WriteStream = createWriteStream(file)
  stream.write(head)
  return {
    add: (outcome) => stream.write(`${line(outcome)}\n`),
    end: () => finished(stream.end()),
  }
}

const openLines = (file: string): Writer | null =>
  opened(file, '', ({ file: name, latencyMs, error, prediction }) => {
    const { file: _named, ...told } = prediction as Prediction & { file?: string }
    return JSON.stringify({ file: name, latency_ms: round(latencyMs), ...(error === '' ? told : { error }) })
  })

const openCsv = (file: string): Writer | null =>
  opened(file, 'file,latency_ms,label,index,score,classes,error\n', ({ file: name, latencyMs, error, prediction }) => {
    const best = prediction.classes?.[0]
    const cells = [
      name,
      round(latencyMs),
      best?.label,
      best?.index,
      best?.score,
      error === '' ? resultText(prediction) : '',
    ]
    return [...cells, error].map((cell) => quoted(String(cell ?? ''))).join(',')
  })

const round = (ms: number): number => Math.round(ms * 1000) / 1000
const quoted = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)

/** One line that is rewritten in place; nothing where the output is no terminal. */
class ProgressBar {
  readonly #total: number
  readonly #io: CommandIo
  readonly #columns: number

  constructor(total: number, io: CommandIo, columns: number) {
    this.#total = total
    this.#io = io
    this.#columns = columns
  }

  show(done: number, failed: number): void {
    if (this.#columns === 0) return
    const count = ` ${done}/${this.#total}${failed === 0 ? '' : `, ${failed} failed`}`
    const width = Math.max(10, Math.min(40, this.#columns - count.length - 4))
    const full = Math.round((width * done) / this.#total)
    this.#io.stderr(`\r\x1b[2K[${'#'.repeat(full)}${'.'.repeat(width - full)}]${count}`)
  }

  clear(): void {
    if (this.#columns > 0) this.#io.stderr('\r\x1b[2K')
  }
}
