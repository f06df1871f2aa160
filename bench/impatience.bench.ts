// Clients that give up after 100 ms, at 1 to 20 times what a model can do, with defaults: how many answers come in time, and
// how soon after the overload everybody is answered again. The models wait and do not compute, so the load generator beside
// the server has the processor that it needs.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { medianOf, type Bench, type Figure } from './bench.ts'
import { ImpatientHttpLoad, type ImpatientResult } from './impatient-http-load.ts'
import { inferRequest } from './infer-request.ts'
import { quantile } from './open-http-load.ts'

const patienceMs = 100
const head =
  'max_batch_size: 4\ninstance_group { kind: KIND_CPU count: 1 }\n' +
  'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 64 ] }\n' +
  'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 64 ] }\n'
const waits = (ms: number): string => `parameters { key: "execute_delay_ms" value { string_value: "${ms}" } }\n`
const pythonModel = `import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            time.sleep(0.006)
            rows = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", rows)]))
        return answers
`

type Model = { readonly name: string; readonly what: string; readonly perSecond: number; readonly config: string }

const models: readonly Model[] = [
  {
    name: 'single',
    what: 'a model of 6 ms',
    perSecond: 1000 / 6,
    config: `backend: "identity"\n${head}${waits(6)}`,
  },
  {
    name: 'batched',
    what: 'batches of four, 20 ms',
    perSecond: 200,
    config: `backend: "identity"\n${head}${waits(20)}dynamic_batching { }\n`,
  },
  { name: 'python', what: 'a Python model of 6 ms', perSecond: 1000 / 6, config: `backend: "python"\n${head}` },
]

/** A server with these models; `targetMs` as `--queue-delay-target`, null for the default. */
async function serve(targetMs: number | null): Promise<AsyncDisposable & { readonly port: number }> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-impatience-'))
  for (const { name, config } of models) {
    await mkdir(path.join(root, name, '1'), { recursive: true })
    await writeFile(path.join(root, name, 'config.pbtxt'), config)
  }
  await writeFile(path.join(root, 'python/1/model.py'), pythonModel)
  const flags = targetMs === null ? [] : [`--queue-delay-target=${targetMs}`]
  const server = await startServerProcess([`--model-repository=${root}`, ...flags])
  return {
    port: server.port,
    [Symbol.asyncDispose]: async () => {
      await server.stop()
      await rm(root, { recursive: true, force: true })
    },
  }
}

function openLoad(port: number, model: string): ImpatientHttpLoad {
  const tensor = { name: 'INPUT0', datatype: 'FP32', shape: [1, 64], values: new Float32Array(64) }
  return new ImpatientHttpLoad(port, inferRequest(model, [tensor], 'binary'), patienceMs)
}

/** Good answers per second of the model of 6 ms at each factor. */
export async function measureGoodput(
  factors: readonly number[],
  seconds: number,
  targetMs: number | null,
): Promise<[factor: number, perSecond: number][]> {
  await using server = await serve(targetMs)
  using load = openLoad(server.port, 'single')
  await load.run(() => 80, 1)
  const points: [number, number][] = []
  for (const factor of factors) {
    const run = await load.run(() => (factor * 1000) / 6, seconds)
    points.push([factor, run.good / run.seconds])
  }
  return points
}

const leastShare: Readonly<Record<number, number>> = { 2: 0.95, 5: 0.9, 10: 0.9, 20: 0.85 }

function figuresOf(what: string, factor: number, peak: number, runs: readonly ImpatientResult[]): Figure[] {
  const good = medianOf(runs.map((run) => run.good / run.seconds))
  const goodMs = runs.flatMap((run) => run.goodMs)
  const detail =
    `${good.toFixed(0)}/s in time of ${medianOf(runs.map((run) => run.sent / run.seconds)).toFixed(0)}/s, peak ${peak.toFixed(0)}/s; ` +
    `refused ${medianOf(runs.map((run) => run.refused / run.seconds)).toFixed(0)}/s after ` +
    `${quantile(
      runs.flatMap((run) => run.refusedMs),
      0.5,
    ).toFixed(1)} ms`
  return [
    {
      what: `${what}: good answers at ${factor} × the load, to the peak`,
      value: good / peak,
      unit: '×',
      target: { kind: 'at least', value: leastShare[factor] ?? 0 },
      detail,
    },
    {
      what: `${what}: p99 of good answers at ${factor} × the load`,
      value: quantile(goodMs, 0.99),
      unit: 'ms',
      target: { kind: 'at most', value: 90 },
      detail,
    },
  ]
}

export const bench: Bench = {
  name: 'impatience',
  summary: 'clients that give up after 100 ms, at 2 to 20 times the load: good answers, and the time to recover',
  async run({ rounds, secondsPerRun, say }) {
    await using server = await serve(null)
    const seconds = Math.max(4, secondsPerRun)
    const figures: Figure[] = []
    for (const { name, what, perSecond } of models) {
      using load = openLoad(server.port, name)
      await load.run(() => perSecond / 2, 1)
      const runsOf = new Map<number, ImpatientResult[]>([2, 5, 10, 20].map((factor) => [factor, []]))
      const lateShares: number[] = []
      for (let round = 0; round < rounds; round++) {
        for (const [factor, runs] of runsOf) {
          runs.push(await load.run(() => factor * perSecond, seconds))
          // One second after the end everybody must be answered again.
          await load.run(() => perSecond / 2, 1)
          const calm = await load.run(() => perSecond / 2, 1)
          lateShares.push(calm.good / calm.sent)
        }
      }
      // The best of all runs: near its capacity a model with random arrivals is below its peak.
      const peak = Math.max(...[...runsOf.values()].flat().map((run) => run.good / run.seconds))
      for (const [factor, runs] of runsOf) figures.push(...figuresOf(what, factor, peak, runs))
      figures.push({
        what: `${what}: answered from one second after an overload on`,
        value: medianOf(lateShares),
        unit: '×',
        target: { kind: 'at least', value: 0.95 },
        detail: 'of the requests at half the load',
      })
    }
    for (const { what, value, unit, detail } of figures) say(`${what}: ${value.toFixed(2)} ${unit} (${detail})`)
    return figures
  },
}
