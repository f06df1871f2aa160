// A latency target against fixed delays on a bursty load. The real batcher runs in virtual time, on a model of
// 3 ms + 0.15 ms per row, so that the figures are the same on every machine and one run is a minute of traffic.

import { ManualClock } from '../test/fakes/manual-clock.ts'
import type { Instance } from '../src/model/backend.ts'
import type { Batch } from '../src/model/batch.ts'
import { InferenceRequest } from '../src/model/inference-request.ts'
import { InferenceResponse } from '../src/model/inference-response.ts'
import { DynamicBatchScheduler } from '../src/scheduling/dynamic-batch-scheduler.ts'
import type { Bench, Figure } from './bench.ts'
import { quantile } from './open-http-load.ts'

export const sloMs = 25
const maxBatchSize = 32
const executionNs = (rows: number): number => 3e6 + rows * 0.15e6

/** Calm, busy, and a rush in turn; 4100 requests per second are the most that the model can do. */
const phases = [
  { ms: 300, perSecond: 80 },
  { ms: 300, perSecond: 2000 },
  { ms: 100, perSecond: 3900 },
] as const

/** Exponential gaps from a fixed seed: times of arrival, in nanoseconds. */
export function burstyArrivals(seconds: number): number[] {
  let state = 42
  const random = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return (state + 1) / 2 ** 32
  }
  const times: number[] = []
  let phaseStartNs = 0
  for (let i = 0; phaseStartNs < seconds * 1e9; i++) {
    const { ms, perSecond } = phases[i % phases.length] as (typeof phases)[0]
    const endNs = phaseStartNs + ms * 1e6
    for (let at = phaseStartNs; ;) {
      at -= (Math.log(random()) / perSecond) * 1e9
      if (at >= endNs) break
      times.push(at)
    }
    phaseStartNs = endNs
  }
  return times
}

export type TraceResult = {
  readonly latenciesMs: readonly number[]
  readonly executions: number
  /** Answered within the target, per second. */
  readonly goodput: number
}

export function replay(arrivals: readonly number[], batcher: { delayMs?: number; sloMs?: number }): TraceResult {
  const clock = new ManualClock()
  const turns: (() => void)[] = []
  const latenciesMs: number[] = []
  let executions = 0
  const instance: Instance = {
    name: 'modelled',
    isReady: true,
    execute: (batch: Batch) => {
      executions++
      clock.after(executionNs(batch.batchSize), () => {
        for (const request of batch.requests) request.respond(InferenceResponse.of([]))
        batch.executed()
      })
    },
    close: () => Promise.resolve(),
  }
  const scheduler = new DynamicBatchScheduler({ clock, afterThisTurn: (fire) => void turns.push(fire) }, [instance], {
    limits: {
      maxBatchSize,
      preferredBatchSizes: new Set(),
      largestPreferredBatchSize: maxBatchSize,
      maxQueueDelayNs: (batcher.delayMs ?? 0) * 1e6,
      canJoin: null,
    },
    queue: {
      priorityLevels: 0n,
      defaultPriorityLevel: 0n,
      defaultPolicy: null,
      policyByLevel: new Map(),
      defaultMaxQueueSize: 1000,
    },
    preservesOrder: false,
    sloNs: batcher.sloMs === undefined ? null : batcher.sloMs * 1e6,
  })
  const endTurn = (): void => {
    for (let fire = turns.pop(); fire !== undefined; fire = turns.pop()) fire()
  }
  for (const at of arrivals) {
    clock.advanceNs(at - clock.nowNs())
    const sink = (): void => void latenciesMs.push((clock.nowNs() - at) / 1e6)
    const request = new InferenceRequest({ modelName: 'm', inputs: [], sink })
    request.batchSize = 1
    scheduler.enqueue(request)
    endTurn()
  }
  clock.advanceNs(1e9)
  const seconds = (arrivals.at(-1) ?? 0) / 1e9
  const inTime = latenciesMs.filter((ms) => ms <= sloMs).length
  return { latenciesMs, executions, goodput: inTime / seconds }
}

export const bench: Bench = {
  name: 'adaptive-delay',
  summary: 'a latency target against fixed delays on a bursty load, in virtual time',
  run({ say }) {
    const arrivals = burstyArrivals(60)
    const adaptive = replay(arrivals, { sloMs })
    const describe = ({ latenciesMs, executions, goodput }: TraceResult): string =>
      `${goodput.toFixed(0)}/s in time, p50 ${quantile(latenciesMs, 0.5).toFixed(1)} ms, p99 ${quantile(latenciesMs, 0.99).toFixed(1)} ms, ${executions} executions`
    say(`slo ${sloMs} ms: ${describe(adaptive)}`)
    const p99: Figure = {
      what: 'latency target on a bursty load: p99 to slo_ms',
      value: quantile(adaptive.latenciesMs, 0.99) / sloMs,
      unit: '×',
      target: { kind: 'at most', value: 1 },
      detail: describe(adaptive),
    }
    const against = [0, 2, 5, 10, 20].map((delayMs): Figure => {
      const fixed = replay(arrivals, { delayMs })
      say(`fixed ${delayMs} ms: ${describe(fixed)}`)
      return {
        what: `answers in time, latency target to a fixed delay of ${delayMs} ms`,
        value: adaptive.goodput / fixed.goodput,
        unit: '×',
        target: { kind: 'at least', value: 1 },
        detail: `fixed: ${describe(fixed)}`,
      }
    })
    const undelayed = replay(arrivals, { delayMs: 0 })
    const work: Figure = {
      what: 'executions, latency target to no delay',
      value: adaptive.executions / undelayed.executions,
      unit: '×',
      target: { kind: 'at most', value: 1 },
      detail: `${adaptive.executions} and ${undelayed.executions} for the same ${arrivals.length} requests`,
    }
    return Promise.resolve([p99, work, ...against])
  },
}
