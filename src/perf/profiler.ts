// Measures one load: windows until three agree, or a fixed number of requests.

import { availableParallelism } from 'node:os'
import type { InferenceClient } from '../client/inference-client.ts'
import { stabilisingUs, summarise, type ClientSummary } from './client-summary.ts'
import type { LoadLevel, LoadSetup } from './load/load-order.ts'
import { LoadThreads, threadsForRate } from './load/load-threads.ts'
import type { ExportedRequest, WindowRecord } from './load/window-recorder.ts'
import { MetricsScraper, type MetricsSummary } from './metrics-scraper.ts'
import type { ModelUnderTest } from './model-under-test.ts'
import type { PerfOptions } from './perf-options.ts'
import { mergeServerWindows, statisticsBetween, takeStatistics, type ServerWindow } from './server-statistics.ts'
import { isOver, isOverThreshold, isStable, stabilityWindows, type WindowFigures } from './stability.ts'

export type MeasuredWindow = {
  readonly client: ClientSummary
  readonly server: ServerWindow | null
}

export type LevelResult = {
  /** Requests at once, or requests per second. */
  readonly load: number
  readonly client: ClientSummary
  readonly server: ServerWindow | null
  readonly metrics: MetricsSummary | null
  readonly latencyUs: number
  readonly isStable: boolean
  /** Only the throughput is stable; the latency keeps changing. */
  readonly isLatencyUnsteady: boolean
  readonly isOverThreshold: boolean
  readonly isInterrupted: boolean
  /** All windows, also those before the figures were stable. */
  readonly windows: readonly MeasuredWindow[]
  readonly exported: readonly ExportedRequest[]
  /** Wall-clock nanoseconds. */
  readonly boundariesNs: readonly number[]
}

/** Events of a measurement, for the display. */
type ProfilerEvents = {
  readonly onWindow: (window: MeasuredWindow, number: number) => void
  readonly onTick: (state: {
    readonly load: number
    readonly window: number
    readonly done: number
    readonly failed: number
  }) => void
}

/** All requests failed, so there is nothing to measure. */
export class LoadError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'LoadError'
  }
}

/** The windows were too short for one answer. perf_analyzer's exit status calls that an error of the options. */
export class ShortWindowError extends LoadError {
  constructor() {
    super('No valid requests recorded within time interval. Please use a larger time window.')
    this.name = 'ShortWindowError'
  }
}

type Setup = Omit<LoadSetup, 'counters' | 'share'>
type Taken = MeasuredWindow & { readonly records: readonly WindowRecord[] }

/** A thread that is busier than this may limit the figures. */
const busyShare = 0.9
const lateShare = 0.05
const tickMs = 250
const shortestCountWindowMs = 1000
const pollMs = 20

export class Profiler {
  readonly #client: InferenceClient
  readonly #model: ModelUnderTest
  readonly #options: PerfOptions
  readonly #setup: Setup
  readonly #events: ProfilerEvents
  readonly #interrupted: Promise<void>
  readonly #scraper: MetricsScraper | null
  readonly #maxThreads: number
  #threads: LoadThreads
  #isInterrupted = false

  constructor(
    client: InferenceClient,
    model: ModelUnderTest,
    options: PerfOptions,
    setup: Setup,
    events: ProfilerEvents,
    interrupted: Promise<void>,
  ) {
    this.#client = client
    this.#model = model
    this.#options = options
    this.#setup = setup
    this.#events = events
    this.#interrupted = interrupted.then(() => {
      this.#isInterrupted = true
    })
    const { metrics, maxThreads, isMaxThreadsGiven } = options
    this.#scraper = metrics.isCollected ? new MetricsScraper(metrics.url, metrics.intervalMs) : null
    // The server may be on this machine, so one core is left for it by default.
    const cores = availableParallelism()
    this.#maxThreads = Math.min(maxThreads, isMaxThreadsGiven ? cores : Math.max(1, cores - 1))
    this.#threads = new LoadThreads(setup, 1)
  }

  get isInterrupted(): boolean {
    return this.#isInterrupted
  }

  /** Why metrics cannot be collected; '' when they can, or are not wanted. */
  get metricsFailure(): string {
    return this.#scraper?.failure ?? ''
  }

  async measure(load: number): Promise<LevelResult> {
    if (this.#options.load.kind === 'rate') await this.#growTo(threadsForRate(load, this.#setup.requests.flat()))
    for (;;) {
      await this.#warmUp(load)
      await this.#scraper?.take()
      const result = await this.#measureOnce(load)
      if (result !== null) return result
    }
  }

  async close(): Promise<void> {
    this.#scraper?.close()
    await this.#threads.close()
  }

  async #warmUp(load: number): Promise<void> {
    if (this.#options.warmupCount === 0 || this.#options.load.kind === 'periodic') return
    await this.#threads.begin(levelOf(this.#options, load, this.#options.warmupCount))
    await Promise.race([this.#threads.spent, this.#interrupted])
    await this.#threads.end()
  }

  /** Null when there were too few threads; the next call uses more. */
  async #measureOnce(load: number): Promise<LevelResult | null> {
    const { measurement, requestCount, load: kind, latencyThresholdMs } = this.#options
    const isCounted = requestCount > 0 || kind.kind === 'periodic'
    const taken: Taken[] = []
    const figures: WindowFigures[] = []
    const boundariesNs = [wallNs()]
    let statistics = await takeStatistics(this.#client, this.#model)
    await this.#threads.begin(levelOf(this.#options, load, requestCount > 0 ? requestCount : null))
    let verdict = { isStable: false, isLatencyUnsteady: false }
    try {
      while (taken.length < measurement.maxTrials && !this.#isInterrupted) {
        await this.#wait(load, taken.length + 1, isCounted)
        const records = await this.#threads.cut()
        boundariesNs.push(wallNs())
        const after = await takeStatistics(this.#client, this.#model)
        const client = summarise([records], this.#options.batchSize, measurement.percentile)
        const server = statisticsBetween(statistics, after, this.#model)
        statistics = after
        if (taken.length === 0 && this.#isTooBusy(client)) {
          await this.#threads.end()
          await this.#growTo(this.#threads.count * 2)
          return null
        }
        throwIfOnlyFailures(client)
        taken.push({ client, server, records })
        figures.push(figuresOf(client, measurement.percentile))
        this.#events.onWindow({ client, server }, taken.length)
        verdict = isCounted ? { isStable: true, isLatencyUnsteady: false } : this.#verdict(figures)
        if (isCounted || verdict.isStable || isOverThreshold(figures, latencyThresholdMs)) break
      }
    } finally {
      await this.#threads.end()
    }
    return this.#resultOf(load, taken, verdict, boundariesNs)
  }

  #verdict(figures: readonly WindowFigures[]): { isStable: boolean; isLatencyUnsteady: boolean } {
    const { measurement } = this.#options
    if (isStable(figures, measurement.stability, true)) return { isStable: true, isLatencyUnsteady: false }
    // This applies only to the last window: before it the latency may still become stable.
    const isLast = figures.length >= measurement.maxTrials
    const isEnough = isLast && this.#isAsync && isStable(figures, measurement.stability, false)
    return { isStable: isEnough, isLatencyUnsteady: isEnough }
  }

  get #isAsync(): boolean {
    return isAsync(this.#options, this.#model)
  }

  async #resultOf(
    load: number,
    taken: readonly Taken[],
    verdict: { readonly isStable: boolean; readonly isLatencyUnsteady: boolean },
    boundariesNs: readonly number[],
  ): Promise<LevelResult> {
    const { batchSize, measurement, latencyThresholdMs } = this.#options
    const merged = taken.slice(-stabilityWindows)
    const client = summarise(merged.map(({ records }) => records), batchSize, measurement.percentile) // prettier-ignore
    if (client.requestCount === 0) throw new ShortWindowError()
    const latencyUs = stabilisingUs(client, measurement.percentile)
    return {
      load,
      client,
      server: mergeServerWindows(merged.map(({ server }) => server)),
      metrics: (await this.#scraper?.take()) ?? null,
      latencyUs,
      ...verdict,
      isOverThreshold: isOver(latencyUs, latencyThresholdMs),
      isInterrupted: this.#isInterrupted,
      windows: taken,
      exported: taken.flatMap(({ records }) => records.flatMap((record) => record.exported)),
      boundariesNs,
    }
  }

  async #wait(load: number, window: number, isCounted: boolean): Promise<void> {
    const { mode, intervalMs, requestCount } = this.#options.measurement
    const ticker = setInterval(() => {
      this.#events.onTick({ load, window, done: this.#threads.doneCount, failed: this.#threads.failedCount })
    }, tickMs)
    try {
      if (isCounted) {
        await Promise.race([this.#threads.spent, this.#interrupted])
        return
      }
      await this.#sleep(mode === 'time_windows' ? intervalMs : shortestCountWindowMs)
      if (mode === 'time_windows') return
      await this.#untilDone(requestCount * window)
    } finally {
      clearInterval(ticker)
    }
  }

  /** Ends early when all requests fail, because failures are not samples. */
  async #untilDone(target: number): Promise<void> {
    let [done, failed, sinceMs] = [this.#threads.doneCount, this.#threads.failedCount, performance.now()]
    while (this.#threads.doneCount < target && !this.#isInterrupted) {
      await this.#sleep(pollMs)
      if (this.#threads.doneCount === done && performance.now() - sinceMs < shortestCountWindowMs) continue
      if (this.#threads.doneCount === done && this.#threads.failedCount > failed) return
      ;[done, failed, sinceMs] = [this.#threads.doneCount, this.#threads.failedCount, performance.now()]
    }
  }

  async #sleep(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | null = null
    const slept = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)))
    await Promise.race([slept, this.#interrupted])
    if (timer !== null) clearTimeout(timer)
  }

  /** Closed loop: the threads are busy all the time. Open loop: requests are sent late; a wait looks busy too. */
  #isTooBusy({ utilisation, delayedShare }: ClientSummary): boolean {
    const { kind } = this.#options.load
    if (this.#threads.count >= this.#maxThreads || this.#options.requestCount > 0 || this.#isInterrupted) return false
    return kind === 'concurrency' ? utilisation > busyShare : kind === 'rate' && delayedShare > lateShare
  }

  async #growTo(wanted: number): Promise<void> {
    const count = Math.min(this.#maxThreads, wanted)
    if (count <= this.#threads.count) return
    await this.#threads.close()
    this.#threads = new LoadThreads(this.#setup, count)
  }
}

const wallNs = (): number => Math.round((performance.timeOrigin + performance.now()) * 1e6)

/** Sequences are asynchronous unless told otherwise, streams always. */
export const isAsync = ({ calls, isStreaming }: PerfOptions, { isSequence }: ModelUnderTest): boolean =>
  isStreaming || calls === 'async' || (isSequence && calls !== 'sync')

function figuresOf(client: ClientSummary, percentile: number | null): WindowFigures {
  const isEmpty = client.requestCount === 0
  return {
    inferPerSecond: client.inferPerSecond,
    latencyUs: isEmpty ? Infinity : stabilisingUs(client, percentile),
  }
}

function throwIfOnlyFailures({ requestCount, failedCount, failures }: ClientSummary): void {
  if (requestCount > 0 || failedCount === 0) return
  const texts = failures.slice(0, 3).map(([text, count]) => `\n  ${text}${count > 1 ? ` (${count} times)` : ''}`)
  throw new LoadError(
    `Failed to maintain requested inference load. Worker thread(s) failed to generate concurrent requests.${texts.join('')}`,
  )
}

function levelOf({ load, seed, sequence }: PerfOptions, value: number, budget: number | null): LoadLevel {
  return { shape: shapeOf(load, value, seed), sequences: sequence.count, budget }
}

function shapeOf(load: PerfOptions['load'], value: number, seed: number): LoadLevel['shape'] {
  if (load.kind === 'concurrency') return { kind: 'concurrency', lanes: value }
  if (load.kind === 'intervals') return { kind: 'intervals', intervalsUs: load.intervalsUs }
  if (load.kind === 'periodic') {
    return { kind: 'periodic', start: load.start, end: load.end, step: load.step, period: load.period }
  }
  return load.distribution === 'poisson'
    ? { kind: 'poisson', ratePerSecond: value, seed }
    : { kind: 'constant', ratePerSecond: value, share: 0, shares: 1 }
}
