// What tracing and the access log cost: throughput with each of them on against a server without.

import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { exampleModels, startServerProcess, type ServerProcess } from '../test/e2e/server-process.ts'
import { alternate, medianOf, medianRatio, type Bench, type Figure } from './bench.ts'
import { HttpLoad, type LoadMeasurement } from './http-load-process.ts'
import { simpleRequest } from './infer-request.ts'
import { onCore } from './pinning.ts'

const connections = 16
/** Code that is seldom run, as that of a traced request, makes V8 compile the rest anew once or twice: that must be over. */
const warmUpRequests = 100_000

export const bench: Bench = {
  name: 'tracing',
  summary: 'throughput with tracing at rate 1000, with spans to a collector and with the access log, each against none',
  async run({ rounds, secondsPerRun, say }) {
    const folder = await mkdtemp(path.join(tmpdir(), 'galatea-tracing-bench-'))
    const collector = await startCollector()
    try {
      const figures = await throughput(rounds, secondsPerRun, folder, collectorUrl(collector))
      for (const { what, detail } of figures) say(`${what}: ${detail}`)
      return figures
    } finally {
      collector.close()
      await rm(folder, { recursive: true, force: true })
    }
  },
}

/** Takes everything and looks at nothing. */
async function startCollector(): Promise<Server> {
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => response.end())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

const collectorUrl = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`

const start = (...flags: readonly string[]): Promise<ServerProcess> =>
  startServerProcess(
    [`--model-repository=${exampleModels}`, '--model-control-mode=explicit', '--load-model=simple', ...flags],
    { prefix: onCore(0) },
  )

const trace = (...settings: readonly string[]): string[] => settings.map((one) => `--trace-config=${one}`)

async function throughput(rounds: number, seconds: number, folder: string, collector: string): Promise<Figure[]> {
  const spans = ['mode=opentelemetry', 'level=TIMESTAMPS', `opentelemetry,url=${collector}`]
  const file = `triton,file=${path.join(folder, 'trace.json')}`
  const limit = { kind: 'at least', value: 0.97 } as const
  const subjects: readonly (readonly [what: string, flags: readonly string[], target: Figure['target']])[] = [
    ['one of 1000 requests traced into a file', trace('level=TIMESTAMPS', 'rate=1000', file), limit],
    ['one of 1000 requests traced to an OTLP collector', trace(...spans, 'rate=1000'), limit],
    ['every request traced to an OTLP collector', trace(...spans, 'rate=1'), null],
    ['an access log of every request', [`--access-log=${path.join(folder, 'access.log')}`], null],
  ]
  const figures: Figure[] = []
  for (const [what, flags, target] of subjects) figures.push(...(await compare(what, flags, target, rounds, seconds)))
  return figures
}

/**
 * Two fresh servers for each round: two processes of the same program differ by up to a third for as long as they live, by the
 * luck of where their code and memory lie, which is more than what is to be seen.
 */
async function compare(
  what: string,
  flags: readonly string[],
  target: Figure['target'],
  rounds: number,
  seconds: number,
): Promise<Figure[]> {
  const runs = await alternate(rounds, {
    on: () => measure(flags, seconds),
    off: () => measure([], seconds),
  })
  return [
    {
      what: `throughput: ${what}, against none`,
      value: medianRatio(runs.on, runs.off, rateOf),
      unit: '×',
      target,
      detail: `simple, binary, c=${connections}: on ${textOf(runs.on)}; off ${textOf(runs.off)}`,
    },
    {
      what: `CPU per request: ${what}, against none`,
      value: medianRatio(runs.on, runs.off, (run) => run.cpuUsPerRequest),
      unit: '×',
      target: null,
      detail: '',
    },
  ]
}

async function measure(flags: readonly string[], seconds: number): Promise<LoadMeasurement> {
  await using server = await start(...flags)
  await using load = await HttpLoad.open(server, connections, simpleRequest('binary'))
  await load.run(2, warmUpRequests)
  return await load.run(seconds)
}

const rateOf = (run: LoadMeasurement): number => run.requestsPerSecond

const textOf = (runs: readonly LoadMeasurement[]): string =>
  `${medianOf(runs.map(rateOf)).toFixed(0)}/s, ${medianOf(runs.map((run) => run.cpuUsPerRequest)).toFixed(1)} µs CPU`
