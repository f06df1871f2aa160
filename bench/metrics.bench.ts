// What being watched costs: throughput with all metrics on and a scraper at work against a server without any, and what a
// page of ten thousand series does to the main thread.

import { Worker } from 'node:worker_threads'
import { SystemClock } from '../src/base/clock.ts'
import { MemoryLog } from '../test/fakes/memory-log.ts'
import { TrafficMeter } from '../src/transport/traffic-meter.ts'
import { createMetricsPort } from '../src/metrics-service.ts'
import { InferenceRequest } from '../src/model/inference-request.ts'
import { InferenceResponse } from '../src/model/inference-response.ts'
import { RefusalCounts } from '../src/model/refusal-counts.ts'
import { MetricsPage } from '../src/telemetry/metrics-page.ts'
import { ModelLedger } from '../src/telemetry/model-ledger.ts'
import { openMetricsText } from '../src/telemetry/open-metrics-text.ts'
import { Statistics } from '../src/telemetry/statistics.ts'
import { medianOf, type Bench, type Figure } from './bench.ts'
import { costOfFlags, type Meanwhile } from './server-pair.ts'

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

/** Default: counters and histograms. Full: summaries and the histogram of first responses too. */
async function throughput(rounds: number, seconds: number): Promise<Figure[]> {
  const none = ['--allow-metrics=false']
  const everything = ['summary_latencies=true', 'histogram_latencies=true'].map((one) => `--metrics-config=${one}`)
  const cost = { target: null, rounds, seconds }
  const limit = { kind: 'at least', value: 0.98 } as const
  const watched = {
    ...cost,
    what: 'metrics and histograms on, scraped every second',
    rounds: rounds * 2,
    target: limit,
  }
  return [
    ...(await costOfFlags(watched, [], none, scraping)),
    ...(await costOfFlags({ ...cost, what: 'summaries of quantiles on as well' }, everything, none, scraping)),
  ]
}

const scraping: Meanwhile = async (server) => {
  const url = `http://${server.metricsAddress}/metrics`
  const scrape = async (): Promise<unknown> =>
    (await fetch(url, { headers: { accept: 'application/openmetrics-text' } })).text()
  await scrape()
  const timer = setInterval(() => void scrape(), 1000)
  return { [Symbol.asyncDispose]: () => Promise.resolve(clearInterval(timer)) }
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
      pinned: null,
      cache: null,
      clients: { limitBytes: 100, requestBytes: 3, answerBytes: 2, inflatedBytes: 1, refusedCount: 0 },
      slots: { limit: 10, refusedCount: 0 },
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
  const frontend = createMetricsPort({ clock, log: new MemoryLog(), formats }, { address: '127.0.0.1', port: 0 })
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
