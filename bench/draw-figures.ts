// Draws the figures of docs/guide from a run on this machine: `npx node bench/draw-figures.ts`, or with the names of some.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import path from 'node:path'
import { burstyArrivals, replay, sloMs } from './adaptive-delay.bench.ts'
import { HttpLoad } from './http-load-process.ts'
import { inferRequest } from './infer-request.ts'
import { quantile } from './open-http-load.ts'
import { measureGoodput } from './impatience.bench.ts'
import { startGalatea } from './subjects.ts'
import { lineChart, type ChartPoint } from '../src/perf/svg-chart.ts'
import { wideSize, writeWideModel } from './wide-model.ts'

const folder = path.join(import.meta.dirname, '../docs/guide/figures')
const machine = `${availableParallelism()} cores of ${cpus()[0]?.model.trim() ?? 'unknown'}, Node ${process.version}, ${new Date().toISOString().slice(0, 10)}`

async function drawBatching(): Promise<string> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-figure-'))
  try {
    await writeWideModel(root, 'alone', '')
    await writeWideModel(root, 'batched', 'dynamic_batching { }\n')
    await using galatea = await startGalatea([root])
    const values = new Float32Array(wideSize).fill(0.5)
    const tensor = { name: 'X', datatype: 'FP32', shape: [1, wideSize], values }
    const points: Record<string, ChartPoint[]> = { batched: [], alone: [] }
    for (const clients of [1, 2, 4, 8, 16, 32, 64]) {
      for (const [model, line] of Object.entries(points)) {
        await using load = await HttpLoad.open(galatea, clients, inferRequest(model, [tensor], 'binary'))
        await load.run(0.3)
        line.push([clients, (await load.run(1)).requestsPerSecond])
      }
    }
    return lineChart({
      title: 'One ONNX model, batched and one by one',
      x: { label: 'clients at the same time' },
      y: { label: 'answers per second' },
      series: [
        { name: 'dynamic_batching { }', points: points['batched'] ?? [] },
        { name: 'no batching', points: points['alone'] ?? [] },
      ],
      note: machine,
    })
  } finally {
    await rm(root, { recursive: true, force: true })
  }
}

function drawAdaptiveDelay(): Promise<string> {
  const arrivals = burstyArrivals(60)
  const shares = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999]
  const curve = (batcher: { delayMs?: number; sloMs?: number }): ChartPoint[] => {
    const { latenciesMs } = replay(arrivals, batcher)
    return shares.map((share) => [share * 100, quantile(latenciesMs, share)])
  }
  const chart = lineChart({
    title: 'Calm, busy and a rush in turn: a latency target and fixed delays',
    x: { label: 'share of requests answered within this time, %', min: 0, max: 100 },
    y: { label: 'milliseconds' },
    series: [
      { name: `slo_ms ${sloMs}`, points: curve({ sloMs }) },
      { name: 'no delay', points: curve({ delayMs: 0 }) },
      { name: 'delay 10 ms', points: curve({ delayMs: 10 }) },
      { name: 'delay 20 ms', points: curve({ delayMs: 20 }) },
      { name: 'the target', points: [[0, sloMs], [100, sloMs]], isDashed: true }, // prettier-ignore
    ],
    note: 'one minute of traffic in virtual time; a model of 3 ms + 0.15 ms per row, max_batch_size 32',
  })
  return Promise.resolve(chart)
}

async function drawOverload(): Promise<string> {
  const factors = [0.5, 0.8, 1, 1.5, 2, 3, 5, 10, 15, 20]
  const after = await measureGoodput(factors, 4, null)
  const before = await measureGoodput(factors, 4, 0)
  return lineChart({
    title: 'Clients that give up after 100 ms, a model of 6 ms',
    x: { label: 'load offered, in multiples of what the model can do', min: 0, max: 20 },
    y: { label: 'answers in time, per second', min: 0 },
    series: [
      { name: 'by default', points: after },
      { name: '--queue-delay-target=0', points: before },
    ],
    note: machine,
  })
}

const figures: Readonly<Record<string, () => Promise<string>>> = {
  batching: drawBatching,
  'adaptive-delay': drawAdaptiveDelay,
  overload: drawOverload,
}

const wanted = process.argv.slice(2)
for (const [name, draw] of Object.entries(figures)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  const file = path.join(folder, `${name}.svg`)
  await writeFile(file, await draw())
  process.stdout.write(`${path.relative(process.cwd(), file)}\n`)
}
