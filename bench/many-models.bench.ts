// What a model costs that nobody calls: start-up, memory and processor time of a repository of 500 small models, all of
// them lazy or all of them loaded, beside a repository of one.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { alternate, medianOf, type Bench, type Figure } from './bench.ts'
import { cpuSecondsOf, residentMibOf } from './process-usage.ts'

const modelCount = 500
/** Garbage of the start is gone by then. */
const settleMs = 1500

const configText = `backend: "identity"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
`

type Repository = AsyncDisposable & { readonly path: string }

const createRepository = async (count: number): Promise<Repository> => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-many-'))
  for (let i = 0; i < count; i++) {
    const folder = path.join(root, `model_${i}`)
    await mkdir(path.join(folder, '1'), { recursive: true })
    await writeFile(path.join(folder, 'config.pbtxt'), configText)
    await writeFile(path.join(folder, '1', 'weights.bin'), Buffer.alloc(4096, i))
  }
  return { path: root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) }
}

type Start = { readonly seconds: number; readonly cpuSeconds: number; readonly mib: number }

const measure = async (repository: Repository, flags: readonly string[]): Promise<Start> => {
  const startedMs = performance.now()
  await using server = await startServerProcess([`--model-repository=${repository.path}`, '--log-info=true', ...flags])
  const seconds = (performance.now() - startedMs) / 1000
  const cpuSeconds = cpuSecondsOf(server.pid)
  await pause(settleMs)
  return { seconds, cpuSeconds, mib: residentMibOf(server.pid) }
}

export const bench: Bench = {
  name: 'many-models',
  summary: `start, memory and processor time of ${modelCount} small models, lazy and loaded, beside one`,
  async run({ rounds, say }) {
    await using many = await createRepository(modelCount)
    await using one = await createRepository(1)
    const lazy = '--model-lazy-load=true'
    const starts = await alternate(rounds, {
      lazy: () => measure(many, [lazy]),
      loaded: () => measure(many, []),
      one: () => measure(one, [lazy]),
    })
    for (const [name, runs] of Object.entries(starts)) {
      say(`${name}: ready after ${runs.map((run) => run.seconds.toFixed(2)).join(' ')} s`)
    }
    const median = (name: keyof typeof starts, of: (start: Start) => number): number => medianOf(starts[name].map(of))
    const perModel = (name: 'lazy' | 'loaded', of: (start: Start) => number): number =>
      Math.max(0, median(name, of) - median('one', of)) / (modelCount - 1)
    return (['lazy', 'loaded'] as const).flatMap((name): Figure[] => [
      {
        what: `start with ${modelCount} models, ${name}`,
        value: median(name, (start) => start.seconds),
        unit: 's',
        target: null,
        detail: `with one ${median('one', (start) => start.seconds).toFixed(2)} s`,
      },
      {
        what: `memory per model, ${name}`,
        value: perModel(name, (start) => start.mib) * 1024,
        unit: 'KiB',
        target: name === 'lazy' ? { kind: 'at most', value: 1024 } : null,
        detail: `resident in all ${median(name, (start) => start.mib).toFixed(0)} MiB, with one ${median('one', (start) => start.mib).toFixed(0)} MiB`,
      },
      {
        what: `processor time per model at start, ${name}`,
        value: perModel(name, (start) => start.cpuSeconds) * 1000,
        unit: 'ms',
        target: name === 'lazy' ? { kind: 'at most', value: 5 } : null,
        detail: `of all threads, so the main thread has less; with one ${median('one', (start) => start.cpuSeconds).toFixed(2)} s`,
      },
    ])
  },
}
