// What a server holds in memory: idle with one ONNX model, idle with seven models of which one is Python, while all of them
// are under load, and at rest after it. Resident memory of the server and its processes, and what of it is not shared with files.
// A real Triton is measured in the same way where there is one that has the backends (bench/triton-server.ts).

import { cp, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { preparePython } from '../scripts/python-environment.ts'
import { projectRoot } from '../test/e2e/server-process.ts'
import { medianOf, type Bench, type BenchSettings, type Figure } from './bench.ts'
import { ownMibOf, residentMibOf } from './process-usage.ts'
import { createCompiledPackage, createSimpleRepository } from './subjects.ts'
import { SuiteLoad } from './suite-load.ts'
import { startGalateaSubject, startTritonSubject, type SuiteSubject } from './suite-subjects.ts'
import { loadOf, workloads, type Transport, type Workload } from './suite-workloads.ts'

/** A server gives memory back in its first quiet moments, and looks for one every two seconds. */
const restMs = 6000
const lanes = 64

const under = (name: string): Workload => workloads.find((workload) => workload.name === name) as Workload

/** Seven models: identity, three small ONNX models and one with a batching delay, an ensemble, and Python. */
async function createSevenModels(root: string): Promise<string> {
  const giveName = async (from: string, to: string): Promise<void> => {
    const config = path.join(root, to, 'config.pbtxt')
    const text = await readFile(config, 'utf8')
    await writeFile(config, text.replace(`name: "${from}"`, `name: "${to}"`))
  }
  await mkdir(root, { recursive: true })
  await under('digits-delayed').prepare(root, 1)
  await rename(path.join(root, 'digits'), path.join(root, 'digits_delayed'))
  await giveName('digits', 'digits_delayed')
  for (const name of ['identity', 'digits', 'ensemble', 'add_sub']) await under(name).prepare(root, 1)
  await cp(path.join(root, 'simple'), path.join(root, 'simple_again'), { recursive: true })
  await giveName('simple', 'simple_again')
  return root
}

type Reading = { readonly resident: number; readonly own: number }

const readingOf = (pid: number): Reading => ({ resident: residentMibOf(pid), own: ownMibOf(pid) })

async function atRest(server: SuiteSubject): Promise<Reading> {
  await pause(restMs)
  return readingOf(server.pid)
}

async function loadAll(server: SuiteSubject, secondsPerRun: number): Promise<Reading> {
  await using load = new SuiteLoad(1)
  let most: Reading = { resident: 0, own: 0 }
  for (const name of ['identity', 'simple', 'digits', 'ensemble', 'add_sub']) {
    for (const transport of ['binary', 'json', 'grpc'] satisfies Transport[]) {
      const key = `${name} ${transport}`
      await load.open(key, loadOf(under(name), transport, server, null))
      const shape = { kind: 'concurrency', lanes } as const
      await load.run(key, { shape, pid: server.pid, settleMs: 0, windowMs: secondsPerRun * 1000, atLeast: 1 })
      const reading = readingOf(server.pid)
      if (reading.resident > most.resident) most = reading
    }
  }
  return most
}

type Start = (repository: string) => Promise<SuiteSubject | null>

async function measure(start: Start, one: string, seven: string, seconds: number): Promise<Map<string, Reading>> {
  const readings = new Map<string, Reading>()
  {
    await using server = await start(one)
    if (server !== null) readings.set('idle, one ONNX model', await atRest(server))
  }
  await using server = await start(seven)
  if (server === null) return readings
  readings.set('idle, seven models, one of them Python', await atRest(server))
  readings.set('most under load, seven models', await loadAll(server, seconds))
  readings.set('at rest after the load, seven models', await atRest(server))
  return readings
}

const targets: Readonly<Record<string, number | null>> = {
  'idle, one ONNX model': 80,
  'idle, seven models, one of them Python': 140,
  'most under load, seven models': null,
  'at rest after the load, seven models': 200,
}

export const bench: Bench = {
  name: 'memory',
  summary: 'resident memory: idle with one model and with seven, under load, and at rest after it',
  async run({ rounds, secondsPerRun, say }: BenchSettings) {
    const python = await preparePython(projectRoot)
    if ('python' in python) process.env['GALATEA_TEST_PYTHON'] = python.python
    await using one = await createSimpleRepository()
    await using compiled = await createCompiledPackage()
    const root = await mkdtemp(path.join(tmpdir(), 'galatea-seven-'))
    const seven = await createSevenModels(root)
    const startOurs: Start = (repository) => startGalateaSubject(repository, compiled.launcher)
    const startTheirs: Start = (repository) => startTritonSubject(repository, 'Triton', say)
    const ours: Map<string, Reading>[] = []
    const theirs: Map<string, Reading>[] = []
    for (let round = 0; round < rounds; round++) {
      ours.push(await measure(startOurs, one.path, seven, secondsPerRun))
      theirs.push(await measure(startTheirs, one.path, seven, secondsPerRun))
    }
    await rm(root, { recursive: true, force: true })
    return Object.entries(targets).map(([what, target]): Figure => {
      const median = (runs: Map<string, Reading>[], of: keyof Reading): number =>
        medianOf(runs.flatMap((run) => run.get(what)?.[of] ?? []))
      const text = (runs: Map<string, Reading>[]): string =>
        `${median(runs, 'resident').toFixed(0)} MiB resident, ${median(runs, 'own').toFixed(0)} of it not in files`
      const hasTheirs = theirs.some((run) => run.has(what))
      const detail = `Galatea ${text(ours)}${hasTheirs ? `; Triton ${text(theirs)}` : ''}`
      say(`${what}: ${detail}`)
      const at = target === null ? null : ({ kind: 'at most', value: target } as const)
      return { what, value: median(ours, 'resident'), unit: 'MiB', target: at, detail }
    })
  },
}
