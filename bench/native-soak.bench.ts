// Triton's own onnxruntime backend without a protocol around it: what server and host take for an inference, and whether the host grows with
// a million inferences, and how soon it is ready. GALATEA_NATIVE_INFERENCES is another number of inferences.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { createEngine, type EmbeddedEngine } from '../src/embedded-engine.ts'
import { MemoryLog } from '../test/fakes/memory-log.ts'
import { medianOf, type Bench, type Figure } from './bench.ts'
import { backendDirectory, backendLibrary, createNativeRepository } from './native-repository.ts'
import { cpuMicrosecondsOf, familyOf, residentMibOf } from './process-usage.ts'

const inferences = Number(process.env['GALATEA_NATIVE_INFERENCES'] ?? 1_000_000)
const warmUp = 20_000
const measured = 10_000
const soakInFlight = 32
/** After this share of the inferences the host has all the memory that it needs. */
const settledShare = 0.1

const values = Int32Array.from({ length: 16 }, (_, i) => i)
const input = { data: values, shape: [1, 16], datatype: 'INT32' as const }

async function infer(engine: EmbeddedEngine, count: number, inFlight: number): Promise<void> {
  const one = async (): Promise<void> => {
    for (let i = 0; i < count / inFlight; i++) await engine.infer('simple', { INPUT0: input, INPUT1: input })
  }
  await Promise.all(Array.from({ length: inFlight }, one))
}

async function cpuOf(engine: EmbeddedEngine, inFlight: number, rounds: number): Promise<number> {
  await infer(engine, warmUp, inFlight)
  const runs: number[] = []
  for (let round = 0; round < rounds; round++) {
    const before = cpuMicrosecondsOf(process.pid)
    await infer(engine, measured, inFlight)
    runs.push((cpuMicrosecondsOf(process.pid) - before) / measured)
  }
  return medianOf(runs)
}

/** Objects of the host that were alive when its instance ended, as the verbose log has them. */
function aliveIn(log: MemoryLog): number {
  const line = log.entries.map(({ message }) => message).findLast((message) => message.startsWith('objects alive: '))
  assert.ok(line !== undefined, 'the host said which objects are alive')
  return Object.values(JSON.parse(line.slice(line.indexOf('{'))) as Record<string, number>).reduce((a, b) => a + b, 0)
}

async function measureCpu(modelRepository: string, rounds: number): Promise<Figure[]> {
  const engine = await createEngine({ modelRepository, backendDirectory })
  const figures: Figure[] = []
  for (const [inFlight, most] of [
    [1, 60],
    [16, 10],
  ] as const) {
    const value = await cpuOf(engine, inFlight, rounds)
    const target = { kind: 'at most', value: most } as const
    figures.push({ what: `CPU of server and host, ${inFlight} in flight`, value, unit: 'µs', target, detail: '' })
  }
  await engine.close()
  return figures
}

async function soak(modelRepository: string): Promise<Figure[]> {
  // A verbose log, which the measurement of CPU must not have: the host says what is alive.
  const log = new MemoryLog()
  const engine = await createEngine({ modelRepository, backendDirectory, log })
  const [, host = 0] = familyOf(process.pid)
  await infer(engine, inferences * settledShare, soakInFlight)
  const settled = residentMibOf(host)
  await infer(engine, inferences * (1 - settledShare), soakInFlight)
  const growth = residentMibOf(host) - settled
  await engine.unload('simple')
  await engine.close()
  const most = (value: number): NonNullable<Figure['target']> => ({ kind: 'at most', value })
  const detail = `${inferences} inferences, the host has ${settled.toFixed(1)} MiB`
  return [
    { what: 'growth of the host', value: growth, unit: 'MiB', target: most(0.5), detail },
    { what: 'objects alive after the unload', value: aliveIn(log), unit: '', target: most(0), detail: '' },
  ]
}

/** From the spawn of the host to its first answer, with the pass that completes the configuration. And what the host has of memory then. */
async function measureStart(modelRepository: string, rounds: number): Promise<Figure[]> {
  const engine = await createEngine({ modelRepository, backendDirectory })
  const starts: number[] = []
  for (let round = 0; round < rounds; round++) {
    await engine.unload('simple')
    const startMs = performance.now()
    await engine.load('simple')
    await infer(engine, 1, 1)
    starts.push(performance.now() - startMs)
  }
  const [, host = 0] = familyOf(process.pid)
  const memory = residentMibOf(host)
  await engine.close()
  return [
    {
      what: 'load to first answer',
      value: medianOf(starts),
      unit: 'ms',
      target: { kind: 'at most', value: 150 },
      detail: '',
    },
    // The bound is for the host alone, and this is the host with the backend.
    {
      what: 'memory of host and backend',
      value: memory,
      unit: 'MiB',
      target: null,
      detail: 'the host may have 25 above the backend',
    },
  ]
}

export const bench: Bench = {
  name: 'native-soak',
  summary: "Triton's own onnxruntime backend without a protocol: CPU of server and host, and a million inferences",
  async run({ rounds, say }) {
    if (!existsSync(backendLibrary)) {
      say('GALATEA_TRITON_BACKENDS names no folder with onnxruntime/libtriton_onnxruntime.so: nothing is measured')
      return []
    }
    await using repository = await createNativeRepository()
    return [
      ...(await measureCpu(repository.path, rounds)),
      ...(await measureStart(repository.path, rounds)),
      ...(await soak(repository.path)),
    ]
  },
}
