// Every kind of traffic, error and fault at once, with reloads of models, for as long as one likes: what the server keeps of it.
// Every two minutes the traffic rests, and memory is read: resident memory at its least, and what the server still holds after a
// collection, which has no noise. The curve goes to bench/results/soak.svg and bench/results/soak.json.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { lineChart, type ChartPoint } from '../src/perf/svg-chart.ts'
import { testPython } from '../test/e2e/python-checks.ts'
import { startServerProcess, type ServerProcess } from '../test/e2e/server-process.ts'
import type { Bench, Figure } from './bench.ts'
import { residentMibOf } from './process-usage.ts'
import { createSoakRepository, reloadedModels, type SoakRepository } from './soak-repository.ts'
import type { SoakPorts, TrafficReport } from './soak-traffic.ts'

/** GALATEA_SOAK_MINUTES: for a longer look, or a short one to see that it runs. */
const soakMinutes = Number(process.env['GALATEA_SOAK_MINUTES'] ?? 30)
/** From here on nothing should grow: code is compiled, and pools are filled. */
const warmMinutes = Math.min(10, soakMinutes / 2)
const trafficSeconds = Math.min(105, (soakMinutes * 60) / 6)
const restSeconds = 15
const reloadEveryMs = 2000

type Sample = {
  readonly minutes: number
  /** The server's process at its least in the rest, and with its workers. */
  readonly serverMib: number
  readonly allMib: number
  /** Heap and buffers after a collection: without code that V8 has compiled, and that code. */
  readonly heldMib: number
  readonly codeMib: number
  readonly descriptors: number
  readonly threads: number
}

const serverMibOf = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]) / 1024

async function sampleAtRest(server: ServerProcess, startedMs: number): Promise<Sample> {
  const { pid } = server
  let [serverMib, allMib] = [Infinity, Infinity]
  for (let half = 0; half < 2 * restSeconds; half++) {
    await pause(500)
    serverMib = Math.min(serverMib, serverMibOf(pid))
    allMib = Math.min(allMib, residentMibOf(pid))
  }
  const minutes = (performance.now() - startedMs) / 60_000
  const descriptors = readdirSync(`/proc/${pid}/fd`).length
  const threads = readdirSync(`/proc/${pid}/task`).length
  return { minutes, serverMib, allMib, ...(await heldBy(server)), descriptors, threads }
}

async function heldBy(server: ServerProcess): Promise<{ heldMib: number; codeMib: number }> {
  const { length } = server.output
  server.signal('SIGWINCH')
  for (;;) {
    const report = /held after collection: (\d+) bytes, of which code: (\d+)\n/.exec(server.output.slice(length))
    const [held, code] = [Number(report?.[1]) / 1024 / 1024, Number(report?.[2]) / 1024 / 1024]
    if (report !== null) return { heldMib: held - code, codeMib: code }
    await pause(50)
  }
}

class Traffic implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly totals: Record<string, { answered: number; failed: number }> = {}

  constructor(ports: SoakPorts) {
    const script = path.join(import.meta.dirname, 'soak-traffic.ts')
    const stdio = ['ignore', 'inherit', 'inherit', 'ipc'] as const
    this.#child = spawn(process.execPath, [script, JSON.stringify(ports)], { stdio: [...stdio] })
  }

  async run(seconds: number): Promise<void> {
    this.#child.send({ seconds })
    const [report] = (await once(this.#child, 'message')) as [TrafficReport]
    for (const [kind, { answered, failed }] of Object.entries(report)) {
      const total = (this.totals[kind] ??= { answered: 0, failed: 0 })
      total.answered += answered
      total.failed += failed
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.#child, 'exit')
    this.#child.disconnect()
    await exited
  }
}

/** One model of each kind in turn. The result is how many loads went well. */
async function reloadFor(server: ServerProcess, repository: SoakRepository, seconds: number): Promise<number> {
  const endMs = performance.now() + seconds * 1000
  let count = 0
  while (performance.now() < endMs) {
    for (const model of Object.values(reloadedModels)) {
      await repository.change(model)
      const response = await fetch(`${server.url}/v2/repository/models/${model}/load`, { method: 'POST' })
      if (response.ok) count++
      await response.text()
      await pause(reloadEveryMs)
    }
  }
  return count
}

/** The slope of a line through the points, per hour. */
function growthPerHour(samples: readonly Sample[], of: (sample: Sample) => number): number {
  const meanX = samples.reduce((sum, { minutes }) => sum + minutes, 0) / samples.length
  const meanY = samples.reduce((sum, sample) => sum + of(sample), 0) / samples.length
  const above = samples.reduce((sum, sample) => sum + (sample.minutes - meanX) * (of(sample) - meanY), 0)
  const below = samples.reduce((sum, { minutes }) => sum + (minutes - meanX) ** 2, 0)
  return (60 * above) / below
}

export const bench: Bench = {
  name: 'mixed-soak',
  summary: `what ${soakMinutes} minutes of every kind of traffic, error, fault and reload leave in memory`,
  async run({ say }) {
    await using repository = await createSoakRepository()
    const nodeFlags = ['--expose-gc', '--import', path.join(import.meta.dirname, '../test/e2e/heap-report.ts')]
    const flags = [
      `--model-repository=${repository.path}`,
      '--model-control-mode=explicit',
      '--load-model=*',
      '--allow-client-shared-memory=true',
      `--backend-config=python,interpreter=${testPython()}`,
    ]
    await using server = await startServerProcess(flags, { nodeFlags })
    const ports = { http: server.address, grpc: server.grpcAddress, metrics: server.metricsAddress }
    await using traffic = new Traffic(ports)
    // Each fault is logged, and this process would keep the lines.
    const quiet = JSON.stringify({ log_info: false, log_warning: false, log_error: false })
    await (await fetch(`${server.url}/v2/logging`, { method: 'POST', body: quiet })).text()
    const startedMs = performance.now()
    const samples = [await sampleAtRest(server, startedMs)]
    let reloads = 0
    while (performance.now() - startedMs < soakMinutes * 60_000) {
      const [, reloaded] = await Promise.all([
        traffic.run(trafficSeconds),
        reloadFor(server, repository, trafficSeconds),
      ])
      reloads += reloaded
      const sample = await sampleAtRest(server, startedMs)
      samples.push(sample)
      say(sampleText(sample))
    }
    for (const [kind, { answered, failed }] of Object.entries(traffic.totals)) {
      say(`  ${kind.padEnd(36)}${String(answered).padStart(9)} answered${String(failed).padStart(9)} failed`)
    }
    keepCurve(samples, traffic.totals, reloads)
    return figuresOf(samples, traffic.totals, reloads)
  },
}

const sampleText = ({ minutes, serverMib, allMib, heldMib, codeMib, descriptors, threads }: Sample): string =>
  `${minutes.toFixed(1)} min: ${serverMib.toFixed(1)} MiB, with workers ${allMib.toFixed(1)} MiB, held ${heldMib.toFixed(2)} MiB, ` +
  `code ${codeMib.toFixed(2)} MiB, ${descriptors} descriptors, ${threads} threads`

function figuresOf(samples: readonly Sample[], totals: TrafficReport, reloads: number): Figure[] {
  const warm = samples.filter(({ minutes }) => minutes >= warmMinutes)
  const [first, last] = [warm[0] as Sample, warm.at(-1) as Sample]
  const requests = Object.values(totals).reduce((sum, { answered, failed }) => sum + answered + failed, 0)
  const from = `from minute ${first.minutes.toFixed(0)} to ${last.minutes.toFixed(0)}`
  const growth = (what: string, of: (sample: Sample) => number, more: string): Figure => ({
    what,
    value: growthPerHour(warm, of),
    unit: 'MiB/h',
    target: { kind: 'at most', value: 1 },
    detail: `${of(first).toFixed(1)} to ${of(last).toFixed(1)} MiB ${from}${more}`,
  })
  const work = `; ${(requests / 1e6).toFixed(2)} million requests of ${Object.keys(totals).length} kinds, ${reloads} reloads`
  return [
    growth('held after a collection, without compiled code, mixed traffic', (sample) => sample.heldMib, work),
    growth('resident at rest, mixed traffic', (sample) => sample.serverMib, ''),
    {
      what: 'descriptors more than at the start',
      value: last.descriptors - (samples[0]?.descriptors ?? 0),
      unit: '',
      target: null,
      detail: `${samples[0]?.descriptors} and ${last.descriptors}; threads ${samples[0]?.threads} and ${last.threads}`,
    },
  ]
}

function keepCurve(samples: readonly Sample[], totals: TrafficReport, reloads: number): void {
  const folder = path.join(import.meta.dirname, 'results')
  const line = (of: (sample: Sample) => number): ChartPoint[] => samples.map((sample) => [sample.minutes, of(sample)])
  const chart = lineChart({
    title: 'Memory under every kind of traffic, error, fault and reload',
    x: { label: 'minutes', min: 0 },
    y: { label: 'MiB', min: 0 },
    series: [
      { name: 'server and workers, at rest', points: line(({ allMib }) => allMib) },
      { name: 'server, at rest', points: line(({ serverMib }) => serverMib) },
      { name: 'held after a collection', points: line(({ heldMib }) => heldMib) },
      { name: 'compiled code', points: line(({ codeMib }) => codeMib) },
    ],
    note: `bench/mixed-soak.bench.ts, ${reloads} reloads, Node ${process.version}, ${new Date().toISOString().slice(0, 10)}`,
  })
  writeFileSync(path.join(folder, 'soak.svg'), chart)
  const rounded = samples.map((sample) =>
    Object.fromEntries(Object.entries(sample).map(([name, value]) => [name, Number(value.toFixed(2))])),
  )
  writeFileSync(path.join(folder, 'soak.json'), `${JSON.stringify({ reloads, totals, samples: rounded }, null, 2)}\n`)
}
