// Dynamic batching against none at 64 connections, on a tiny ONNX model, on a larger one that gains from batches, and on
// one whose execution costs the same whatever its size; what the scheduler itself costs per request, and how exactly it
// waits.

import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Instance } from '../src/model/backend.ts'
import type { Scheduler } from '../src/model/scheduler.ts'
import { SystemClock } from '../src/base/clock.ts'
import { InferenceRequest } from '../src/model/inference-request.ts'
import { InferenceResponse } from '../src/model/inference-response.ts'
import { DirectScheduler } from '../src/scheduling/direct-scheduler.ts'
import { DynamicBatchScheduler } from '../src/scheduling/dynamic-batch-scheduler.ts'
import { Tensor } from '../src/tensor/tensor.ts'
import { OnnxHarness } from '../test/fixtures/onnx/onnx-harness.ts'
import { exampleModels } from '../test/e2e/server-process.ts'
import { alternate, medianOf, medianRatio, type Bench, type Figure } from './bench.ts'
import { HttpLoad, type LoadMeasurement } from './http-load-process.ts'
import { inferRequest } from './infer-request.ts'
import { startGalatea } from './subjects.ts'
import { wideModel, wideSize, writeWideModel } from './wide-model.ts'

const connections = 64
const rate = (measured: LoadMeasurement): number => measured.requestsPerSecond
const cpu = (measured: LoadMeasurement): number => measured.cpuUsPerRequest

/** `digits`, a model of 2 ms per execution and `wide`, each with and without dynamic batching. */
async function createRepository(): Promise<AsyncDisposable & { readonly path: string }> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-batching-'))
  const digits = await readFile(path.join(exampleModels, 'digits/config.pbtxt'), 'utf8')
  const steady =
    'backend: "identity"\nmax_batch_size: 64\ninstance_group { kind: KIND_CPU count: 1 }\n' +
    'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 64 ] }\n' +
    'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 64 ] }\n' +
    'parameters { key: "execute_delay_ms" value { string_value: "2" } }\n'
  for (const [suffix, batching] of [
    ['alone', ''],
    ['batched', 'dynamic_batching { }\n'],
  ] as const) {
    await cp(path.join(exampleModels, 'digits'), path.join(root, `digits_${suffix}`), { recursive: true })
    const config = digits.replace('name: "digits"\n', '').replace(/^dynamic_batching .*$/m, '') + batching
    await writeFile(path.join(root, `digits_${suffix}/config.pbtxt`), config)
    await mkdir(path.join(root, `steady_${suffix}/1`), { recursive: true })
    await writeFile(path.join(root, `steady_${suffix}/config.pbtxt`), steady + batching)
    await writeWideModel(root, `wide_${suffix}`, batching)
  }
  return { path: root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) }
}

/** Finishes before `execute` returns: what is left is the scheduler. */
const instantInstance: Instance = {
  name: 'instant',
  isReady: true,
  execute: (batch) => {
    for (const request of batch.requests) request.respond(empty)
    batch.executed()
  },
  close: () => Promise.resolve(),
}
const empty = InferenceResponse.of([])

const burst = 8
const bursts = 20_000

function microsecondsPerRequest(make: (turns: (() => void)[]) => Scheduler | null): number {
  const turns: (() => void)[] = []
  const scheduler = make(turns)
  const started = performance.now()
  for (let i = 0; i < bursts; i++) {
    for (let j = 0; j < burst; j++) {
      const request = new InferenceRequest({ modelName: 'm', inputs: [], sink: () => undefined })
      request.batchSize = 1
      if (scheduler === null) request.respond(empty)
      else scheduler.enqueue(request)
    }
    for (let fire = turns.pop(); fire !== undefined; fire = turns.pop()) fire()
  }
  return ((performance.now() - started) * 1000) / (bursts * burst)
}

const dynamicScheduler = (turns: (() => void)[]): Scheduler =>
  new DynamicBatchScheduler(
    { clock: new SystemClock(), afterThisTurn: (fire) => void turns.push(fire) },
    [instantInstance],
    {
      limits: {
        maxBatchSize: burst,
        preferredBatchSizes: new Set(),
        largestPreferredBatchSize: burst,
        maxQueueDelayNs: 0,
        canJoin: null,
      },
      queue: {
        priorityLevels: 0n,
        defaultPriorityLevel: 0n,
        defaultPolicy: null,
        policyByLevel: new Map(),
        defaultMaxQueueSize: 100,
      },
      preservesOrder: false,
    },
  )

function overheadFigures(rounds: number): Figure[] {
  const measure = (make: (turns: (() => void)[]) => Scheduler | null): number => {
    microsecondsPerRequest(make)
    return medianOf(Array.from({ length: rounds }, () => microsecondsPerRequest(make)))
  }
  const bare = measure(() => null)
  const direct = measure(
    () => new DirectScheduler({ clock: new SystemClock() }, [instantInstance], { maxQueueSize: 100 }),
  )
  const dynamic = measure(dynamicScheduler)
  const detail = `request alone ${bare.toFixed(2)} µs, through the direct scheduler ${direct.toFixed(2)} µs, dynamic ${dynamic.toFixed(2)} µs`
  const target = { kind: 'at most', value: 15 } as const
  return [{ what: 'scheduler, per request at batch 8', value: dynamic - bare, unit: 'µs', target, detail }]
}

/** Its weights do not fit into the caches: one row costs as much memory traffic as many. */
async function ownGain(rounds: number): Promise<Figure> {
  const harness = await OnnxHarness.open()
  const parameters = { intra_op_thread_count: '1', execution: 'inline' }
  const model = await harness.load(wideModel(), { name: 'wide', parameters })
  const usPerRow = async (rows: number): Promise<number> => {
    const input = new Tensor('X', 'FP32', [rows, wideSize], new Uint8Array(rows * wideSize * 4))
    const started = performance.now()
    let count = 0
    for (; performance.now() - started < 150; count++) (await model.infer([input])).release()
    return ((performance.now() - started) * 1000) / (count * rows)
  }
  const { one, many } = await alternate(rounds, { one: () => usPerRow(1), many: () => usPerRow(32) })
  await model.close()
  await harness.close()
  const detail = `${medianOf(one).toFixed(0)} µs per row alone, ${medianOf(many).toFixed(0)} µs in a batch of 32, no server`
  const value = medianRatio(one, many, (us) => us)
  return { what: "the model 'wide' itself, rows per second, 32 to 1", value, unit: '×', target: null, detail }
}

/** How late a wait of 100, 300 and 1000 µs ends. */
async function waitFigure(): Promise<Figure> {
  const clock = new SystemClock()
  const lateUs: number[] = []
  for (let i = 0; i < 300; i++) {
    const waitNs = ([100, 300, 1000][i % 3] ?? 100) * 1000
    const dueNs = clock.nowNs() + waitNs
    await new Promise<void>((resolve) => clock.afterExactly(waitNs, resolve))
    lateUs.push((clock.nowNs() - dueNs) / 1000)
  }
  lateUs.sort((a, b) => a - b)
  const at = (share: number): string => (lateUs[Math.floor(lateUs.length * share)] ?? NaN).toFixed(1)
  const detail = `waits of 100 to 1000 µs: median ${at(0.5)} µs late, 90 % within ${at(0.9)} µs, 99 % within ${at(0.99)} µs`
  return { what: 'how late a wait for a batch ends, median', value: medianOf(lateUs), unit: 'µs', target: null, detail }
}

export const bench: Bench = {
  name: 'batching',
  summary: 'dynamic batching against none at 64 connections, and what the scheduler costs per request',
  async run({ rounds, secondsPerRun, say }) {
    const figures = [...overheadFigures(rounds), await waitFigure(), await ownGain(rounds)]
    for (const { detail } of figures) say(detail)
    await using repository = await createRepository()
    await using galatea = await startGalatea([repository.path])
    for (const [model, input] of [
      ['digits', 'pixels'],
      ['steady', 'INPUT0'],
      ['wide', 'X'],
    ] as const) {
      const length = model === 'wide' ? wideSize : 64
      const values = Float32Array.from({ length }, (_, index) => index % 17)
      const tensor = { name: input, datatype: 'FP32', shape: [1, length], values }
      const open = (suffix: string): Promise<HttpLoad> =>
        HttpLoad.open(galatea, connections, inferRequest(`${model}_${suffix}`, [tensor], 'binary'))
      await using batchedLoad = await open('batched')
      await using aloneLoad = await open('alone')
      for (const load of [batchedLoad, aloneLoad]) await load.run(1, 1)
      const { batched, alone } = await alternate(rounds, {
        batched: () => batchedLoad.run(secondsPerRun),
        alone: () => aloneLoad.run(secondsPerRun),
      })
      const describe = (runs: readonly LoadMeasurement[]): string =>
        `${medianOf(runs.map(rate)).toFixed(0)}/s, ${medianOf(runs.map(cpu)).toFixed(0)} µs CPU, ` +
        `p99 ${(medianOf(runs.map((run) => run.p99Us)) / 1000).toFixed(1)} ms`
      const detail = `batched ${describe(batched)}; alone ${describe(alone)}`
      say(`${model}: ${detail}`)
      const what = `throughput of ${model}, batched to alone, c=${connections}`
      const target = model === 'digits' ? null : ({ kind: 'at least', value: 3 } as const)
      figures.push({ what, value: medianRatio(batched, alone, rate), unit: '×', target, detail })
    }
    return figures
  },
}
