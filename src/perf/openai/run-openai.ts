// `galatea perf --service-kind openai`: chats, completions or embeddings of any OpenAI server, with the time to the first token
// and between tokens. Each load is measured once.

import { writeFileSync } from 'node:fs'
import { createPerfFetch } from '../perf-fetch.ts'
import type { PerfOptions } from '../perf-options.ts'
import { seededRandom } from '../load/random.ts'
import { openAiBodies } from './openai-bodies.ts'
import { figuresCsv, figuresText, openAiFigures, type OpenAiFigures } from './openai-figures.ts'
import { sampleOf, type OpenAiSample } from './openai-sample.ts'

type OpenAiHost = { readonly stdout: (text: string) => void; readonly interrupted: Promise<void> }
type Send = () => Promise<OpenAiSample>

/** True when every request was answered well. Throws InputDataError. */
export async function runOpenAi(options: PerfOptions, host: OpenAiHost): Promise<boolean> {
  let isInterrupted = false
  void host.interrupted.then(() => (isInterrupted = true))
  const { load, url, tls, endpoint } = options
  const target = `${/^https?:/.test(url) ? '' : tls === null ? 'http://' : 'https://'}${url}/${endpoint}`
  const bodies = openAiBodies(options).map((body) => JSON.stringify(body, plainNumber))
  const headers = { 'Content-Type': 'application/json', ...Object.fromEntries(options.headers) }
  const fetched = tls === null ? fetch : createPerfFetch(tls)
  let next = 0
  const send: Send = () => {
    const body = bodies[next++ % bodies.length] as string
    return sampleOf(() => fetched(target, { method: 'POST', headers, body }))
  }
  host.stdout(
    `*** Measurement Settings ***\n  Service Kind: OPENAI\n  Endpoint: ${endpoint}\n  Bodies: ${bodies.length}\n\n`,
  )
  const all: OpenAiFigures[] = []
  const isRate = load.kind === 'rate'
  const title = isRate ? 'Request Rate' : 'Concurrency'
  for (const level of levelsOf(load)) {
    if (isInterrupted) break
    host.stdout(`${title}: ${level}\n`)
    for (let i = 0; i < options.warmupCount; i++) await send()
    const isOver = overAfter(options, () => isInterrupted)
    const startMs = performance.now()
    const samples = isRate ? await atRate(send, level, isOver, options) : await atOnce(send, level, isOver)
    const figures = openAiFigures(level, samples, (performance.now() - startMs) / 1000)
    all.push(figures)
    host.stdout(`${figuresText(figures, options.isStreaming)}\n`)
    if (options.latencyThresholdMs > 0 && figures.latencyMs.avg > options.latencyThresholdMs) break
  }
  if (options.csvFile !== '') writeFileSync(options.csvFile, figuresCsv(title, all))
  if (options.profileFile !== '') writeFileSync(options.profileFile, `${JSON.stringify({ service_kind: 'openai', endpoint, experiments: all })}\n`) // prettier-ignore
  return all.length > 0 && all.every(({ failed, requests }) => failed === 0 && requests > 0)
}

/** Parameters of requests are whole numbers of any size. */
const plainNumber = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? Number(value) : value)

function levelsOf(load: PerfOptions['load']): number[] {
  if (load.kind !== 'concurrency' && load.kind !== 'rate') return [1]
  const levels: number[] = []
  for (let level = load.start; level <= Math.max(load.start, load.end); level += load.step) levels.push(level)
  return levels
}

/** Whether no more requests begin. */
function overAfter({ requestCount, measurement }: PerfOptions, isInterrupted: () => boolean): () => boolean {
  const startMs = performance.now()
  let begun = 0
  return () => {
    if (isInterrupted()) return true
    if (requestCount > 0) return begun++ >= requestCount
    return performance.now() - startMs >= measurement.intervalMs
  }
}

/** So many calls are under way at once. */
export async function atOnce(send: Send, count: number, isOver: () => boolean): Promise<OpenAiSample[]> {
  const samples: OpenAiSample[] = []
  const lane = async (): Promise<void> => {
    while (!isOver()) samples.push(await send())
  }
  await Promise.all(Array.from({ length: count }, lane))
  return samples
}

/** So many calls begin in a second, whatever the server answers. */
async function atRate(
  send: Send,
  rate: number,
  isOver: () => boolean,
  { load, seed }: PerfOptions,
): Promise<OpenAiSample[]> {
  const random = seededRandom(seed)
  const isPoisson = load.kind === 'rate' && load.distribution === 'poisson'
  const calls: Promise<OpenAiSample>[] = []
  let atMs = performance.now()
  while (!isOver()) {
    calls.push(send())
    atMs += (isPoisson ? -Math.log(1 - random()) : 1) * (1000 / rate)
    const waitMs = atMs - performance.now()
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs))
  }
  return Promise.all(calls)
}
