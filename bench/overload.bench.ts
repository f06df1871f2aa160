// What is left of a server's best throughput when more is asked of it, with a bound in the configuration: goodput, the time a refusal takes, and memory, at
// 2, 5 and 10 times the load it can bear. The model takes 20 ms per batch of up to 4 rows: 200 requests per second. And how
// late a request is told that its time-out has passed. A bare echo is given the same load in turn: how late that one is, the
// machine is.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { medianOf, type Bench, type Figure } from './bench.ts'
import { inferRequest } from './infer-request.ts'
import { OpenHttpLoad, quantile, type OpenLoadResult } from './open-http-load.ts'
import { cpuSecondsOf, residentMibOf } from './process-usage.ts'
import { startBareEcho, startGalatea } from './subjects.ts'
import { measureDeadlines } from './waiting-deadlines.ts'

const capacity = 200
const timeoutMs = 30
const waitingCount = 20_000
const config =
  'backend: "identity"\nmax_batch_size: 4\ninstance_group { kind: KIND_CPU count: 1 }\n' +
  'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 64 ] }\n' +
  'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 64 ] }\n' +
  'parameters { key: "execute_delay_ms" value { string_value: "20" } }\ndynamic_batching { default_queue_policy { max_queue_size: 100 } }\n'

export type Overload = {
  readonly factor: number
  readonly runs: OpenLoadResult[]
  /** The bare echo under the same load. */
  readonly bareRuns: OpenLoadResult[]
  /** Of the server, per answer or refusal. */
  readonly cpuUs: number[]
}

const goodput = (run: OpenLoadResult): number => run.okCount / run.seconds

/** The peak, then each factor in turn, `rounds` times; `grewMib`: what the server grew by from the first round to the last. */
export async function measureOverload(
  factors: readonly number[],
  rounds: number,
  seconds: number,
): Promise<{
  readonly peak: number
  readonly overloads: readonly Overload[]
  readonly grewMib: number
  readonly lateMs: readonly number[]
}> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-overload-'))
  try {
    await mkdir(path.join(root, 'slow/1'), { recursive: true })
    await writeFile(path.join(root, 'slow/config.pbtxt'), config)
    await using galatea = await startGalatea([root])
    const tensor = { name: 'INPUT0', datatype: 'FP32', shape: [1, 64], values: new Float32Array(64) }
    await using bare = await startBareEcho()
    const request = inferRequest('slow', [tensor], 'binary')
    using load = await OpenHttpLoad.open(galatea.port, 400, request)
    using bareLoad = await OpenHttpLoad.open(bare.port, 400, request)
    // Warm, and once at the worst, so that growth is what goes on growing.
    await load.run(capacity * Math.max(...factors), seconds)
    const beforeMib = residentMibOf(galatea.pid)
    const peaks: number[] = []
    const overloads = factors.map((factor): Overload => ({ factor, runs: [], bareRuns: [], cpuUs: [] }))
    for (let round = 0; round < rounds; round++) {
      peaks.push(goodput(await load.run(capacity, seconds)))
      for (const { factor, runs, bareRuns, cpuUs } of overloads) {
        const usedSeconds = cpuSecondsOf(galatea.pid)
        const run = await load.run(capacity * factor, seconds)
        cpuUs.push(((cpuSecondsOf(galatea.pid) - usedSeconds) * 1e6) / (run.okCount + run.refusedCount))
        runs.push(run)
        bareRuns.push(await bareLoad.run(capacity * factor, seconds))
      }
    }
    using impatient = await OpenHttpLoad.open(
      galatea.port,
      400,
      inferRequest('slow', [tensor], 'binary', 'binary', '', timeoutMs * 1000),
    )
    const { refusedMs } = await impatient.run(capacity * 2, seconds)
    // What found the queue full was refused at once; the others waited for their time-out.
    const lateMs = refusedMs.filter((ms) => ms >= timeoutMs).map((ms) => ms - timeoutMs)
    const grewMib = residentMibOf(galatea.pid) - beforeMib
    return { peak: medianOf(peaks), overloads, grewMib, lateMs }
  } finally {
    await rm(root, { recursive: true, force: true })
  }
}

const goodputOf = ({ runs }: Overload): number => medianOf(runs.map(goodput))

const leastShare: Readonly<Record<number, number>> = { 2: 0.95, 5: 0.9, 10: 0.9 }

export const bench: Bench = {
  name: 'overload',
  summary: 'goodput, refusals and memory at 2, 5 and 10 times the load that the model can bear',
  async run({ rounds, secondsPerRun, say }) {
    const { peak, overloads, grewMib, lateMs } = await measureOverload([2, 5, 10], rounds, secondsPerRun)
    say(`peak ${peak.toFixed(0)}/s`)
    const figures = overloads.flatMap((overload): Figure[] => {
      const { factor, runs, bareRuns, cpuUs } = overload
      const refusedMs = runs.flatMap((run) => run.refusedMs)
      const p99 = quantile(refusedMs, 0.99)
      const answered = goodputOf(overload)
      const bareMs = bareRuns.flatMap((run) => run.okMs)
      const sent = medianOf(runs.map((run) => (run.okCount + run.refusedCount) / run.seconds))
      const detail =
        `${answered.toFixed(0)}/s answered of ${sent.toFixed(0)}/s, peak ${peak.toFixed(0)}/s; ` +
        `refusals p50 ${quantile(refusedMs, 0.5).toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, ` +
        `a bare echo's p99 ${quantile(bareMs, 0.99).toFixed(1)} ms; ${medianOf(cpuUs).toFixed(0)} µs of processor per answer`
      say(`${factor}×: ${detail}`)
      const least = leastShare[factor] ?? 0
      return [
        {
          what: `goodput at ${factor} × the load, to the peak`,
          value: answered / peak,
          unit: '×',
          target: { kind: 'at least', value: least },
          detail,
        },
        {
          what: `a refusal at ${factor} × the load, p99`,
          value: p99,
          unit: 'ms',
          target: { kind: 'at most', value: 5 },
          detail,
        },
      ]
    })
    const target = { kind: 'at most', value: 64 } as const
    const detail = `resident memory after ${rounds} rounds of overload, against after the first`
    figures.push({ what: 'memory growth under overload', value: grewMib, unit: 'MiB', target, detail })
    figures.push({
      what: `how late a time-out of ${timeoutMs} ms is told, p99`,
      value: quantile(lateMs, 0.99),
      unit: 'ms',
      target: { kind: 'at most', value: 10 },
      detail: `${lateMs.length} requests at 2 × the load, p50 ${quantile(lateMs, 0.5).toFixed(1)} ms, the network's share included`,
    })
    const { lateMs: lateAmongManyMs, timerLateMs } = await measureDeadlines(waitingCount)
    figures.push({
      what: `how late a time-out is among ${waitingCount} that wait, p99`,
      value: quantile(lateAmongManyMs, 0.99),
      unit: 'ms',
      target: { kind: 'at most', value: 10 },
      detail: `p50 ${quantile(lateAmongManyMs, 0.5).toFixed(1)} ms; a timer of its own beside them: p99 ${quantile(timerLateMs, 0.99).toFixed(1)} ms`,
    })
    return figures
  },
}
