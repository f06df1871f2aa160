// A whole run: asks the server about the model, prepares requests, measures loads, writes reports.

import { closeSync, openSync, writeFileSync } from 'node:fs'
import { messageOf } from '../base/server-error.ts'
import { startHint } from '../base/start-hint.ts'
import { createGrpcClient } from '../client/grpc/grpc-client.ts'
import { HttpClient } from '../client/http/http-client.ts'
import type { InferenceClient } from '../client/inference-client.ts'
import { InferenceError } from '../client/inference-error.ts'
import { createPerfFetch } from './perf-fetch.ts'
import { generatedStep } from './generated-input.ts'
import { readInputFiles } from './input-files.ts'
import { InputDataError, type InputStreams } from './input-step.ts'
import { searchByHalves, searchLinearly } from './load-search.ts'
import type { LoadSetup } from './load/load-order.ts'
import { readModel, type ModelUnderTest } from './model-under-test.ts'
import { OptionError } from './option-words.ts'
import type { PerfOptions } from './perf-options.ts'
import { expectedOutputs, grpcFields, prepareRequests } from './prepare-requests.ts'
import { isAsync, LoadError, Profiler, ShortWindowError, type LevelResult } from './profiler.ts'
import type { ProgressLine } from './progress-line.ts'
import { csvFiles } from './report-csv.ts'
import { reportHtml } from './report-html.ts'
import { profilePieces } from './report-json.ts'
import { levelText, loadTitle, passText, settingsText, summaryText } from './report-text.ts'
import { SharedTensors } from './shared-tensors.ts'
import { targetOf } from './server-url.ts'

/** perf_analyzer's exit codes. */
export const exitCode = { ok: 0, unstable: 2, option: 3, generic: 99 } as const

type PerfHost = {
  readonly stdout: (text: string) => void
  readonly stderr: (text: string) => void
  /** Null when there is no terminal. */
  readonly progress: ProgressLine | null
  /** Resolves when the user interrupts the run. */
  readonly interrupted: Promise<void>
  readonly version: string
  /** The command line, for the report. */
  readonly command: string
  /** The machine that the requests come from, for the report. */
  readonly machine: string
}

/** Resolves with the exit status. */
export async function runPerf(options: PerfOptions, host: PerfHost): Promise<number> {
  if (options.serviceKind === 'openai') return runOpenAiServer(options, host)
  const client = await connect(options)
  try {
    return await runWith(client, options, host)
  } catch (reason) {
    host.progress?.clear()
    if (reason instanceof OptionError) throw reason
    const isKnown = reason instanceof LoadError || reason instanceof InputDataError
    host.stderr(`${isKnown ? '' : 'error: '}${messageOf(reason)}${addressHint(reason, options)}\n`)
    return reason instanceof ShortWindowError ? exitCode.option : exitCode.generic
  } finally {
    await client.close()
  }
}

async function runOpenAiServer(options: PerfOptions, host: PerfHost): Promise<number> {
  const { runOpenAi } = await import('./openai/run-openai.ts')
  try {
    return (await runOpenAi(options, host)) ? exitCode.ok : exitCode.generic
  } catch (reason) {
    if (!(reason instanceof InputDataError)) throw reason
    host.stderr(`${messageOf(reason)}\n`)
    return exitCode.generic
  }
}

/** A hint for an address with the port of the other protocol. */
function addressHint(reason: unknown, { url, protocol }: PerfOptions): string {
  if (!(reason instanceof InferenceError)) return ''
  if (!/broke off|protocol/i.test(reason.message)) return startHint(reason.message, '-u <host:port>')
  return ` (is ${url} where the server speaks ${protocol === 'grpc' ? 'gRPC, and not HTTP' : 'HTTP, and not gRPC'}?)`
}

export async function connect(options: PerfOptions): Promise<InferenceClient> {
  const { url, tls, headers } = options
  const common = {
    url: tls === null || url.startsWith('https://') ? url : `https://${url}`,
    headers: Object.fromEntries(headers),
  }
  if (options.protocol === 'http')
    return new HttpClient(tls === null ? common : { ...common, fetch: createPerfFetch(tls) })
  if (tls === null) return createGrpcClient(common)
  const { ca, cert, key } = tls
  return createGrpcClient({
    ...common,
    tls: { ...(ca === null ? {} : { ca }), ...(cert === null ? {} : { cert }), ...(key === null ? {} : { key }) },
  })
}

async function runWith(client: InferenceClient, options: PerfOptions, host: PerfHost): Promise<number> {
  const model = await readModel(client, options.model, options.version, options.composingModels)
  validateForModel(options, model)
  if (Object.keys(options.traceSettings).length > 0)
    await client.updateTraceSettings(options.traceSettings, options.model)
  const streams: InputStreams =
    options.input.paths.length > 0
      ? readInputFiles(options.input.paths, model, options.input.shapes)
      : [[generatedStep(model.inputs, options.input, options.seed)]]
  const shared = options.sharedMemory === 'system' ? await SharedTensors.create(client, streams, model, options) : null
  try {
    if (shared !== null && streams.some((steps) => steps.some((step) => step.expected !== null))) {
      host.stderr('WARNING: outputs in shared memory are not compared with validation_data\n')
    }
    const setup = setupOf(options, model, streams, shared)
    host.stdout(settingsText(options, model))
    if (options.verbosity > 1) host.stdout(inputText(streams))
    const profiler = new Profiler(client, model, options, setup, eventsOf(options, host), host.interrupted)
    try {
      return await measureAll(profiler, options, model, streams, host)
    } finally {
      await profiler.close()
    }
  } finally {
    await shared?.close()
  }
}

export function validateForModel(
  { batchSize, isStreaming, load, sequence, calls, input }: PerfOptions,
  model: ModelUnderTest,
): void {
  if (model.maxBatchSize === 0 && batchSize > 1) {
    throw new LoadError('can not specify batch size > 1 as the model does not support batching')
  }
  if (model.maxBatchSize > 0 && batchSize > model.maxBatchSize) {
    throw new LoadError(`can not specify batch size > ${model.maxBatchSize}: that is the model's max_batch_size`)
  }
  if (model.isSequence && batchSize > 1) {
    throw new LoadError('can not specify batch size > 1 when using a sequence model')
  }
  if (model.isDecoupled && !isStreaming) {
    throw new LoadError(`model '${model.name}' is decoupled: measure it with -i grpc --streaming`)
  }
  if (model.isSequence && load.kind === 'concurrency' && load.end === 0 && calls !== 'sync') {
    throw new LoadError("The 'end' concurrency can not be 0 for sequence models when using asynchronous API.")
  }
  const atOnce = load.kind === 'concurrency' ? Math.max(load.start, load.end) : sequence.count
  if (model.isSequence && sequence.idCount !== 0 && sequence.idCount < atOnce) {
    const what = load.kind === 'concurrency' ? 'concurrency' : 'number of sequences'
    throw new LoadError(
      `sequence id range specified is smaller than the maximum possible ${what}, sequence id collision may occur.`,
    )
  }
  const unknown = [...input.shapes.keys()].find((name) => !model.inputs.some((each) => each.name === name))
  if (unknown !== undefined) {
    throw new LoadError(
      `--shape names the input '${unknown}', which the model has not: ${model.inputs.map(({ name }) => name).join(', ')}`,
    )
  }
}

export function setupOf(
  options: PerfOptions,
  model: ModelUnderTest,
  streams: InputStreams,
  shared: SharedTensors | null,
): Omit<LoadSetup, 'counters' | 'share'> {
  const { sequence, seed, isStreaming, protocol } = options
  const target = targetOf(options.url, protocol, options.tls)
  const isFromFile = options.input.paths.length > 0
  return {
    protocol: protocol === 'http' ? 'http' : isStreaming ? 'grpc-stream' : 'grpc',
    target,
    fields: grpcFields(options, target),
    requests: prepareRequests(streams, model, options, target, shared?.placed ?? null),
    // Outputs in shared memory are not in the answer.
    expected: shared === null ? expectedOutputs(streams, options.batchSize) : null,
    isDecoupled: model.isDecoupled,
    sequence: model.isSequence
      ? {
          startId: sequence.startId,
          idCount: sequence.idCount,
          length: isFromFile && !sequence.isLengthGiven ? null : sequence.length,
          lengthVariation: sequence.lengthVariation,
          seed,
          share: 0,
          shares: 1,
        }
      : null,
    isExporting: options.profileFile !== '',
  }
}

const inputText = (streams: InputStreams): string =>
  `${(streams[0]?.[0]?.inputs ?? [])
    .map(
      ({ name, dataType, shape, bytes }) => `  Input ${name}: ${dataType} [${shape.join(',')}], ${bytes.length} bytes`,
    )
    .join('\n')}\n\n`

function eventsOf(options: PerfOptions, { stdout, progress }: PerfHost): ConstructorParameters<typeof Profiler>[4] {
  return {
    onWindow: (window, number) => {
      if (options.verbosity === 0) return
      progress?.clear()
      stdout(passText(window, number, options.measurement.percentile))
    },
    onTick: ({ load, window, done, failed }) => {
      progress?.show(loadTitle(options.load, load), window, done, failed, performance.now())
    },
  }
}

async function measureAll(
  profiler: Profiler,
  options: PerfOptions,
  model: ModelUnderTest,
  streams: InputStreams,
  host: PerfHost,
): Promise<number> {
  const all: LevelResult[] = []
  const measure = async (load: number): Promise<boolean> => {
    host.stdout(`${loadTitle(options.load, load)}\n`)
    const result = await measureUnlessInterrupted(profiler, load, host)
    host.progress?.clear()
    if (result === null) return false
    all.push(result)
    report(result, profiler, options, model, host)
    return result.isStable && !result.isOverThreshold && !result.isInterrupted
  }
  const { load } = options
  if (load.kind === 'intervals') await measure(rateOf(load.intervalsUs))
  else if (load.kind === 'periodic') await measure(load.end)
  else if (options.isBinarySearch) await searchByHalves(load, measure)
  else await searchLinearly(load, measure)
  const shown = all.filter((result) => isShown(result))
  host.stdout(summaryText(shown, options))
  // The files also have the loads that were not stable: what was measured is not thrown away.
  writeReports(
    all.filter(({ isOverThreshold }) => !isOverThreshold),
    options,
    model,
    streams,
    host,
  )
  const isUnstable =
    all.length === 1 && all.some((result) => !result.isStable && !result.isInterrupted && !result.isOverThreshold)
  if (isUnstable) host.stderr('Failed to obtain stable measurement.\n')
  return isUnstable ? exitCode.unstable : exitCode.ok
}

/** Null, with a message, when the interruption came before there was a result. */
async function measureUnlessInterrupted(profiler: Profiler, load: number, host: PerfHost): Promise<LevelResult | null> {
  try {
    return await profiler.measure(load)
  } catch (reason) {
    if (!profiler.isInterrupted) throw reason
    host.progress?.clear()
    host.stderr(`Interrupted: nothing was measured at this load (${messageOf(reason)})\n`)
    return null
  }
}

const isShown = ({ isStable, isOverThreshold, isInterrupted }: LevelResult): boolean =>
  isInterrupted || (isStable && !isOverThreshold)

const rateOf = (intervalsUs: readonly number[]): number =>
  (intervalsUs.length * 1e6) / intervalsUs.reduce((sum, us) => sum + us, 0)

function report(
  result: LevelResult,
  profiler: Profiler,
  options: PerfOptions,
  model: ModelUnderTest,
  host: PerfHost,
): void {
  const { measurement, latencyThresholdMs } = options
  for (const [text, count] of result.client.failures.slice(0, 5)) {
    host.stderr(`${count} request${count === 1 ? '' : 's'} failed: ${text}\n`)
  }
  if (profiler.metricsFailure !== '') host.stderr(`WARNING: ${profiler.metricsFailure}\n`)
  if (result.isOverThreshold) host.stderr(`Measured latency went over the set limit of ${latencyThresholdMs} msec. \n`)
  else if (result.isInterrupted) host.stderr('Interrupted: what follows was not checked for stability.\n')
  else if (!result.isStable) {
    const what = measurement.mode === 'time_windows' ? '--measurement-interval' : '--measurement-request-count'
    const load = options.load.kind === 'concurrency' ? `concurrency ${result.load}` : `request rate ${result.load}`
    host.stderr(
      `Failed to obtain stable measurement within ${measurement.maxTrials} measurement windows for ${load}. ` +
        `Please try to increase the ${what}.\nThe last windows, for what they are worth:\n`,
    )
  }
  if (result.isLatencyUnsteady && isAsync(options, model)) {
    host.stderr('Warning: Request latency is not stabilizing. Please try lowering the request rate.\n')
  }
  host.stdout(levelText(result, options, model))
}

function writeReports(
  results: readonly LevelResult[],
  options: PerfOptions,
  model: ModelUnderTest,
  streams: InputStreams,
  { version, command, machine }: PerfHost,
): void {
  if (results.length === 0) return
  if (options.csvFile !== '') {
    for (const { file, text } of csvFiles(results, options, model)) writeFileSync(file, text)
  }
  if (options.profileFile !== '') writePieces(options.profileFile, profilePieces(results, options, streams, version))
  if (options.reportFile !== '') {
    const date = new Date().toISOString().replace('T', ' ').slice(0, 16)
    writeFileSync(
      options.reportFile,
      reportHtml(results, options, model, { command, date: `${date} UTC`, version, machine }),
    )
  }
}

const pieceChars = 64 * 1024

function writePieces(file: string, pieces: Iterable<string>): void {
  const descriptor = openSync(file, 'w')
  try {
    let text = ''
    for (const piece of pieces) {
      text += piece
      if (text.length < pieceChars) continue
      writeFileSync(descriptor, text)
      text = ''
    }
    writeFileSync(descriptor, text)
  } finally {
    closeSync(descriptor)
  }
}
