// This checkout against another one, as one of the commit before: `npx node bench/against.ts ../other-checkout [--rounds N] [--only WORD]`.
// Fresh pairs of servers, in alternation: two processes of the same program differ by the luck of where their code lies.
// The figures are CPU per inference, memory after the load and the time of the start, as ratios of ours to theirs.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { preparePython } from '../scripts/python-environment.ts'
import { projectRoot } from '../test/e2e/server-process.ts'
import { alternate, medianOf } from './bench.ts'
import { residentMibOf } from './process-usage.ts'
import { SuiteLoad } from './suite-load.ts'
import { startGalateaSubject } from './suite-subjects.ts'
import { loadOf, workloads, type Transport, type Workload } from './suite-workloads.ts'

const cases: readonly (readonly [workload: string, transport: Transport, concurrency: number])[] = [
  ['simple', 'binary', 16],
  ['simple', 'json', 16],
  ['simple', 'grpc', 16],
  ['identity', 'binary', 1],
  ['identity', 'grpc', 1],
  ['simple', 'binary', 1],
  ['simple', 'grpc', 1],
  ['digits-delayed', 'grpc', 1],
  ['digits-delayed', 'grpc', 64],
  ['add_sub', 'binary', 1],
  ['add_sub', 'grpc', 1],
  ['add_sub', 'binary', 16],
  ['add_sub', 'grpc', 16],
]
const warmUpMs = 2500
const windowMs = 1500

type Measured = { readonly cpuUs: number; readonly residentMib: number; readonly readyMs: number }

async function measure(
  root: string,
  repository: string,
  workload: Workload,
  transport: Transport,
  concurrency: number,
): Promise<Measured> {
  const startedMs = performance.now()
  await using server = await startGalateaSubject(repository, path.join(root, 'bin/galatea.js'))
  const readyMs = performance.now() - startedMs
  await using load = new SuiteLoad(1)
  await load.open('load', loadOf(workload, transport, server, null))
  const settings = { shape: { kind: 'concurrency', lanes: concurrency } as const, pid: server.pid, atLeast: 1000 }
  const { cpuUs } = await load.run('load', { ...settings, settleMs: warmUpMs, windowMs })
  return { cpuUs, residentMib: residentMibOf(server.pid), readyMs }
}

const { values, positionals } = parseArgs({
  options: { rounds: { type: 'string' }, only: { type: 'string' } },
  allowPositionals: true,
})
const [other = ''] = positionals
const python = await preparePython(projectRoot)
if ('python' in python) process.env['GALATEA_TEST_PYTHON'] = python.python
for (const [name, transport, concurrency] of cases) {
  if (!`${name} ${transport} c=${concurrency} `.includes(values.only ?? '')) continue
  const workload = workloads.find((known) => known.name === name) as Workload
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-against-'))
  const repository = await workload.prepare(folder, 1)
  const { ours, theirs } = await alternate(Number(values.rounds ?? 7), {
    ours: () => measure(projectRoot, repository, workload, transport, concurrency),
    theirs: () => measure(path.resolve(other), repository, workload, transport, concurrency),
  })
  const row = (of: (measured: Measured) => number, digits: number): string => {
    const [our, their] = [medianOf(ours.map(of)), medianOf(theirs.map(of))]
    return `${our.toFixed(digits)} / ${their.toFixed(digits)} = ${(our / their).toFixed(3)}`
  }
  process.stdout.write(
    `${name}, ${transport}, c=${concurrency}: CPU µs ${row(({ cpuUs }) => cpuUs, 1)}, ` +
      `memory MiB ${row(({ residentMib }) => residentMib, 0)}, ready ms ${row(({ readyMs }) => readyMs, 0)}\n`,
  )
  await rm(folder, { recursive: true, force: true })
}
