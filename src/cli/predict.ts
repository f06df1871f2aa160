// `galatea predict --model m images/*.jpg`: uploads files to a running server, and says what they are and how fast that went.

import { isUtf8 } from 'node:buffer'
import { readdir, readFile, stat } from 'node:fs/promises'
import { constants } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { SystemClock } from '../base/clock.ts'
import { messageOf } from '../base/server-error.ts'
import { startHint } from '../base/start-hint.ts'
import { percentileOf } from '../perf/client-summary.ts'
import type { CommandIo } from './command-io.ts'
import { withoutEchoes } from './exit-signals.ts'
import { openCsv, openJsonLines, resultText, type Lines, type Outcome, type Prediction } from './predict-lines.ts'
import { printable } from './printable.ts'

const usage = `Usage: galatea predict --model MODEL [options] FILE|FOLDER…

Uploads pictures, sounds or texts to POST /v2/models/MODEL/predict of a running server, and prints the best classes of each file. The
model says in galatea.yaml how its files are prepared: docs/guide/predict.md.

  -m, --model=NAME         model to ask
  -u, --url=URL            server (default http://localhost:8000)
  -c, --concurrency=N      uploads at a time (default 8)
  -k, --top-k=N            classes of each file (default: what the model says)
      --csv=FILE           write a line for each file, in the order of the answers; replaces FILE
      --jsonl=FILE         the same with a JSON object in each line
  -H, --header='N: V'      header of every request, as 'Authorization: Bearer …'; may be repeated
      --timeout-secs=N     longest time of one upload (default 60)
      --help

A folder stands for the files in it whose names do not begin with a dot. After Ctrl-C no other upload begins, and what was answered is written;
a second Ctrl-C ends the command at once. Exit status: 0; 1 where an upload failed; 3 for a mistake in the options; 130 after Ctrl-C.
`

type Settings = {
  readonly model: string
  readonly url: string
  readonly concurrency: number
  readonly topK: string
  readonly csv: string
  readonly jsonl: string
  readonly headers: Headers
  readonly timeoutMs: number
  readonly places: readonly string[]
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
  const url = values.url.includes('://') ? values.url : `http://${values.url}`
  if (!/^https?:/i.test(url) || !URL.canParse(url))
    throw new UsageError(`--url must be an address as http://localhost:8000, got '${values.url}'`)
  return {
    model: values.model,
    url: url.replace(/\/+$/, ''),
    concurrency: wholeNumber('concurrency', values.concurrency, 1, 1024),
    topK: values['top-k'] === '' ? '' : String(wholeNumber('top-k', values['top-k'], 1, 1000)),
    csv: values.csv,
    jsonl: values.jsonl,
    headers: readHeaders(values.header),
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

function readHeaders(texts: readonly string[]): Headers {
  const headers = new Headers({ 'Content-Type': 'application/octet-stream' })
  for (const text of texts) {
    const colon = text.indexOf(':')
    try {
      headers.set(text.slice(0, Math.max(0, colon)).trim(), text.slice(colon + 1).trim())
    } catch {
      throw new UsageError(`--header must be 'Name: value', got '${text}'`)
    }
  }
  return headers
}

/** Names are bytes on Linux, and those that are no UTF-8 have no text by which they could be opened. */
type Source = { readonly name: string; readonly path: string | Buffer }

async function filesOf(places: readonly string[]): Promise<Source[]> {
  const files: Source[] = []
  for (const place of places) {
    const isFolder = await isFolderAt(place).catch((reason: unknown) => {
      throw new UsageError(`cannot read '${place}': ${messageOf(reason)}`)
    })
    // One by one: a function takes fewer arguments than a folder may have files.
    if (isFolder) for (const file of await filesIn(place)) files.push(file)
    else files.push({ name: place, path: place })
  }
  if (files.length === 0) throw new UsageError(`there is no file in ${places.map((place) => `'${place}'`).join(', ')}`)
  return files
}

const isFolderAt = async (place: string): Promise<boolean> => (await stat(place)).isDirectory()

const isFileOrLost = (link: string | Buffer): Promise<boolean> =>
  stat(link).then(
    (found) => found.isFile(),
    () => true,
  )

/** Also those that are links to a file. A link to nothing is an upload that fails. */
async function filesIn(folder: string): Promise<Source[]> {
  const entries = await readdir(folder, { withFileTypes: true, encoding: 'buffer' }).catch((reason: unknown) => {
    throw new UsageError(`cannot read the folder '${folder}': ${messageOf(reason)}`)
  })
  const files: Source[] = []
  for (const entry of entries.filter(({ name }) => name[0] !== dot)) {
    const name = path.join(folder, entry.name.toString())
    const file = isUtf8(entry.name) ? name : Buffer.concat([Buffer.from(path.join(folder, path.sep)), entry.name])
    if (entry.isFile() || (entry.isSymbolicLink() && (await isFileOrLost(file)))) files.push({ name, path: file })
  }
  return files.sort((a, b) => (a.name < b.name ? -1 : 1))
}

const dot = 0x2e

async function openOutputs({ csv, jsonl }: Settings, files: readonly Source[]): Promise<Lines[]> {
  const uploaded = new Set(files.map(({ name }) => path.resolve(name)))
  const outputs: Lines[] = []
  const places: string[] = []
  for (const [name, file, open] of [
    ['csv', csv, openCsv],
    ['jsonl', jsonl, openJsonLines],
  ] as const) {
    if (file === '') continue
    const place = path.resolve(file)
    if (uploaded.has(place))
      throw new UsageError(`--${name} would replace '${file}', which is one of the files to upload`)
    if (places.includes(place)) throw new UsageError(`--csv and --jsonl name the same file '${file}'`)
    places.push(place)
    outputs.push(
      await open(file).catch((reason: unknown) => {
        throw new UsageError(`cannot write --${name} '${file}': ${messageOf(reason)}`)
      }),
    )
  }
  return outputs
}

async function predictAll(settings: Settings, files: readonly Source[], io: CommandIo): Promise<number> {
  const clock = new SystemClock()
  const outputs = await openOutputs(settings, files)
  const bar = new ProgressBar(files.length, io, process.stderr.isTTY ? process.stderr.columns || 80 : 0)
  const interruption = new Interruption()
  const latencies: number[] = []
  let failed = 0
  const startNs = clock.nowNs()
  let next = 0
  const lane = async (): Promise<void> => {
    for (let file = files[next++]; file !== undefined && interruption.status === 0; file = files[next++]) {
      const outcome = await upload(settings, file, clock)
      if (outcome.error === '') latencies.push(outcome.latencyMs)
      else failed++
      for (const output of outputs) output.add(outcome)
      bar.clear()
      if (outcome.error !== '') io.stderr(`${lineOf(file.name)}: ${printable(outcome.error)}\n`)
      else if (outputs.length === 0) io.stdout(`${lineOf(file.name)}: ${printable(resultText(outcome.prediction))}\n`)
      bar.show(latencies.length + failed, failed)
    }
  }
  await Promise.all(Array.from({ length: Math.min(settings.concurrency, files.length) }, lane))
  interruption.end()
  const seconds = (clock.nowNs() - startNs) / 1e9
  bar.clear()
  let status = failed === 0 ? 0 : 1
  for (const output of outputs) {
    await output.end().catch((reason: unknown) => {
      status = 1
      io.stderr(`galatea predict: cannot write '${output.file}': ${messageOf(reason)}\n`)
    })
  }
  io.stdout(summary(settings, latencies, failed, seconds))
  if (interruption.status === 0) return status
  io.stderr(`galatea predict: ended after ${latencies.length + failed} of ${files.length} files\n`)
  return interruption.status
}

/** A name has a line of its own. */
const lineOf = (file: string): string => printable(file).replaceAll('\n', '\\x0a')

/** After the first signal no other upload begins, and the second one ends the process. */
class Interruption {
  /** As a shell tells of the signal; 0: none came. */
  status = 0
  readonly #listener = withoutEchoes((signal: 'SIGINT' | 'SIGTERM') => {
    if (this.status !== 0) process.exit(this.status)
    this.status = 128 + constants.signals[signal]
  })

  constructor() {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, this.#listener)
  }

  end(): void {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, this.#listener)
  }
}

async function upload(settings: Settings, file: Source, clock: SystemClock): Promise<Outcome> {
  const query = settings.topK === '' ? '' : `?top_k=${settings.topK}`
  const address = `${settings.url}/v2/models/${encodeURIComponent(settings.model)}/predict${query}`
  const signal = AbortSignal.timeout(settings.timeoutMs)
  let startNs = clock.nowNs()
  const outcome = (error: string, prediction: Prediction = {}): Outcome => ({
    file: file.name,
    latencyMs: (clock.nowNs() - startNs) / 1e6,
    error,
    prediction,
  })
  try {
    const body = await readFile(file.path)
    startNs = clock.nowNs()
    const answer = await fetch(address, { method: 'POST', body, headers: settings.headers, signal })
    const text = await answer.text()
    if (answer.status !== 200) return outcome(errorText(text, answer.status))
    return outcome('', firstPrediction(JSON.parse(text)))
  } catch (reason) {
    if (signal.aborted) return outcome(`there was no answer for ${settings.timeoutMs / 1000} s: --timeout-secs`)
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
    // 100 % means all of them.
    [
      'Success',
      `${latencies.length} (${(Math.floor((1000 * latencies.length) / Math.max(1, total)) / 10).toFixed(1)} %)`,
    ],
  ] as const
  return rows.map(([name, value]) => `${name.padEnd(13)}${value}\n`).join('')
}

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
