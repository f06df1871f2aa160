// What one request costs when it comes alone: the next one is sent when it is answered, so the server falls asleep and wakes up
// for each. CPU of the server and its processes. A real Triton takes turns with it where there is one (bench/triton-server.ts).

import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { preparePython } from '../scripts/python-environment.ts'
import { projectRoot } from '../test/e2e/server-process.ts'
import { alternate, medianOf, medianRatio, type Bench, type Figure } from './bench.ts'
import { SuiteLoad } from './suite-load.ts'
import type { SuiteRun } from './suite-load-process.ts'
import { startGalateaSubject, startTritonSubject, tritonName, type SuiteSubject } from './suite-subjects.ts'
import { loadOf, workloads, type Transport, type Workload } from './suite-workloads.ts'

const cases: readonly (readonly [workload: string, transport: Transport, targetUs: number])[] = [
  ['identity', 'binary', 59],
  ['simple', 'binary', 59],
  ['simple', 'grpc', 83],
  ['digits-delayed', 'grpc', 120],
  ['add_sub', 'binary', 125],
  ['add_sub', 'grpc', 143],
]
/** So many requests before a measurement, one at a time as well: with more at once, other code would be compiled. */
const warmUpRequests = 10_000
const alone = { kind: 'concurrency', lanes: 1 } as const

const workloadOf = (name: string): Workload => workloads.find((known) => known.name === name) as Workload

const describe = (runs: readonly SuiteRun[]): string => {
  const median = (of: (run: SuiteRun) => number): number => medianOf(runs.map(of))
  return `${median((run) => run.cpuUs).toFixed(0)} µs CPU, p50 ${(median((run) => run.p50Us) / 1000).toFixed(2)} ms`
}

export const bench: Bench = {
  name: 'lone-request',
  summary: 'CPU of one request at a time: HTTP, gRPC, Python, and a batcher with a delay',
  async run({ rounds, secondsPerRun, say }) {
    const python = await preparePython(projectRoot)
    if ('python' in python) process.env['GALATEA_TEST_PYTHON'] = python.python
    const root = await mkdtemp(path.join(tmpdir(), 'galatea-lone-'))
    const figures: Figure[] = []
    for (const name of new Set(cases.map(([name]) => name))) {
      const workload = workloadOf(name)
      const repository = path.join(root, name)
      await mkdir(repository)
      await workload.prepare(repository, 1)
      await using galatea = await startGalateaSubject(repository, path.join(projectRoot, 'bin/galatea.js'))
      await using triton = await startTritonSubject(repository, tritonName, say)
      await using load = new SuiteLoad(1)
      for (const [, transport, targetUs] of cases.filter(([other]) => other === name)) {
        const runOf = async (server: SuiteSubject): Promise<() => Promise<SuiteRun>> => {
          const key = `${server.name} ${name} ${transport}`
          await load.open(key, loadOf(workload, transport, server, null))
          const run = { pid: server.pid, settleMs: 200, windowMs: secondsPerRun * 1000, atLeast: 100 }
          await load.run(key, { ...run, shape: alone, atLeast: warmUpRequests })
          return () => load.run(key, { ...run, shape: alone })
        }
        const runOurs = await runOf(galatea)
        const runTheirs = triton === null ? null : await runOf(triton)
        const measured = await alternate(rounds, { ours: runOurs, theirs: async () => (await runTheirs?.()) ?? null })
        const ours = measured.ours.filter((run) => run !== null)
        const theirs = measured.theirs.filter((run) => run !== null)
        const cpu = (run: SuiteRun): number => run.cpuUs
        const detail = `Galatea ${describe(ours)}${theirs.length === 0 ? '' : `; Triton ${describe(theirs)}`}`
        const what = `${name}, ${transport}, c=1`
        say(`${what}: ${detail}`)
        const target = { kind: 'at most', value: targetUs } as const
        figures.push({ what: `CPU: ${what}`, value: medianOf(ours.map(cpu)), unit: 'µs', target, detail })
        if (theirs.length === 0) continue
        const half = { kind: 'at most', value: 0.5 } as const
        const value = medianRatio(ours, theirs, cpu)
        figures.push({ what: `CPU against Triton: ${what}`, value, unit: '×', target: half, detail: '' })
      }
    }
    await rm(root, { recursive: true, force: true })
    return figures
  },
}
