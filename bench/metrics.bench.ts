// What being watched costs: throughput with all metrics on and a scraper at work against a server without any, and what a
// page of ten thousand series does to the main thread.

import { Worker } from 'node:worker_threads'
import { SystemClock } from '../src/base/clock.ts'
import { MemoryLog } from '../src/base/log.ts'
import { TrafficMeter } from '../src/base/traffic-meter.ts'
import { MetricsFrontend } from '../src/frontends/metrics/metrics-frontend.ts'
import { InferenceRequest } from '../src/model/inference-request.ts'
import { InferenceResponse } from '../src/model/inference-response.ts'
import { RefusalCounts } from '../src/model/refusal-counts.ts'
import { MetricsPage } from '../src/telemetry/metrics-page.ts'
import { ModelLedger } from '../src/telemetry/model-ledger.ts'
import { openMetricsText } from '../src/telemetry/open-metrics-text.ts'
import { Statistics } from '../src/telemetry/statistics.ts'
import { metricsAddressOf } from '../test/e2e/observed-server.ts'
import { exampleModels, startServerProcess, type ServerProcess } from '../test/e2e/server-process.ts'
import { alternate, medianOf, medianRatio, type Bench, type Figure } from './bench.ts'
import { HttpLoad, type LoadMeasurement } from './http-load-process.ts'
import { simpleRequest } from './infer-request.ts'
import { onCore } from './pinning.ts'

const connections = 16
/** Code that is seldom run, as that of a traced request, makes V8 compile the rest anew once or twice: that must be over. */
const warmUpRequests = 250_000
const wantedSeries = 10_000

export const bench: Bench = {
  name: 'metrics',
  summary: 'throughput with all metrics on against none, and what a page of 10,000 series does to the main thread',
  async run({ rounds, secondsPerRun, say }) {
    const figures = [...(await throughput(rounds, secondsPerRun)), ...(await largePage(rounds))]
    for (const { what, detail } of figures) say(`${what}: ${detail}`)
    return figures
  },
}

const start = (...flags: readonly string[]): Promise<ServerProcess> =>
  startServerProcess([`--model-repository=${exampleModels}`, ...modelFlags, ...flags], { prefix: onCore(0) })
const modelFlags = ['--model-control-mode=explicit', '--load-model=simple']

/** Default: counters and histograms. Full: summaries and the histogram of first responses too. */
async function throughput(rounds: number, seconds: number): Promise<Figure[]> {
  await using unwatched = await start('--allow-metrics=false')
  await using watched = await start()
  const everything = ['summary_latencies=true', 'histogram_latencies=true'].map((one) => `--metrics-config=${one}`)
  await using full = await start(...everything)
  await using offLoad = await HttpLoad.open(unwatched, connections, simpleRequest('binary'))
  await using onLoad = await HttpLoad.open(watched, connections, simpleRequest('binary'))
  await using fullLoad = await HttpLoad.open(full, connections, simpleRequest('binary'))
  for (const load of [offLoad, onLoad, fullLoad]) await load.run(2, warmUpRequests)
  const [onScrape, fullScrape] = [await scraperOf(watched), await scraperOf(full)]
  const { off, on, all } = await alternate(rounds, {
    off: () => offLoad.run(seconds),
    on: () => whileScraping(onScrape, onLoad, seconds),
    all: () => whileScraping(fullScrape, fullLoad, seconds),
  })
  const rate = (run: LoadMeasurement): number => run.requestsPerSecond
  const cpu = (run: LoadMeasurement): number => run.cpuUsPerRequest
  const text = (runs: readonly LoadMeasurement[]): string =>
    `${medianOf(runs.map(rate)).toFixed(0)}/s, ${medianOf(runs.map(cpu)).toFixed(1)} µs CPU`
  return [
    {
      what: 'throughput: metrics and histograms on, scraped every second, against none',
      value: medianRatio(on, off, rate),
      unit: '×',
      target: { kind: 'at least', value: 0.98 },
      detail: `simple, binary, c=${connections}: on ${text(on)}; off ${text(off)}`,
    },
    {
      what: 'CPU per request: the same',
      value: medianRatio(on, off, cpu),
      unit: '×',
      target: null,
      detail: '',
    },
    {
      what: 'throughput: summaries of quantiles on as well, against none',
      value: medianRatio(all, off, rate),
      unit: '×',
      target: null,
      detail: `on ${text(all)}; off ${text(off)}`,
    },
  ]
}

const scraperOf = async (server: ServerProcess): Promise<() => Promise<unknown>> => {
  const url = `http://${await metricsAddressOf(server)}/metrics`
  return async () => (await fetch(url, { headers: { accept: 'application/openmetrics-text' } })).text()
}

async function whileScraping(
  scrape: () => Promise<unknown>,
  load: HttpLoad,
  seconds: number,
): Promise<LoadMeasurement> {
  const timer = setInterval(() => void scrape(), 1000)
  await scrape()
  try {
    return await load.run(seconds)
  } finally {
    clearInterval(timer)
  }
}

/** The page as the server makes it, asked for over HTTP by another thread. */
async function largePage(rounds: number): Promise<Figure[]> {
  const clock = new SystemClock()
  const ledger = new ModelLedger()
  const settings = {
    hasCounters: true,
    hasSummaries: false,
    hasFirstResponses: false,
    quantiles: [],
    hasOwnFamilies: true,
  }
  const page = new MetricsPage(
    {
      clock,
      ledger,
      host: null,
      cache: null,
      traffic: [{ protocol: 'http', meter: new TrafficMeter() }],
      refusals: new RefusalCounts(),
      gpus: () => [],
      customFamilies: () => [],
      isReady: () => true,
      notReady: () => [],
      spans: null,
      accessLog: null,
    },
    settings,
  )
  const countSeries = (): number => [...page.pieces(openMetricsText)].join('').match(/^[a-z]/gm)?.length ?? 0
  while (countSeries() < wantedSeries) addModel(ledger)
  const series = countSeries()
  const { contentType } = openMetricsText
  const formats = [{ contentType, pieces: () => page.pieces(openMetricsText) }]
  const frontend = new MetricsFrontend({ clock, log: new MemoryLog(), formats }, { address: '127.0.0.1', port: 0 })
  const { port } = await frontend.listen()
  await using client = new PageClient(`http://127.0.0.1:${port}/metrics`)
  for (let i = 0; i < 10; i++) await client.get()
  const busyMs: number[] = []
  const longestMs: number[] = []
  for (let round = 0; round < rounds * 4; round++) {
    const before = threadCpuMs()
    await client.get()
    busyMs.push(threadCpuMs() - before)
    longestMs.push(await longestStallDuring(() => client.get()))
  }
  await frontend.close()
  page.close()
  const detail = `${series} series of ${[...ledger.entries()].length} model versions; medians of ${busyMs.length} pages`
  return [
    {
      what: `main-thread time of a page of ${wantedSeries} series`,
      value: medianOf(busyMs),
      unit: 'ms',
      target: { kind: 'at most', value: 50 },
      detail,
    },
    {
      what: 'longest stall of the main thread meanwhile',
      value: medianOf(longestMs),
      unit: 'ms',
      target: { kind: 'at most', value: 10 },
      detail: `worst ${Math.max(...longestMs).toFixed(1)} ms`,
    },
  ]
}

let modelCount = 0

function addModel(ledger: ModelLedger): void {
  const statistics = new Statistics({ hasResponseStatistics: false })
  for (let i = 0; i < 50; i++) {
    const request = new InferenceRequest({ modelName: 'm', inputs: [], sink: () => undefined })
    const end = 1e6 + i * 7e4
    Object.assign(request, { receivedNs: 1e6, queueStartNs: 1e6, computeStartNs: 1e6 + i * 1e4, endNs: end })
    statistics.recordResponse(request, InferenceResponse.of([]), 0)
  }
  const workload = { count: 2, readyCount: 2, restartCount: 0, busyNs: (nowNs: number) => nowNs }
  const version = { version: '1', pendingCount: 0, inFlightCount: 0, loadSeconds: 1, workload }
  ledger.open({ ...version, name: `some_model_${modelCount++}` }, new Map(), statistics)
}

/** Of this thread. What other processes of a busy machine take away from it is not the page's doing. */
const threadCpuMs = (): number => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1e3
}

/** The longest time between two turns of the loop. */
async function longestStallDuring(act: () => Promise<void>): Promise<number> {
  let longest = 0
  let last = threadCpuMs()
  let isDone = false
  const turn = (): void => {
    const now = threadCpuMs()
    longest = Math.max(longest, now - last)
    last = now
    if (!isDone) setImmediate(turn)
  }
  setImmediate(turn)
  await act()
  isDone = true
  return longest
}

/** Asks from a thread of its own, so that reading the page costs the main thread nothing. */
class PageClient implements AsyncDisposable {
  readonly #worker: Worker

  constructor(url: string) {
    const code = `
      const { parentPort, workerData } = require('node:worker_threads')
      parentPort.on('message', () => fetch(workerData).then((answer) => answer.text()).then((text) => parentPort.postMessage(text.length)))`
    this.#worker = new Worker(code, { eval: true, workerData: url })
  }

  get(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#worker.once('message', (length: number) =>
        length > 0 ? resolve() : reject(new Error('the page was empty')),
      )
      this.#worker.postMessage('', [])
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate()
  }
}
