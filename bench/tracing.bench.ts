// What tracing and the access log cost: throughput with each of them on against a server without.

import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { ServerProcess } from '../test/e2e/server-process.ts'
import type { Bench, Figure } from './bench.ts'
import { costOfFlags, costOfSwitch } from './server-pair.ts'

/** A few hundredths are to be seen, which takes more rounds than what others measure. */
const roundsEach = 3

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

const trace = (...settings: readonly string[]): string[] => settings.map((one) => `--trace-config=${one}`)

async function throughput(rounds: number, seconds: number, folder: string, collector: string): Promise<Figure[]> {
  const file = trace(`triton,file=${path.join(folder, 'trace.json')}`)
  const spans = trace('mode=opentelemetry', `opentelemetry,url=${collector}`)
  const limit = { kind: 'at least', value: 0.97 } as const
  const cost = { target: null, rounds: rounds * roundsEach, seconds }
  return [
    ...(await costOfSwitch(
      { ...cost, what: 'one of 1000 requests traced into a file', target: limit },
      file,
      traced(1000),
    )),
    ...(await costOfSwitch(
      { ...cost, what: 'one of 1000 requests traced to an OTLP collector', target: limit },
      spans,
      traced(1000),
    )),
    ...(await costOfSwitch({ ...cost, what: 'every request traced to an OTLP collector' }, spans, traced(1))),
    ...(await costOfFlags(
      { ...cost, rounds, what: 'an access log of every request' },
      [`--access-log=${path.join(folder, 'access.log')}`],
      [],
    )),
  ]
}

const traced =
  (rate: number) =>
  async ({ port }: ServerProcess, isOn: boolean): Promise<void> => {
    const settings = { trace_level: [isOn ? 'TIMESTAMPS' : 'OFF'], trace_rate: String(rate) }
    const answer = await fetch(`http://127.0.0.1:${port}/v2/trace/setting`, {
      method: 'POST',
      body: JSON.stringify(settings),
    })
    if (!answer.ok) throw new Error(`the trace settings were refused: ${await answer.text()}`)
  }
